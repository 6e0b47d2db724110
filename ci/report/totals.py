"""A run's totals: counts, shares of what is in scope, and the exit code with its reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ci.core.text import last_line
from ci.record.environment import RanIn
from ci.record.identity import RunIdentity
from ci.record.result import Result, judge
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.quarantine_note import QuarantineNote
from ci.report.reconcile import Account
from test_selection.selection import ChangeNote, OrderNote, Selection, TierNote

MAX_LISTED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectError:
    """A file in scope that could not be collected: the line that names the error, and the whole text."""

    file: str
    error: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of the tests in scope, by count and by seconds.

    Attributes:
        count: how many tests.
        of_count: share of the tests in scope, 0 to 1; None where nobody counted those.
        seconds: what they were expected to take; None without estimates.
        of_seconds: share of the seconds of all tests in scope, 0 to 1; None without estimates.
    """

    count: int
    of_count: float | None = None
    seconds: float | None = None
    of_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Seconds expected before the run: of all tests in scope, and of each planned test by id."""

    in_scope_s: float
    tests: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCheck:
    """Whether the tests that a change names held what failed by it, in a run that left none of them out.

    Attributes:
        failed: how many tests failed that never had.
        caught: how many of those the change names.
    """

    failed: int
    caught: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run in one document, in the order of `summary.json`; what HUD and people read.

    Attributes:
        planned: how many tests; the counts of `verdicts` add up to it.
        verdicts: how many tests came to each of the nine.
        collect_errors: files in scope that could not be collected.
        exit_code: of the run.
        reasons: why the exit code is not 0, the weightiest first.
        identity: who the run is.
        completed_at: the last event of the run, in seconds since the epoch.
        in_scope: how many tests the share is taken of; 0 where nobody counted them.
        shares: `selected`, `run` and `passed` against the tests in scope.
        seconds: test time added up over all tests.
        torn: journal lines that were cut, damaged or malformed.
        notes: what else a reader must know of the journals, a sentence each.
        missing_shards: shards without a journal.
        unplanned: how many tests were reported that were not planned.
        unplanned_ids: the first of them.
        foreign_journals: journals of another plan.
        file_errors: files that could not be imported where their tests were to run.
        interrupted: whether the run was ended early.
        allow_collect_errors: whether files may fail to collect.
        ladder: how the share came about; None where none was taken.
        bucket: which of the selected tests its limits let run; None where none held.
        quarantine: what the quarantine did; None where there is none.
        upstream: how many failed tests fail on the control device too, quarantined ones counted.
        control: the device on which what failed ran once more; empty where it did not.
        cards: how many accelerators the run had; 0 where no journal names one.
        in_scope_s: seconds the tests in scope are expected to take; None without estimates.
        first_failure_s: seconds from the run's start until a test had failed whose failure counts, at its
            last try; None where none did.
        ran_in: everything that tests ran in, as their journals say.
        change: what a choice by the change would have caught; None where the run was ordered by none, or cut.
    """

    planned: int
    verdicts: Mapping[Verdict, int]
    collect_errors: tuple[CollectError, ...]
    exit_code: int
    reasons: tuple[str, ...]
    identity: RunIdentity
    completed_at: float
    in_scope: int = 0
    shares: Mapping[str, Share] = field(default_factory=dict)
    seconds: float = 0.0
    torn: int = 0
    notes: tuple[str, ...] = ()
    missing_shards: tuple[int, ...] = ()
    unplanned: int = 0
    unplanned_ids: tuple[str, ...] = ()
    foreign_journals: tuple[str, ...] = ()
    file_errors: tuple[CollectError, ...] = ()
    interrupted: bool = False
    allow_collect_errors: bool = False
    ladder: OrderNote | None = None
    bucket: TierNote | None = None
    quarantine: QuarantineNote | None = None
    upstream: int = 0
    control: str = ""
    cards: int = 0
    in_scope_s: float | None = None
    first_failure_s: float | None = None
    ran_in: tuple[RanIn, ...] = ()
    change: ChangeCheck | None = None

    @property
    def wall_s(self) -> float:
        """Seconds from planning to the last event."""
        return max(self.completed_at - self.identity.started_at, 0.0)


