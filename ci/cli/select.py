"""`spyre-ci select`: the tests of a stage; `spyre-ci select diff`: what changed between two of anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ci.core.errors import BadFileError, MissingInputError, SpyreCiError, UsageError
from ci.core.text import counted
from ci.steps import options
from ci.steps.change_order import ChangeRequest, named_lines
from ci.steps.collect import noted_source
from ci.steps.context import Context
from ci.steps.folder import CATALOG_FILE, RunFolder
from ci.steps.plan import past_durations
from ci.steps.select import choose, in_scope, refuse_nothing, select_step, selected_lines
from ci.steps.selection_lock import find_lock, stage_members
from ci.steps.share import ShareRequest, share_of
from test_selection.catalog import KIND as CATALOG
from test_selection.catalog import read_catalog
from test_selection.difference import Side, compare, difference_json, difference_lines
from test_selection.files import document_text, read_lines
from test_selection.lock import KIND as LADDER
from test_selection.lock import read_lock
from test_selection.selection import read_selection

app = typer.Typer(invoke_without_command=True)


@app.callback()
def select(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: options.In = None,
    out: options.Out = None,
    stage: options.Stage = None,
    percent: options.Percent = None,
    by: options.By = None,
    files: options.Files = None,
    keyword: options.Keyword = None,
    ids: options.Ids = None,
    tier: options.Tier = None,
    relock: options.Relock = False,
    changed: options.Changed = None,
    changed_diff: options.ChangedDiff = None,
    budget: options.Budget = None,
    seconds: options.BudgetSeconds = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print each test that the change can break, and why.")
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Select a stage's share of the tests into `selection.json`.

    With --changed or --diff, tests that the change can break come first; with a budget, the others are left
    out, and the selection is no stage.

    Example: spyre-ci select --run-dir runs/nightly --stage 2

    Example: spyre-ci select --run-dir runs/nightly --changed origin/main..HEAD --budget evidence
    """
    if ctx.invoked_subcommand is not None:
        options.refuse_before_verb(ctx)
        return
    context = options.make_context(ctx, {}, json_output=json_output)
    folder = options.run_folder(context, run_dir, out, catalog, holding=CATALOG_FILE, writes=True)
    request = ShareRequest(
        stage=stage,
        percent=percent,
        files=options.split_files(files),
        keyword=keyword,
        ids=tuple(ids or ()),
        tier=tier,
        by=by,
    )
    share = share_of(context, request)
    change = ChangeRequest(commits=changed, diff=changed_diff, budget=budget, seconds=seconds)
    noted = noted_source(context, folder)
    collected = read_catalog(catalog or folder.catalog)
    durations = past_durations(context, collected.device)
    selection = select_step(
        context,
        collected,
        share,
        out=out or folder.selection,
        source=noted,
        durations=durations,
        relocking=relock,
        change=change,
    )
    for line in selected_lines(selection):
        context.say(line)
    if explain and selection.change is not None:
        for line in named_lines(selection.change):
            context.say(line)
    if errors := selection.collect_errors:
        context.say(f"{counted(len(errors), 'file')} in scope could not be collected, such as {min(errors)}")
    context.say(f"{sum(selection.out_of_scope.values()):,} are out of scope")
    for code, count in selection.out_of_scope.items():
        context.say(f"  {count:>9,} {code}")
    if json_output:
        content = {
            "selection": out or folder.selection,
            "stage": selection.stage,
            "percent": selection.percent,
            "tests": len(selection.ids),
            "out_of_scope": selection.out_of_scope,
            "collect_errors": selection.collect_errors,
        }
        typer.echo(document_text("select", content))
    refuse_nothing(selection)


@app.command()
def diff(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A catalog, lock or selection; or a stage's number.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same, after the change.")],
    run_dir: options.RunDir = None,
    catalog: options.In = None,
    json_output: options.Json = False,
) -> None:
    """Show which tests came, went, moved in and moved out from A to B, by file.

    Example: spyre-ci select diff runs/monday/catalog.jsonl.gz runs/friday/catalog.jsonl.gz
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    # A stage is one of a catalog's tests; files have theirs.
    wanted = run_dir is not None or a.isdecimal() or b.isdecimal()
    named = catalog or (
        options.run_folder(context, run_dir, holding=CATALOG_FILE).catalog if wanted else None
    )
    difference = compare(find_side(context, a, named), find_side(context, b, named))
    for line in difference_lines(difference):
        context.say(line)
    if json_output:
        typer.echo(document_text("select-diff", difference_json(difference)))


def find_side(context: Context, named: str, catalog: Path | None = None) -> Side:
    """A side by its name: a file, a run folder, or the number of a stage of the roll-out.

    Args:
        context: the outside world.
        named: what the user called it.
        catalog: that stages are taken of.

    Raises:
        MissingInputError: there is no such file or folder.
        BadFileError: it is none of these, or broken.
        UsageError: a stage is named without a catalog, or one the roll-out does not have.
    """
    path = Path(named)
    if named.isdecimal() and not path.exists():
        return _stage(context, int(named), catalog)
    if path.is_dir():
        folder = RunFolder(path=path)
        path = folder.selection if folder.selection.is_file() else folder.catalog
    if not path.is_file():
        raise MissingInputError(
            "there is no such file", where=named, remedy="name a catalog, lock, selection or run folder"
        )
    if _is(path, CATALOG):
        return Side(name=named, known=[test.id for test in read_catalog(path).tests])
    return _lock(context, named, path) if _is(path, LADDER) else _selection(named, path)


def _lock(context: Context, named: str, path: Path) -> Side:
    lock = read_lock(path)
    tests = lock.order.tests
    return Side(name=named, known=[test.id for test in tests], selected=stage_members(context, lock, tests))


def _selection(named: str, path: Path) -> Side:
    """What was selected, and what could have been where the catalog still lies beside it."""
    try:
        chosen = read_selection(path)
    except BadFileError as error:
        raise BadFileError(
            f"is neither a catalog, a lock nor a selection: {error.what}",
            where=error.where or path,
            remedy="name one of them, such as catalog.jsonl.gz, selection.lock.gz or selection.json of a run",
        ) from error
    beside = RunFolder(path=path.parent).catalog
    known = [test.id for test in read_catalog(beside).tests] if beside.is_file() else None
    return Side(name=named, known=known, selected={"": chosen.ids})


def _stage(context: Context, number: int, catalog: Path | None) -> Side:
    if catalog is None:
        raise UsageError(
            f"stage {number} is named without a catalog",
            remedy="give --run-dir or --catalog, or the name of a file",
        )
    collected = read_catalog(catalog)
    source = noted_source(context, RunFolder(path=catalog.parent))
    share = share_of(context, ShareRequest(stage=number))
    what = in_scope(context, collected, source, past_durations(context, collected.device))
    used = find_lock(context, what)
    inside = choose(context, what, replace(share, percent=100), used=used)
    chosen = choose(context, what, share, used=used)
    return Side(name=f"stage {number}", known=inside.ids, selected={"": chosen.ids})


def _is(path: Path, kind: str) -> bool:
    """Whether a file begins as one of this kind; what follows is for its reader to judge."""
    try:
        next(read_lines(path, kind))
    except SpyreCiError:
        return False
    return True
