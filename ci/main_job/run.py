"""The main job: every step in its order, so that one command goes the whole way."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ci.core.errors import (
    EXIT_OK,
    BadFileError,
    MissingInputError,
    NothingToRunError,
    SettingsError,
    UsageError,
)
from ci.core.text import counted, one_line
from ci.hud.outbox import FOLDER as OUTBOX
from ci.main_job.report import end_run, report_step, told_hud
from ci.main_job.wanted import Wanted, failed_before, in_tree, run_again
from ci.record.identity import RunIdentity, write_identity
from ci.record.result import Result
from ci.report.aggregates import slowest_tests
from ci.report.live.events import Sink
from ci.report.results import read_results
from ci.runner.environment_info import back_end_of, installed_torch
from ci.runner.source import Source
from ci.steps.collect import collect_step, resolve_source
from ci.steps.context import Context
from ci.steps.folder import (
    JOURNALS,
    RunFolder,
    new_run_folder,
    write_source,
)
from ci.steps.marks import check_quarantine
from ci.steps.plan import ShardSubset, past_durations, plan_step
from ci.steps.run import cards_of, planned_seconds, run_step
from ci.steps.select import (
    refuse_nothing,
    refuse_part,
    refuse_unmatched,
    scope_rules,
    select_step,
    selected_lines,
)
from ci.steps.share import Share, share_of
from test_selection.plan import Plan
from test_selection.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the job ended, and its folder where it came to one."""

    exit_code: int
    folder: RunFolder | None = None


def run_main_job(context: Context, wanted: Wanted, events: Sink | None = None) -> Outcome:
    """Collect, select, plan, run, report; `events` takes what happens, for other tools.

    Raises:
        SpyreCiError: something the user can mend, before any test ran.
    """
    wanted = in_tree(context, wanted)
    named = wanted.ids
    if wanted.last_failed is not None:
        context, wanted, look = run_again(context, wanted, wanted.last_failed)
        for line in look.said:
            context.say(line)
        if not wanted.ids and not wanted.whole_files:
            return Outcome(exit_code=look.exit_code)
    share = share_of(
        context,
        stage=wanted.stage,
        percent=wanted.percent,
        files=wanted.files,
        keyword=wanted.keyword,
        ids=wanted.ids,
        whole_files=wanted.whole_files,
        bucket=wanted.bucket,
        by=wanted.by,
    )
    if wanted.relock:
        refuse_part(share, context.settings.model.pytorch.files)
    if share.percent == 0 and not wanted.relock:
        context.say(f"{share.label} is 0 %: no PyTorch tests run")
        return Outcome(exit_code=EXIT_OK)
    check_quarantine(context)
    cards = cards_of(context)
    source = resolve_source(context, wanted.source)
    if told := other_torch(source, installed_torch().version):
        context.say(told)
    folder = start_run(context, source, share)
    hud = contextlib.nullcontext() if wanted.dry_run else told_hud(context, folder)
    with removed_where_refused(folder), hud:
        return _go(context, wanted, source, share, folder, named=named, cards=len(cards), events=events)


@contextlib.contextmanager
def removed_where_refused(folder: RunFolder) -> Iterator[None]:
    """Leave no folder of a run whose flags or settings were refused, unless HUD is to hear of it."""
    try:
        yield
    except (UsageError, SettingsError, NothingToRunError, MissingInputError, BadFileError):
        if not (folder.path / JOURNALS).exists() and not (folder.path / OUTBOX).exists():
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _go(
    context: Context,
    wanted: Wanted,
    source: Source,
    share: Share,
    folder: RunFolder,
    *,
    named: Collection[str],
    cards: int,
    events: Sink | None,
) -> Outcome:
    plan, selection = plan_run(context, source, share, folder, shards=cards, relocking=wanted.relock)
    if share.percent == 0:
        context.say(f"{share.label} is 0 %: no PyTorch tests run")
        return Outcome(exit_code=EXIT_OK)
    refuse_nothing(selection)
    if strange := [name for name in selection.missing if name in named]:
        raise UsageError(
            f"there is no test {one_line(strange[0])!r}" + (" …" if strange[1:] else ""),
            remedy="see the names with `spyre-ci pytorch --dry-run`",
        )
    if wanted.dry_run:
        _show_plan(context, plan, selection, folder)
        return Outcome(exit_code=EXIT_OK, folder=folder)
    part = ShardSubset(
        plan=plan,
        shards=plan.shards,
        source=source,
        expectations=selection.expectations,
        durations=planned_seconds(context, folder),
        folder=folder,
        first=failed_before(context, plan.ids) if wanted.failed_first else frozenset(),
    )
    interrupted = run_step(context, part, allow_collect_errors=wanted.allow_collect_errors, events=events)
    summary = report_step(
        context, folder, allow_collect_errors=wanted.allow_collect_errors, interrupted=interrupted
    )
    if wanted.durations:
        for line in slowest_lines(read_results(folder.results), wanted.durations):
            context.say(line)
    code = end_run(context, folder, summary, interrupted=interrupted, events=events)
    return Outcome(exit_code=code, folder=folder)