def summarize(
    account: Account,
    identity: RunIdentity,
    selection: Selection,
    *,
    estimates: Estimates | None = None,
    allow_collect_errors: bool = False,
) -> Summary:
    """The summary of an account.

    Args:
        account: every planned test's verdict.
        identity: who the run is.
        selection: what was chosen, of how many, and which files could not be collected.
        estimates: what the tests were expected to take, for the shares by seconds.
        allow_collect_errors: whether files in scope may fail to collect.
    """
    errors = tuple(
        CollectError(file=file, error=last_line(text) or "no error was recorded", detail=text)
        for file, text in sorted(selection.collect_errors.items())
    )
    status = judge(
        account.counts,
        percent=selection.percent,
        collect_errors=len(errors),
        allow_collect_errors=allow_collect_errors,
        holes=account.holes,
        interrupted=account.interrupted,
        stopped=account.stopped,
        failures=account.failures,
    )
    return Summary(
        identity=identity,
        planned=len(account.results),
        verdicts=account.counts,
        collect_errors=errors,
        exit_code=status.code,
        reasons=status.reasons,
        completed_at=max(identity.started_at, account.ended_at or 0.0),
        in_scope=selection.in_scope,
        shares=_shares(account.results, selection, estimates),
        seconds=round(sum(result.seconds for result in account.results), 3),
        torn=account.torn,
        notes=account.notes,
        missing_shards=account.missing_shards,
        unplanned=len(account.unplanned),
        unplanned_ids=account.unplanned[:MAX_LISTED],
        foreign_journals=account.foreign,
        file_errors=tuple(
            CollectError(file=one.file, error=last_line(one.message), detail=one.detail)
            for one in account.file_errors
        ),
        interrupted=account.interrupted,
        allow_collect_errors=allow_collect_errors,
        ladder=selection.ladder,
        bucket=selection.tier_note,
        quarantine=account.quarantine,
        control=account.control,
        upstream=sum(one.upstream for one in account.results),
        cards=_cards(account),
        in_scope_s=None if estimates is None else round(estimates.in_scope_s, 3),
        first_failure_s=_first_failure_s(account.results, identity.started_at),
        ran_in=account.ran_in,
        change=change_check(account.results, selection.change),
    )


def change_check(results: Iterable[Result], note: ChangeNote | None) -> ChangeCheck | None:
    """Whether the tests that a change names held what failed by it.

    Args:
        results: of the run.
        note: how the change ordered its tests.

    Returns:
        None where nothing can be told: tests were left out, any may break, or it is not known what failed
        before.
    """
    if note is None or note.left_out or note.everything or note.failed_before is None:
        return None
    before = frozenset(note.failed_before)
    failed = [
        one.id
        for one in results
        if one.verdict is Verdict.FAILED and not one.forgiven and one.id not in before
    ]
    return ChangeCheck(failed=len(failed), caught=sum(name in note.named for name in failed))


def _cards(account: Account) -> int:
    """The cards of all hosts; two hosts may call theirs the same."""
    known = {(line.host, line.card) for line in account.timelines if line.card}
    named = {card for _, card in known}
    # A worker may have changed its card since its journal began.
    others = {one.card for one in account.results if one.card and one.card not in named}
    return len(known) + len(others)


def _first_failure_s(results: Iterable[Result], started_at: float) -> float | None:
    ends = [
        one.started_at + one.seconds
        for one in results
        if one.verdict is Verdict.FAILED and not one.forgiven and one.started_at is not None
    ]
    return round(max(min(ends) - started_at, 0.0), 3) if ends else None


def _shares(results: Iterable[Result], selection: Selection, estimates: Estimates | None) -> dict[str, Share]:
    """What was selected, what came to an outcome of its own, and what passed, against what is in scope."""
    results = list(results)
    ran = [one for one in results if one.verdict not in NO_OUTCOME | {Verdict.HARDWARE}]
    passed = [one for one in ran if one.verdict is Verdict.PASSED]
    shares = {}
    for name, part in (("selected", results), ("run", ran), ("passed", passed)):
        count = len(part)
        seconds = None if estimates is None else sum(estimates.tests.get(one.id, 0.0) for one in part)
        # Tests that were selected and that the tier leaves to a later run count as selected.
        if name == "selected" and (away := sum(len(ids) for ids in selection.moved.values())):
            count, seconds = count + away, None if estimates is None else selection.selected_s
        whole = 0.0 if estimates is None else estimates.in_scope_s
        shares[name] = Share(
            count=count,
            of_count=count / selection.in_scope if selection.in_scope else None,
            seconds=seconds,
            of_seconds=seconds / whole if seconds is not None and whole > 0 else None,
        )
    return shares
