"""`spyre-ci select`: the tests of a stage; `spyre-ci select diff`: what changed between two of anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ci.core.text import counted
from ci.steps import options
from ci.steps.collecting import noted_source
from ci.steps.comparing import find_side
from ci.steps.folder import CATALOG_FILE
from ci.steps.planning import past_durations
from ci.steps.selecting import refuse_nothing, select_step, selected_lines
from ci.steps.share import share_of
from test_selection.catalog import read_catalog
from test_selection.difference import compare, difference_json, difference_lines
from test_selection.files import document_text

app = typer.Typer(invoke_without_command=True)
In = Annotated[Path | None, typer.Option(help="File to read; default: the run folder's.")]
Out = Annotated[Path | None, typer.Option("--out", help="File to write; default: the run folder's.")]


@app.callback()
def select(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: In = None,
    out: Out = None,
    stage: options.Stage = None,
    percent: options.Percent = None,
    by: options.By = None,
    files: options.Files = None,
    keyword: options.Keyword = None,
    ids: options.Ids = None,
    bucket: options.Bucket = None,
    relock: options.Relock = False,
    json_output: options.Json = False,
) -> None:
    """Choose the tests of a stage from a catalog into `selection.json`.

    Example: spyre-ci select --run-dir runs/nightly --stage 2
    """
    if ctx.invoked_subcommand is not None:
        options.refuse_before_verb(ctx)
        return
    context = options.make_context(ctx, {}, json_output=json_output)
    folder = options.run_folder(context, run_dir, out, catalog, holding=CATALOG_FILE, writes=True)
    share = share_of(
        context,
        stage=stage,
        percent=percent,
        files=options.split_files(files),
        keyword=keyword,
        ids=ids or (),
        bucket=bucket,
        by=by,
    )
    noted = noted_source(context, folder)
    collected = read_catalog(catalog or folder.catalog)
    selection = select_step(
        context,
        collected,
        share,
        out=out or folder.selection,
        source=noted,
        durations=past_durations(context, collected.device),
        relocking=relock,
    )
    for line in selected_lines(selection):
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
    catalog: In = None,
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
    difference = compare(find_side(context, named, a), find_side(context, named, b))
    for line in difference_lines(difference):
        context.say(line)
    if json_output:
        typer.echo(document_text("select-diff", difference_json(difference)))