def other_torch(source: Source, installed: str) -> str:
    """What there is to say of a tree that is of another release than the torch that runs it; else empty."""
    try:
        release = Version(installed).release
        same = source.where is None or not source.version or Version(source.version).release == release
    except InvalidVersion:
        same = False
    return (
        ""
        if same
        else f"the tests are of PyTorch {one_line(source.version)}, and the torch here is {installed}: "
        "tests may fail for that alone"
    )


def start_run(context: Context, source: Source, share: Share, run_dir: Path | None = None) -> RunFolder:
    """Make the run folder, with the run's identity in it.

    Args:
        context: the outside world.
        source: where the tests come from.
        share: what part of them is wanted.
        run_dir: the folder to use; None makes a new one in the folder of runs.
    """
    model = context.settings.model
    now = context.clock()
    if run_dir is None:
        runs = context.runs
        folder = new_run_folder(runs, device=model.device.name, label=share.label, epoch_s=now)
    else:
        folder = RunFolder(path=run_dir.resolve())
    provider = context.provider
    identity = RunIdentity(
        run=folder.run,
        run_id=provider.run_id,
        run_attempt=provider.run_attempt,
        device=model.device.name,
        pytorch_version=installed_torch().version,
        pytorch_sha=source.sha,
        stage=share.stage,
        percent=share.percent,
        started_at=now,
        lane=provider.lane,
        job_name=provider.job_name,
        workflow=provider.workflow,
        url=provider.url,
        provider=provider.name,
        commit=provider.commit,
        back_end=back_end_of(model.device.name, context.environ),
        image=provider.image,
        restricted=share.restricted,
        reproduce=_reproduce(source, model.device.name),
    )
    write_identity(folder.path, identity)
    write_source(folder, where=source.where, sha=source.sha, files=source.files)
    return folder


def plan_run(
    context: Context,
    source: Source,
    share: Share,
    folder: RunFolder,
    *,
    shards: int | Callable[[float], int],
    relocking: bool = False,
) -> tuple[Plan, Selection]:
    """Collect, select and plan, each into its file of the run folder.

    Args:
        context: the outside world.
        source: where the tests come from.
        share: what part of them is wanted.
        folder: the run's.
        shards: how many there are, or what makes that of the seconds that all takes.
        relocking: whether the lock is written anew first.

    Raises:
        SpyreCiError: of the steps.
    """
    catalog = collect_step(context, source, share, folder).catalog
    durations = past_durations(context, catalog.device)
    selection = select_step(
        context,
        catalog,
        share,
        out=folder.selection,
        source=source,
        durations=durations,
        relocking=relocking,
    )
    refuse_unmatched(share, selection, len(catalog.tests))
    notes: list[str] = []
    plan = plan_step(
        catalog,
        selection,
        durations,
        shards=shards,
        plan_file=folder.plan,
        durations_file=folder.durations,
        settings=context.settings.model,
        rules=scope_rules(context),
        seed=context.run_seed(),
        say=notes.append,
    )
    # How the ladder comes to it stands in the report.
    for line in selected_lines(selection, ladder=False):
        context.detail(line)
    planned = (
        f"planned {share.label} on {counted(len(plan.shards), 'shard')}: about {plan.makespan_s:.0f} s "
        f"(bound {plan.bound_s:.0f} s, bound by {plan.binds})"
    )
    context.detail("; ".join([planned, *notes]))
    return plan, selection


def _reproduce(source: Source, device: str) -> tuple[str, ...]:
    words = ["spyre-ci", "pytorch"]
    if source.where is not None:
        words += ["--pytorch-src", _anywhere(source.where)]
    return (*words, "--device", device)


def _anywhere(where: str) -> str:
    """A source as it is found from whichever folder somebody pastes the line in."""
    return where if where.startswith("git+") else str(Path(where).expanduser().resolve())


def slowest_lines(results: Sequence[Result], most: int) -> list[str]:
    """The tests that took longest, as pytest's `--durations` has them: seconds, then the test."""
    slowest = slowest_tests(results, most)
    return [f"slowest {most} durations", *(f"{one.seconds:.2f}s {one_line(one.id)}" for one in slowest)]


def _show_plan(context: Context, plan: Plan, selection: Selection, folder: RunFolder) -> None:
    for error in selection.collect_errors:
        context.say(f"cannot be collected: {error}: {selection.collect_errors[error]}")
    for shard in plan.shards:
        context.say(
            f"shard {shard.index}: {counted(len(shard.ids), 'test')}, {shard.expected_s:.1f} s expected"
        )
        for group in shard.groups:
            context.say(f"  {group.file}: {counted(len(group.ids), 'test')}")
    context.say(f"dry run: nothing was run; every id is in {folder.plan}")
