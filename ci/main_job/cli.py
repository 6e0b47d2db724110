"""`spyre-ci pytorch`: the main job, from collecting to reporting, in one command."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer

from ci.config import completing
from ci.main_job.request import RunRequest, last_failed_of
from ci.main_job.resume import resumable, resume_step
from ci.main_job.run import Outcome, run_main_job
from ci.report.live.events import open_sink
from ci.steps import options
from ci.steps.change_order import ChangeRequest
from test_selection.files import json_text, read_json, schema_name

# What a run that is resumed has decided.
_WHAT = (
    "tests", "ids", "stage", "percent", "by", "files", "keyword", "tier", "last_failed", "lf",
    "failed_first", "changed", "changed_diff", "budget", "seconds", "relock", "seed", "dry_run",
)  # fmt: skip


def pytorch(
    ctx: typer.Context,
    tests: options.Tests = None,
    source: options.Source = None,
    stage: options.Stage = None,
    percent: options.Percent = None,
    by: options.By = None,
    cards: options.Cards = None,
    device: options.Device = None,
    static: options.Static = None,
    retries: options.Retries = None,
    max_fail: options.MaxFail = None,
    exit_first: options.FirstFail = False,
    seed: options.Seed = None,
    control: options.Control = None,
    files: options.Files = None,
    keyword: options.Keyword = None,
    ids: options.Ids = None,
    tier: options.Tier = None,
    last_failed: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Only what did not pass in that run: a folder, an id or `latest`.",
            autocompletion=completing.runs,
        ),
    ] = None,
    lf: Annotated[bool, typer.Option("--lf", help="Only what did not pass in the last run.")] = False,
    failed_first: Annotated[
        bool, typer.Option("--ff", help="Run what did not pass in the last run before all others.")
    ] = False,
    changed: options.Changed = None,
    changed_diff: options.ChangedDiff = None,
    budget: options.Budget = None,
    seconds: options.BudgetSeconds = None,
    durations: Annotated[
        int, typer.Option(min=0, help="Print this many of the slowest tests at the end.")
    ] = 0,
    quiet: options.Quiet = 0,
    verbose: options.Verbose = 0,
    relock: options.Relock = False,
    resume: options.Resume = None,
    dry_run: Annotated[bool, typer.Option(help="Plan, print what would run, and stop.")] = False,
    allow_collect_errors: Annotated[
        bool, typer.Option(help="Report files that cannot be collected, without failing the run.")
    ] = False,
    config: options.Config = None,
    events: options.Events = None,
    json_output: options.Json = False,
) -> None:
    """Run a staged share of PyTorch's tests and report it.

    Example: spyre-ci pytorch --pytorch-src ~/pytorch --stage 1 --cards 2 --files 'test_view_ops.py'
    """
    flags = {
        "run.cards": cards,
        "device.name": device,
        "run.static": static,
        "run.retries": retries,
        "run.max_fail": options.most_failures(max_fail, first=exit_first),
        "run.seed": seed,
        "run.control": control,
    }
    context = options.make_context(
        ctx,
        flags,
        json_output=options.to_stdout(events, json_output=json_output),
        config=config,
        verbosity=verbose - quiet,
    )
    names = [tree_path(name) for name in (*(tests or ()), *(ids or ()))]
    if resume is not None:
        options.refuse_beside(f"--resume {resume}", options.typed(ctx, *_WHAT))
        folder = resumable(context, resume)
        with open_sink(events, context.clock, context.say) as sink:
            code = resume_step(
                context,
                resume,
                source=source,
                allow_collect_errors=allow_collect_errors or None,
                events=sink,
            )
        _finish(Outcome(exit_code=code, folder=folder), "summary", json_output=json_output)
    request = RunRequest(
        source=source,
        stage=stage,
        percent=percent,
        by=by,
        files=options.split_files(files),
        keyword=keyword,
        ids=tuple(name for name in names if "::" in name),
        whole_files=tuple(name for name in names if "::" not in name),
        tier=tier,
        last_failed=last_failed_of(context, last_failed, lf=lf),
        failed_first=failed_first,
        durations=durations,
        relock=relock,
        dry_run=dry_run,
        allow_collect_errors=allow_collect_errors,
        change=ChangeRequest(commits=changed, diff=changed_diff, budget=budget, seconds=seconds),
    )
    with open_sink(events, context.clock, context.say) as sink:
        outcome = run_main_job(context, request, sink)
    _finish(outcome, "plan" if dry_run else "summary", json_output=json_output)


def tree_path(name: str) -> str:
    """A test's name relative to the tests' root, also where it is named from the tree's own."""
    return name.removeprefix("./").removeprefix("test/")


def _finish(outcome: Outcome, kind: str, *, json_output: bool) -> NoReturn:
    if json_output:
        typer.echo(json_text(_document(outcome, kind)))
    raise typer.Exit(outcome.exit_code)


def _document(outcome: Outcome, kind: str) -> dict[str, Any]:
    """What the run wrote of this kind; of a run of nothing, which has no folder, that."""
    if outcome.folder is not None:
        return read_json(outcome.folder.path / f"{kind}.json", kind)
    nothing: dict[str, Any] = {"run": None, "planned": 0, "verdicts": {}, "collect_errors": []}
    return {"schema": schema_name("summary"), **nothing, "exit_code": outcome.exit_code}
