"""The main job: every step in its order, so that one command goes the whole way."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from ci.main_job.report import end_run, identity_here, report_step, told_hud
from ci.main_job.request import RunRequest, failed_before, in_tree, run_again
from ci.record.identity import write_identity
from ci.record.result import Result
from ci.report.aggregates import slowest_tests
from ci.report.live.events import Sink
from ci.report.results import read_results
from ci.runner.environment_info import installed_torch
from ci.runner.source import Source
from ci.steps.change_order import ChangeRequest
from ci.steps.collect import collect_step, resolve_source
from ci.steps.context import Context
from ci.steps.folder import (
    JOURNALS,
    RunFolder,
    new_run_folder,
    write_source,
)
from ci.steps.mark_failures import check_quarantine
from ci.steps.plan import past_durations, plan_step, shard_subset
from ci.steps.run import cards_of, run_step
from ci.steps.select import (
    refuse_nothing,
    refuse_part,
    refuse_unmatched,
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


def run_main_job(context: Context, request: RunRequest, events: Sink | None = None) -> Outcome:
    """Collect, select, plan, run, report; `events` takes what happens, for other tools.

    Raises:
        SpyreCiError: something the user can mend, before any test ran.
    """
    request = in_tree(context, request)
    named = request.ids
    if request.last_failed is not None:
        context, request, failures = run_again(context, request, request.last_failed)
        if failures.said:
            context.say(failures.said)
        if not request.ids and not request.whole_files:
            return Outcome(exit_code=failures.exit_code)
    share = share_of(context, request)
    if request.relock:
        refuse_part(share, context.settings.model.pytorch.files)
    elif share.percent == 0:
        return _nothing(context, share)
    check_quarantine(context)
    cards = cards_of(context)
    source = resolve_source(context, request.source)
    if told := other_torch(source, installed_torch().version):
        context.say(told)
    folder = start_run(context, source, share)
    hud = contextlib.nullcontext() if request.dry_run else told_hud(context, folder)
    with removed_where_refused(folder), hud:
        plan, selection = plan_run(
            context,
            source,
            share,
            folder,
            shards=len(cards),
            relocking=request.relock,
            change=request.change,
        )
        if share.percent == 0:
            return _nothing(context, share)
        refuse_nothing(selection)
        if strange := [name for name in selection.missing if name in named]:
            raise UsageError(
                f"there is no test {one_line(strange[0])!r}" + (" …" if strange[1:] else ""),
                remedy="see the names with `spyre-ci pytorch --dry-run`",
            )
        if request.dry_run:
            _show_plan(context, plan, selection, folder)
            return Outcome(exit_code=EXIT_OK, folder=folder)
        code = _run(context, request, source, plan, folder, events=events)
        return Outcome(exit_code=code, folder=folder)


def _nothing(context: Context, share: Share) -> Outcome:
    context.say(f"{share.label} is 0 %: no PyTorch tests run")
    return Outcome(exit_code=EXIT_OK)


@contextlib.contextmanager
def removed_where_refused(folder: RunFolder) -> Iterator[None]:
    """Leave no folder of a run whose flags or settings were refused, unless HUD is to hear of it."""
    try:
        yield
    except (UsageError, SettingsError, NothingToRunError, MissingInputError, BadFileError):
        if not (folder.path / JOURNALS).exists() and not (folder.path / OUTBOX).exists():
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _run(
    context: Context,
    request: RunRequest,
    source: Source,
    plan: Plan,
    folder: RunFolder,
    *,
    events: Sink | None,
) -> int:
    """Run and report what was planned, and return the exit code."""
    subset = shard_subset(context, folder, plan, source)
    if request.failed_first:
        subset = replace(subset, first=subset.first | failed_before(context, plan.ids))
    allowed = request.allow_collect_errors
    interrupted = run_step(context, subset, allow_collect_errors=allowed, events=events)
    summary = report_step(context, folder, allow_collect_errors=allowed, interrupted=interrupted)
    if request.durations:
        for line in slowest_lines(read_results(folder.results), request.durations):
            context.say(line)
    return end_run(context, folder, summary, interrupted=interrupted, events=events)


def other_torch(source: Source, installed: str) -> str:
    """What there is to say of a tree that is of another release than the torch that runs it; else empty."""
    try:
        release = Version(installed).release
        if source.where is None or not source.version or Version(source.version).release == release:
            return ""
    except InvalidVersion:
        pass
    differ = f"the tests are from PyTorch {one_line(source.version)}, and torch here is {installed}"
    return f"{differ}: tests may fail because of that"


def is_of_release(source: Source, installed: str) -> bool:
    """Whether a tree is of the very version of the torch that runs it, so that both are of one commit."""
    if source.where is None or not source.version:
        return False
    try:
        return Version(source.version).public == Version(installed).public
    except InvalidVersion:
        return False


def start_run(context: Context, source: Source, share: Share, run_dir: Path | None = None) -> RunFolder:
    """Make the run folder, with the run's identity in it.

    Args:
        context: the outside world.
        source: where the tests come from.
        share: what part of them is wanted.
        run_dir: the folder to use; None makes a new one in the folder of runs.
    """
    device = context.settings.model.device.name
    if run_dir is None:
        folder = new_run_folder(context.runs, device=device, label=share.label, epoch_s=context.clock())
    else:
        folder = RunFolder(path=run_dir.resolve())
    words = ["spyre-ci", "pytorch"]
    if source.where is not None:
        # As it is found from whichever folder somebody pastes the line in.
        git = source.where.startswith("git+")
        words += ["--pytorch-src", source.where if git else str(Path(source.where).expanduser().resolve())]
    torch = installed_torch()
    identity = replace(
        identity_here(context, folder),
        pytorch_version=torch.version,
        pytorch_commit=torch.git_sha if is_of_release(source, torch.version) else "",
        pytorch_sha=source.sha,
        stage=share.stage,
        percent=share.percent,
        restricted=share.restricted,
        reproduce=(*words, "--device", device),
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
    change: ChangeRequest | None = None,
) -> tuple[Plan, Selection]:
    """Collect, select and plan, each into its file of the run folder.

    Args:
        context: the outside world.
        source: where the tests come from.
        share: what part of them is wanted.
        folder: the run's.
        shards: how many there are, or what makes that of the seconds that all takes.
        relocking: whether the lock is written anew first.
        change: the change that orders the tests, and the budget that they are cut to.

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
        change=change,
    )
    refuse_unmatched(share, selection, len(catalog.tests))
    notes: list[str] = []
    plan = plan_step(
        context,
        catalog,
        selection,
        durations,
        shards=shards,
        plan_file=folder.plan,
        durations_file=folder.durations,
        seed=context.run_seed(),
        say=notes.append,
    )
    # How the order comes to it stands in the report.
    for line in selected_lines(selection, ladder=False):
        context.detail(line)
    planned = (
        f"planned {share.label} on {counted(len(plan.shards), 'shard')}: about {plan.makespan_s:.0f} s "
        f"(lower bound {plan.bound_s:.0f} s, limited by {plan.limited_by})"
    )
    context.detail("; ".join([planned, *notes]))
    return plan, selection


def slowest_lines(results: Sequence[Result], most: int) -> list[str]:
    """The tests that took longest, as pytest's `--durations` has them: seconds, then the test."""
    slowest = slowest_tests(results, most)
    return [f"slowest {most} durations", *(f"{one.seconds:.2f}s {one_line(one.id)}" for one in slowest)]


def _show_plan(context: Context, plan: Plan, selection: Selection, folder: RunFolder) -> None:
    for file, error in selection.collect_errors.items():
        context.say(f"cannot be collected: {file}: {error}")
    for shard in plan.shards:
        context.say(
            f"shard {shard.index}: {counted(len(shard.ids), 'test')}, {shard.expected_s:.1f} s expected"
        )
        for group in shard.groups:
            context.say(f"  {group.file}: {counted(len(group.ids), 'test')}")
    context.say(f"dry run: nothing was run; every id is in {folder.plan}")
