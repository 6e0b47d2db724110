"""The verbs of the steps: collect, plan, run and report, on a run folder or on single files."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from ci.config import completing
from ci.core.errors import UsageError
from ci.core.text import counted
from ci.hud.send import is_cancelled
from ci.main_job.report import end_run, report_shards, report_step
from ci.main_job.resume import resume_step
from ci.main_job.run import removed_where_refused, start_run
from ci.report.live.events import open_sink
from ci.steps import options
from ci.steps.collect import collect_step, resolve_source
from ci.steps.folder import JOURNALS, PLAN_FILE, SELECTION_FILE, RunFolder, find_run, noted_where
from ci.steps.mark_failures import check_quarantine
from ci.steps.plan import past_durations, plan_step, shard_subset
from ci.steps.run import on_the_plans_device, run_step
from ci.steps.select import refuse_nothing
from ci.steps.share import ShareRequest, share_of
from test_selection.catalog import read_catalog
from test_selection.durations import read_durations
from test_selection.files import document_text, json_text, read_json
from test_selection.plan import read_plan
from test_selection.selection import read_selection
from test_selection.shard_subset import parse_ranges

MAX_SHARDS = 4096


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
    """Collect the tests of a tree into `catalog.jsonl.gz` of a run folder.

    Example: spyre-ci collect --pytorch-src ~/pytorch --files 'test_view_ops.py'
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    request = ShareRequest(stage=stage, percent=percent, files=options.split_files(files))
    share = share_of(context, request)
    found = resolve_source(context, source)
    folder = start_run(context, found, share, run_dir)
    with contextlib.nullcontext() if run_dir is not None else removed_where_refused(folder):
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
        typer.echo(document_text("collect", content))


def plan(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: options.In = None,
    selection: options.In = None,
    durations: Annotated[
        Path | None, typer.Option(help="File to read; default: what earlier runs took.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(help="Shards, 1 to 4,096; default: the cards of the stage.")
    ] = None,
    seed: options.Seed = None,
    out: options.Out = None,
    json_output: options.Json = False,
) -> None:
    """Split a selection over shards into `plan.json`.

    Example: spyre-ci plan --run-dir runs/nightly --shards 128
    """
    if shards is not None and not 1 <= shards <= MAX_SHARDS:
        raise UsageError(f"--shards is {shards}", remedy=f"give a number from 1 to {MAX_SHARDS:,}")
    context = options.make_context(ctx, {"run.seed": seed}, json_output=json_output)
    folder = options.run_folder(
        context, run_dir, out, selection, catalog, holding=SELECTION_FILE, writes=True
    )
    chosen = read_selection(selection or folder.selection)
    row = None if chosen.stage is None else context.settings.model.stages.get(chosen.stage)
    if shards is None and row is None:
        raise UsageError("the selection names no stage of the roll-out", remedy="give --shards")
    refuse_nothing(chosen)
    collected = read_catalog(catalog or folder.catalog)
    made = plan_step(
        context,
        collected,
        chosen,
        read_durations(durations) if durations else past_durations(context, collected.device),
        shards=shards if shards is not None else (row.cards if row else 1),
        plan_file=out or folder.plan,
        # A plan with a name of its own comes alone: what lies beside it is not ours to write.
        durations_file=None if out else folder.durations,
        seed=context.run_seed(),
    )
    cards = sum(shard.cards for shard in made.shards)
    # A shard of several cards leaves fewer shards than were asked for.
    held = f" ({counted(cards, 'card')})" if cards != len(made.shards) else ""
    context.say(
        f"{counted(len(made.ids), 'test')} on {counted(len(made.shards), 'shard')}{held}: "
        f"about {made.makespan_s:.1f} s (lower bound {made.bound_s:.1f} s, limited by {made.limited_by})"
    )
    if json_output:
        content = {
            "plan": out or folder.plan,
            "fingerprint": made.fingerprint,
            "tests": len(made.ids),
            "shards": len(made.shards),
            "cards": cards,
            "makespan_s": made.makespan_s,
            "bound_s": made.bound_s,
            "binds": made.binds,
        }
        typer.echo(document_text("plan-made", content))


def run(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    plan: options.In = None,
    shard: Annotated[
        list[str] | None, typer.Option("--shard", help="Only these shards, such as 0-7,12; may be repeated.")
    ] = None,
    source: options.Source = None,
    device: options.Device = None,
    cards: options.Cards = None,
    static: options.Static = None,
    retries: options.Retries = None,
    max_fail: options.MaxFail = None,
    exit_first: options.FirstFail = False,
    control: options.Control = None,
    resume: options.Resume = None,
    quiet: options.Quiet = 0,
    verbose: options.Verbose = 0,
    events: options.Events = None,
) -> None:
    """Run a plan, or some of its shards, on this host; write journals and JUnit.

    Example: spyre-ci run --plan plan.json --shard 7 --pytorch-src ~/pytorch
    """
    flags = {
        "device.name": device,
        "run.cards": cards,
        "run.static": static,
        "run.retries": retries,
        "run.max_fail": options.most_failures(max_fail, first=exit_first),
        "run.control": control,
    }
    context = options.make_context(
        ctx, flags, json_output=options.to_stdout(events), verbosity=verbose - quiet
    )
    with open_sink(events, context.clock, context.say) as sink:
        if resume is not None:
            options.refuse_beside(f"--resume {resume}", {"--run-dir": run_dir, "--plan": plan})
            raise typer.Exit(resume_step(context, resume, shards=shard or (), source=source, events=sink))
        check_quarantine(context)
        folder = options.run_folder(context, run_dir, plan, holding=PLAN_FILE, writes=True)
        planned = read_plan(plan or folder.plan)
        plan_folder = RunFolder(path=(plan or folder.plan).resolve().parent)
        context = on_the_plans_device(context, plan_folder)
        indexes = parse_ranges(shard or (), len(planned.shards))
        chosen = [planned.shards[index] for index in indexes] or list(planned.shards)
        found = resolve_source(context, source if source is not None else noted_where(plan_folder))
        subset = shard_subset(context, plan_folder, planned, found, shards=chosen, folder=folder)
        interrupted = run_step(context, subset, events=sink)
        summary = report_shards(context, planned, chosen, folder, interrupted=interrupted)
        code = end_run(context, folder, summary, interrupted=interrupted, events=sink)
    raise typer.Exit(code)


def report(
    ctx: typer.Context,
    run_dir: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="Run folder, id or `latest`.", autocompletion=completing.runs),
    ] = None,
    named: options.RunDir = None,
    allow_collect_errors: Annotated[
        bool, typer.Option(help="Do not fail the run for files that cannot be collected.")
    ] = False,
    cancelled: Annotated[
        bool,
        typer.Option("--cancelled", help="The run was cancelled; as SPYRE_CI_CANCELLED=true."),
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Report a run from its journals: results, JUnit, summary, page, history and HUD.

    Example: spyre-ci report --run-dir runs/nightly
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    runs = context.runs
    if named and run_dir:
        raise UsageError(f"both RUN {run_dir!r} and --run-dir {named} are given", remedy="give one of them")
    folder = (
        RunFolder(path=named.resolve()) if named else find_run(runs, run_dir or "latest", holding=JOURNALS)
    )
    summary = report_step(
        context,
        folder,
        allow_collect_errors=allow_collect_errors,
        interrupted=cancelled or is_cancelled(context.environ),
    )
    if json_output:
        typer.echo(json_text(read_json(folder.summary, "summary")))
    raise typer.Exit(summary.exit_code)
