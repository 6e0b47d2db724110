"""Resuming a run that was cut off: what has a verdict stays, the rest is run, and all of it reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ci.core.errors import PlanMismatchError
from ci.core.locks import run_lock
from ci.core.operating_system import boot_id
from ci.core.text import counted, listed
from ci.main_job.report import end_run, report_shards, report_step
from ci.record.identity import read_identity
from ci.record.journal import Journal, gathered_journals
from ci.record.verdict import NO_OUTCOME
from ci.report.live.events import Sink
from ci.report.reconcile import Account, reconcile
from ci.runner.environment_info import back_end, installed_torch
from ci.runner.resume import (
    apart_from_chains,
    doubts,
    end_leftovers,
    lost_with_host,
    pending_retries,
    refuse_other_plans,
    what_is_left,
)
from ci.runner.retries import Pending
from ci.runner.source import Source
from ci.steps.collect import resolve_source
from ci.steps.context import Context
from ci.steps.control import control_is_owed
from ci.steps.folder import NotedSource, RunFolder, find_run, read_source
from ci.steps.plan import shard_subset
from ci.steps.run import on_the_plans_device, run_locked
from ci.steps.run_settings import FILE as NOTE_FILE
from ci.steps.run_settings import RunNote, as_noted, read_note
from test_selection.plan import Plan, Shard, read_plan
from test_selection.shard_subset import parse_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class _CutOff:
    """A run as it was found: its plan, its shards here, its journals, and what became of each test."""

    plan: Plan
    shards: Sequence[Shard]
    journals: Sequence[Journal]
    account: Account

    @property
    def indexes(self) -> set[int]:
        """The shards that are to be run here."""
        return {shard.index for shard in self.shards}

    @property
    def settled(self) -> set[str]:
        """The ids that have a verdict, or that are not to be run here."""
        here = {name for shard in self.shards for name in shard.ids}
        return {one.id for one in self.account.results if one.id not in here or one.verdict not in NO_OUTCOME}


def resumable(context: Context, named: str) -> RunFolder:
    """The folder of a run that can be resumed; the latest is the last that ran, not one that was planned.

    Raises:
        MissingInputError: there is no such run.
    """
    return find_run(context.runs, named, holding=NOTE_FILE)


def resume_step(
    context: Context,
    named: str,
    *,
    shards: Sequence[str] = (),
    source: str | None = None,
    allow_collect_errors: bool | None = None,
    events: Sink | None = None,
) -> int:
    """Run what has no verdict yet, report the whole, and return the exit code.

    Args:
        context: the outside world.
        named: the run's folder, its id or `latest`.
        shards: only these; by default those the run was to run from this folder.
        source: where the tests are now; by default where they were.
        allow_collect_errors: whether files may fail to collect; None: as the run had it.
        events: takes what happens, for other tools.

    Raises:
        RunInUseError: somebody else works in the folder.
        PlanMismatchError: plan, journals, checkout, back end, source or torch are not those of the run.
        SpyreCiError: a file of the run is missing or broken.
    """
    folder = resumable(context, named)
    with run_lock(folder.path, alone=True) as alone:
        note = read_note(folder)
        if note is not None:
            context = as_noted(context, folder, note)
        context = on_the_plans_device(context, folder)
        plan = read_plan(folder.plan)
        chosen = _shards(plan, shards, note)
        if alone:  # else these may be somebody's who is at work
            _end_leftovers(context, folder)
        journals = gathered_journals(folder.path)
        refuse_other_plans(plan, journals)
        account = reconcile(plan, journals)
        cut_off = _CutOff(plan=plan, shards=chosen, journals=journals, account=account)
        interrupted = _finish(context, folder, cut_off, note, source=source, events=events, alone=alone)
        whole = len(chosen) == len(plan.shards)
        if whole and folder.selection.is_file() and folder.identity.is_file():
            if allow_collect_errors is None:
                allow_collect_errors = note is not None and note.allow_collect_errors
            summary = report_step(
                context, folder, allow_collect_errors=allow_collect_errors, interrupted=interrupted
            )
        else:
            summary = report_shards(context, plan, chosen, folder, interrupted=interrupted)
        return end_run(context, folder, summary, interrupted=interrupted, events=events)


def _end_leftovers(context: Context, folder: RunFolder) -> None:
    killed = end_leftovers(folder.path, wait_s=2 * context.settings.model.run.grace_s)
    if killed.count:
        context.say(f"ended {counted(killed.count, 'process', 'processes')} that the run left behind")
    if killed.left:
        processes = counted(len(killed.left), "process", "processes")
        named = listed([str(one) for one in killed.left])
        context.say(f"{processes} of the run cannot be killed, and may hold a card: {named}")


def _shards(plan: Plan, wanted: Sequence[str], note: RunNote | None) -> list[Shard]:
    indexes = parse_ranges(wanted, len(plan.shards))
    if not indexes and note is not None:
        indexes = sorted(index for index in note.shards if 0 <= index < len(plan.shards))
    return [plan.shards[index] for index in indexes] or list(plan.shards)


def _finish(
    context: Context,
    folder: RunFolder,
    cut_off: _CutOff,
    note: RunNote | None,
    *,
    source: str | None,
    events: Sink | None,
    alone: bool,
) -> bool:
    """Run what is left, and return whether that was interrupted."""
    left = what_is_left(cut_off.plan, cut_off.settled)
    pending = _pending(context, cut_off)
    _say(context, folder, cut_off, left, owed=len(pending))
    last = _last(context, cut_off, left)
    if last:
        context.say(f"{counted(len(last), 'test')} that crashed the host before will run last")
        left = what_is_left(left, {one.id for one in last})
    pending += last
    if not (left.ids or pending or control_is_owed(context, cut_off.plan, cut_off.shards, folder)):
        return False
    _refuse_another_checkout(context, folder, note)
    started = {one.id for one in cut_off.account.results if one.attempts}
    shards = [shard for shard in left.shards if shard.index in cut_off.indexes]
    subset = replace(
        shard_subset(context, folder, left, _source(context, folder, source), shards=shards),
        whole=cut_off.plan,
        doubts=doubts(left, cut_off.journals, started=started, boot=boot_id()),
        pending=pending,
    )
    return run_locked(context, subset, events=events, alone=alone)


def _pending(context: Context, cut_off: _CutOff) -> list[Pending]:
    """The second tries that the run did not come to, of tests that failed here, whosever they are."""
    journals = [journal for journal in cut_off.journals if journal.shard in cut_off.indexes]
    found = pending_retries(journals, context.settings.model.run.retries, boot_id())
    planned = set(cut_off.plan.ids)
    return [one for one in found if one.id in planned]


def _last(context: Context, cut_off: _CutOff, left: Plan) -> list[Pending]:
    """What ran when the host went, and may be why: where it is so again, it costs no other test its turn."""
    if context.settings.model.run.share is not None:
        return []  # whose pieces are whose is known by the whole
    lost = lost_with_host(cut_off.journals)
    found = apart_from_chains([shard for shard in left.shards if shard.index in cut_off.indexes], lost)
    return [Pending(name) for name in sorted(found, key=lambda name: lost[name])]


def _refuse_another_checkout(context: Context, folder: RunFolder, note: RunNote | None) -> None:
    """One report must not hold the verdicts of two back ends; a mark on each would be overlooked.

    Raises:
        PlanMismatchError: the CI has checked out another commit, or another back end is installed.
    """
    before = read_identity(folder.path).commit if folder.identity.is_file() else ""
    now = context.provider.commit
    if before and now and before != now:
        raise PlanMismatchError(
            f"the checkout is at {now:.12}, and the run's was at {before:.12}",
            where=folder.identity,
            remedy=f"check out {before}, or start a new run",
        )
    installed = back_end(context.environ)
    if note is not None and note.back_end not in ("", installed):
        raise PlanMismatchError(
            f"the back end here is {installed}, and the run had {note.back_end}",
            where=folder.path / NOTE_FILE,
            remedy="install the run's, or start a new run",
        )


def _say(context: Context, folder: RunFolder, cut_off: _CutOff, left: Plan, *, owed: int) -> None:
    for note in cut_off.account.notes:
        context.say(f"journals: {note}")
    if owed:
        context.say(f"{folder.run}: {counted(owed, 'failed test')} still to be retried")
    if not left.ids:
        if not owed:
            context.say(f"{folder.run}: nothing is left to run; reporting it again")
        return
    ids = set(left.ids)
    begun = sum(one.attempts > 0 for one in cut_off.account.results if one.id in ids)
    context.say(
        f"{folder.run}: {len(ids):,} of {counted(len(cut_off.plan.ids), 'test')} are left, "
        f"{begun:,} of them started before"
    )


def _source(context: Context, folder: RunFolder, named: str | None) -> Source:
    """The tests, which must be those of the run.

    Raises:
        PlanMismatchError: the tree or torch is another one.
    """
    noted = read_source(folder) or NotedSource()
    found = resolve_source(context, named if named is not None else noted.where)
    remedy = "restore what the run had, or start a new run"
    if noted.sha and not found.is_still(noted.sha, noted.files):
        raise PlanMismatchError(
            f"the tests are {found.sha}, and the run's were {noted.sha}", where=found.tests, remedy=remedy
        )
    if folder.identity.is_file():
        before, now = read_identity(folder.path).pytorch_version, installed_torch().version
        if before and before != now:
            raise PlanMismatchError(
                f"torch is {now} here, and the run had {before}", where=folder.identity, remedy=remedy
            )
    return found
