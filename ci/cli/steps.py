"""The verbs of the steps: collect, select, plan, run and report, on a run folder or on single files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ci.cli import options
from ci.errors import EXIT_INTERRUPTED, UsageError
from ci.steps.folder import RunFolder, find_run, read_source
from ci.steps.main_job import start_run
from ci.steps.planning import collect_step, plan_step, refuse_nothing, resolve_source, select_step, share_of
from ci.steps.reporting import past_durations, report_shards, report_step
from ci.steps.running import choose_shards, run_step
from test_selection.catalog import read_catalog
from test_selection.durations import read_durations
from test_selection.files import read_json
from test_selection.plan import read_plan
from test_selection.selection import read_selection

In = Annotated[Path | None, typer.Option(help="File to read; default: the run folder's.")]
Out = Annotated[Path | None, typer.Option("--out", help="File to write; default: the run folder's.")]


def collect(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    source: options.Source = None,
    stage: options.Stage = None,
    percent: options.Percent = None,
    device: options.Device = None,
    files: options.Files = None,
    json_output: options.Json = False,
) -> None:
    """Collect the tests of a tree into `catalog.jsonl.gz` of a new run folder, or of --run-dir.

    Example: spyre-ci collect --pytorch-src ~/pytorch --files 'test_view_ops.py'
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    share = share_of(
        context,
        stage=stage,
        percent=percent,
        files=options.split_files(files),
        keyword=None,
        ids=(),
    )
    found = resolve_source(context, source)
    folder = start_run(context, found, share, run_dir)
    collection = collect_step(context, found, share, folder)
    errors = collection.catalog.collect_errors
    for file, error in errors.items():
        context.say(f"cannot be collected: {file}: {error}")
    context.say(f"catalog: {folder.catalog}")
    if json_output:
        content = {
            "run_dir": str(folder.path),
            "catalog": str(folder.catalog),
            "tests": len(collection.catalog.tests),
            "collect_errors": errors,
        }
        typer.echo(json.dumps(content, indent=1))


def select(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: In = None,
    out: Out = None,
    stage: options.Stage = None,
    percent: options.Percent = None,
    files: options.Files = None,
    keyword: options.Keyword = None,
    ids: options.Ids = None,
) -> None:
    """Choose the tests of a stage from a catalog into `selection.json`.

    Example: spyre-ci select --run-dir runs/nightly --stage 2
    """
    context = options.make_context(ctx, {})
    folder = options.run_folder(run_dir, out, catalog)
    share = share_of(
        context,
        stage=stage,
        percent=percent,
        files=options.split_files(files),
        keyword=keyword,
        ids=ids or (),
    )
    noted = resolve_source(context, read_source(folder)[0]) if folder.source.is_file() else None
    selection = select_step(
        context,
        read_catalog(catalog or folder.catalog),
        share,
        out=out or folder.selection,
        source=noted,
        durations=past_durations(context),
    )
    context.say(
        f"selected {len(selection.ids):,} of {selection.in_scope:,} in-scope tests "
        f"({selection.percent:g} %); {sum(selection.out_of_scope.values()):,} are out of scope"
    )
    for code, count in selection.out_of_scope.items():
        context.say(f"  {count:>9,} {code}")
    refuse_nothing(selection)


def plan(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: In = None,
    selection: In = None,
    durations: In = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Shards; default: the cards of the stage.")
    ] = None,
    out: Out = None,
) -> None:
    """Split a selection over shards into `plan.json`.

    Example: spyre-ci plan --run-dir runs/nightly --shards 128
    """
    context = options.make_context(ctx, {})
    folder = options.run_folder(run_dir, out, selection, catalog)
    chosen = read_selection(selection or folder.selection)
    row = None if chosen.stage is None else context.settings.model.stages.get(chosen.stage)
    if shards is None and row is None:
        raise UsageError("the selection names no stage of the roll-out", remedy="give --shards")
    made = plan_step(
        read_catalog(catalog or folder.catalog),
        chosen,
        read_durations(durations) if durations else past_durations(context),
        shards=shards or (row.cards if row else 1),
        plan_file=out or folder.plan,
    )
    context.say(
        f"{len(made.ids):,} tests on {len(made.shards)} shards: about {made.makespan_s:.1f} s "
        f"(bound {made.bound_s:.1f} s, bound by {made.binds})"
    )


def run(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    plan: In = None,
    shard: Annotated[
        list[int] | None, typer.Option("--shard", help="Only this shard; may be given again.")
    ] = None,
    source: options.Source = None,
    device: options.Device = None,
    cards: options.Cards = None,
) -> None:
    """Run a plan, or some of its shards, on this host; journals and JUnit go to the run folder.

    Example: spyre-ci run --plan plan.json --shard 7 --pytorch-src ~/pytorch
    """
    context = options.make_context(ctx, {"device.name": device, "run.cards": cards})
    folder = options.run_folder(run_dir, plan)
    planned = read_plan(plan or folder.plan)
    beside = RunFolder(path=(plan or folder.plan).resolve().parent)
    chosen = choose_shards(planned, shard or ())
    where = source if source is not None or not beside.source.is_file() else read_source(beside)[0]
    found = resolve_source(context, where)
    expectations = read_selection(beside.selection).expectations if beside.selection.is_file() else {}
    interrupted = run_step(context, planned, chosen, source=found, expectations=expectations, folder=folder)
    summary = report_shards(context, planned, chosen, folder, interrupted=interrupted)
    raise typer.Exit(EXIT_INTERRUPTED if interrupted else summary.exit_code)


def report(
    ctx: typer.Context,
    run_dir: Annotated[str | None, typer.Argument(metavar="RUN", help="Run folder, id or `latest`.")] = None,
    named: options.RunDir = None,
    allow_collect_errors: Annotated[
        bool, typer.Option(help="Files that cannot be collected do not redden the run.")
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Report a run from its journals: results, JUnit, summary, page, history and HUD.

    Example: spyre-ci report --run-dir runs/nightly
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    runs = context.settings.resolve(context.settings.model.runs)
    folder = RunFolder(path=named.resolve()) if named else find_run(runs, run_dir or "latest")
    code = report_step(context, folder, allow_collect_errors=allow_collect_errors)
    if json_output:
        typer.echo(json.dumps(read_json(folder.summary, "summary"), indent=1))
    raise typer.Exit(code)
