"""What a quarantine did in a run: which failures it forgave, which of its entries want attention. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from ci.core.text import counted, one_line
from ci.record.result import Result
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.quarantine import Entry, Quarantine

State = Literal["expired", "unmatched", "passing", "holds", "idle"]
# What an entry's state asks of people; an idle one asks nothing.
_ADVICE: Mapping[State, str] = {
    "expired": "has expired: fix the test, or give the entry a later date",
    "unmatched": "matches no test of the catalog: remove it, or fix the name",
    "passing": "the tests it covers passed: remove it if that is stable",
}
# Neither good nor bad, and no reason to keep or drop an entry.
_SAYS_NOTHING = NO_OUTCOME | {Verdict.HARDWARE, Verdict.SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryNote:
    """How an entry fared in a run.

    Attributes:
        where: `file:line`.
        named: the test or pattern, as written.
        owner: who sees to it.
        issue: the page where it is followed up.
        expires: its last day.
        state: expired; unmatched: no test of the catalog; passing: all that ran of it passed; idle: none of
            it was planned, or came to an outcome; else it holds.
        tests: how many planned tests it covers.
        failed: how many of them failed.
    """

    where: str
    named: str
    owner: str
    issue: str
    expires: str
    state: State
    tests: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineNote:
    """A run's quarantine.

    Attributes:
        file: its path.
        entries: how each fared, in the order of the file.
        tests: how many planned tests an entry protects.
        forgiven: how many of those failed.
        error: why the file could not be read; nothing was quarantined then.
    """

    file: str
    entries: tuple[EntryNote, ...]
    tests: int = 0
    forgiven: int = 0
    error: str = ""

    @property
    def expired(self) -> tuple[str, ...]:
        """`file:line` of each expired entry that covers a planned test: they redden the run."""
        return tuple(one.where for one in self.entries if one.state == "expired" and one.tests)

    def lines(self) -> list[str]:
        """What people are told: the totals, and each entry that asks something of them."""
        if self.error:
            return [f"nothing is quarantined: {one_line(self.error)}"]
        told = [
            f"{one.where}: {one_line(one.named)} ({one_line(one.owner)}, until {one.expires}) "
            f"{_ADVICE[one.state]}"
            for one in self.entries
            if one.state in _ADVICE
        ]
        return [f"{counted(self.tests, 'test')} quarantined, {self.forgiven:,} of them failed", *told]


def quarantine_results(
    results: Sequence[Result],
    quarantine: Quarantine,
    *,
    today: date,
    catalog: Callable[[], Collection[str] | None] | None = None,
) -> tuple[tuple[Result, ...], QuarantineNote]:
    """Mark what is quarantined; no verdict changes.

    Args:
        results: of a run.
        quarantine: the file's entries; of those that cover a test, the first one that has not expired
            protects it.
        today: the day that decides what has expired: the one the run began on, so that a run that is reported
            again later comes to the same end.
        catalog: every id that was collected, or None; asked for only where an entry covers nothing planned.

    Returns:
        The results in the same order, and how the entries fared.
    """
    covering = quarantine.covering(one.id for one in results)
    marked = tuple(_marked(one, covering.get(one.id, ()), today) for one in results)
    covered: dict[str, list[Result]] = {}
    for one in marked:
        for entry in covering.get(one.id, ()):
            covered.setdefault(entry.named, []).append(one)
    absent = [one for one in quarantine.entries if one.named not in covered and not one.expired(today)]
    collected = _collected(absent, catalog)
    notes = tuple(
        _note(entry, covered.get(entry.named, ()), today, matched=entry.named in collected)
        for entry in quarantine.entries
    )
    held = [one for one in marked if one.quarantine is not None]
    forgiven = sum(one.forgiven for one in held)
    note = QuarantineNote(file=str(quarantine.path), entries=notes, tests=len(held), forgiven=forgiven)
    return marked, note


def _marked(result: Result, entries: Iterable[Entry], today: date) -> Result:
    live = next((one for one in entries if not one.expired(today)), None)
    return result if live is None else replace(result, quarantine=live.mark)


def _collected(absent: Sequence[Entry], catalog: Callable[[], Collection[str] | None] | None) -> set[str]:
    """What of the entries that cover nothing planned names a test all the same; without a catalog, each."""
    ids = catalog() if absent and catalog is not None else None
    if ids is None:
        return {one.named for one in absent}
    files = {name.partition("::")[0] for name in ids}
    return {one.named for one in absent if _names_a_test(one, ids, files)}


def _names_a_test(entry: Entry, ids: Collection[str], files: Collection[str]) -> bool:
    if entry.pattern is None:
        # What was never collected is not known to be gone: a run may be of a few files.
        return entry.named in ids or entry.named.partition("::")[0] not in files
    return any(entry.covers(name) for name in ids)


def _note(entry: Entry, results: Sequence[Result], today: date, *, matched: bool) -> EntryNote:
    return EntryNote(
        where=entry.mark.where,
        named=entry.named,
        owner=entry.mark.owner,
        issue=entry.mark.issue,
        expires=entry.mark.expires,
        state=_state(entry, results, today, matched=matched),
        tests=len(results),
        failed=sum(one.verdict is Verdict.FAILED for one in results),
    )


def _state(entry: Entry, results: Sequence[Result], today: date, *, matched: bool) -> State:
    if entry.expired(today):
        return "expired"
    if not results:
        return "idle" if matched else "unmatched"
    told = [one.verdict for one in results if one.verdict not in _SAYS_NOTHING]
    if not told:
        return "idle"
    return "passing" if all(one is Verdict.PASSED for one in told) else "holds"
