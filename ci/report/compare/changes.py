"""Say what a run changes against another one, test by test. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, Self, TypeVar

from ci.record.failure_signature import Ended, differs
from ci.record.verdict import GOOD, Verdict

# Verdicts that say how a test does; the others say that nobody knows.
KNOWN = frozenset({
    Verdict.PASSED, Verdict.FAILED, Verdict.FLAKY, Verdict.SKIPPED, Verdict.XFAILED, Verdict.XPASSED,
})  # fmt: skip


class Outcome(Ended, Protocol):
    """What became of one test."""

    @property
    def id(self) -> str:
        """The test id."""

    @property
    def verdict(self) -> Verdict:
        """One of the nine."""

    @property
    def seconds(self) -> float:
        """How long its last try with an outcome ran."""

    @property
    def card(self) -> str | None:
        """The accelerator it ran on; None where nobody says."""

    @property
    def quarantined(self) -> bool:
        """Whether an entry of the quarantine covers its failure."""


Test = TypeVar("Test", bound=Outcome)


class Kind(StrEnum):
    """What became of a test since; each test of either run is of exactly one, in the order of a report.

    Attributes:
        words: the name for people.
    """

    words: str

    def __new__(cls, value: str, words: str) -> Self:
        """Make a kind of its name in files and its name for people."""
        made = str.__new__(cls, value)
        made._value_, made.words = value, words
        return made

    NEW_FAILURES = "new_failures", "newly failing"
    NEW_TESTS_FAILING = "new_tests_failing", "new and failing"
    NEWLY_FLAKY = "newly_flaky", "newly flaky"
    FAILING_UNKNOWN = "failing_unknown", "failing, outcome in base unknown"
    FLAKY_UNKNOWN = "flaky_unknown", "flaky, outcome in base unknown"
    FAILING_DIFFERENTLY = "failing_differently", "still failing, differently"
    QUARANTINED = "quarantined", "newly failing, quarantined"
    STILL_FAILING = "still_failing", "still failing"
    FIXED = "fixed", "fixed"
    NO_LONGER_FLAKY = "no_longer_flaky", "no longer flaky"
    NEWLY_SKIPPED = "newly_skipped", "newly skipped"
    OTHERWISE = "otherwise", "changed otherwise, failing in neither"
    UNKNOWN = "unknown", "without an outcome in one of the runs"
    ONLY_NEW = "only_new", "planned in the new run only"
    ONLY_BASE = "only_base", "planned in base only"
    SAME = "same", "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[Test]):
    """A test and what it was; `now` or `base` is None where that run had not planned it."""

    now: Test | None = None
    base: Test | None = None

    @property
    def id(self) -> str:
        """What it is called, here if it is there."""
        one = self.now or self.base
        return "" if one is None else one.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Generic[Test]):
    """Tests by what became of them since, each in exactly one kind, in the order of the run.

    Attributes:
        of: the tests of each kind but for those that are as they were.
        same: how many are.
        gone: how many that fail there were not planned here.
    """

    of: Mapping[Kind, tuple[Change[Test], ...]] = field(default_factory=dict)
    same: int = 0
    gone: int = 0

    def __getitem__(self, kind: Kind) -> tuple[Change[Test], ...]:
        """The tests of a kind."""
        return self.of.get(kind, ())

    @property
    def counts(self) -> dict[Kind, int]:
        """How many tests of each kind; they add up to the tests that either run had planned."""
        return {kind: len(self[kind]) for kind in Kind} | {Kind.SAME: self.same}


def compare(
    now: Iterable[Test],
    base: Iterable[Test],
    *,
    appeared: Collection[str] = (),
    moved: Mapping[str, str] | None = None,
) -> Changes[Test]:
    """What is different.

    A test that is quarantined counts as failing all the same: whether it fails is one question, whether that
    blocks another; a new failure of such a test stands apart.

    Args:
        now: the tests of the run.
        base: those of the run it is compared with.
        appeared: ids that there is no such test of there, whether planned or not.
        moved: by what a test is called here, what it is called there.
    """
    there = {row.id: row for row in base}
    found: dict[Kind, list[Change[Test]]] = {}
    same = 0
    for row in now:
        was = there.pop((moved or {}).get(row.id, row.id), None)
        kind = kind_of(
            row.verdict,
            None if was is None else was.verdict,
            new=row.id in appeared,
            quarantined=row.quarantined,
            differently=was is not None
            and row.verdict is was.verdict is Verdict.FAILED
            and differs(row, was),
        )
        if kind is Kind.SAME:
            same += 1
        else:
            found.setdefault(kind, []).append(Change(now=row, base=was))
    for was in there.values():
        found.setdefault(Kind.ONLY_BASE, []).append(Change(base=was))
    gone = Counter(row.verdict for row in there.values())[Verdict.FAILED]
    return Changes(of={kind: tuple(rows) for kind, rows in found.items()}, same=same, gone=gone)


def kind_of(
    now: Verdict | None,
    base: Verdict | None,
    *,
    new: bool = False,
    quarantined: bool = False,
    differently: bool = False,
) -> Kind:
    """Which of the changes a test is; every place that compares two runs asks this one.

    Args:
        now: what became of it; None where the run had not planned it.
        base: what became of it there.
        new: there was no such test there, planned or not.
        quarantined: an entry of the quarantine covers its failure.
        differently: it fails in both, and not the same way.
    """
    if now is None:
        return Kind.ONLY_BASE
    was = base if base in KNOWN else None
    if now is Verdict.FAILED:
        if was is Verdict.FAILED:
            return Kind.FAILING_DIFFERENTLY if differently else Kind.STILL_FAILING
        fails = Kind.NEW_TESTS_FAILING if new and base is None else Kind.NEW_FAILURES
        return Kind.FAILING_UNKNOWN if was is None and not new else Kind.QUARANTINED if quarantined else fails
    if now is Verdict.FLAKY and was is not Verdict.FLAKY:
        # A test that is new and flaky has brought that with it.
        return Kind.NEWLY_FLAKY if was or new else Kind.FLAKY_UNKNOWN
    if base is None or was is None or now not in KNOWN:
        return Kind.ONLY_NEW if base is None else Kind.UNKNOWN
    return _not_failing(now, was)


def _not_failing(now: Verdict, was: Verdict) -> Kind:
    if now is was:
        return Kind.SAME
    if now is Verdict.SKIPPED:
        # What failed and is skipped now is not fixed: nobody looks any more.
        return Kind.NEWLY_SKIPPED
    if was is Verdict.FAILED and now in GOOD:
        return Kind.FIXED
    if was is Verdict.FLAKY and now in GOOD:
        return Kind.NO_LONGER_FLAKY
    return Kind.OTHERWISE
