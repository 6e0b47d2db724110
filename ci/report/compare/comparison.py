"""Compare two runs: verdicts, tests there are, and times; and whether it is bad enough to stop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED
from ci.core.text import counted
from ci.record.verdict import Verdict
from ci.report.compare.changes import KNOWN, Change, Changes, Kind, Test, compare
from ci.report.compare.existing import Existence, Known, compare_catalogs
from ci.report.compare.machines import LEAST_TIMED_S, Pair
from ci.report.compare.times import Past, Times, compare_times, with_history

# What `--check` stops at.
STOPPING = (Kind.NEW_FAILURES, Kind.NEW_TESTS_FAILING, Kind.NEWLY_FLAKY)
# What it cannot answer for.
UNANSWERED = (Kind.FAILING_UNKNOWN, Kind.FLAKY_UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Generic[Test]):
    """A run.

    Attributes:
        run: what it is called, for people.
        rows: one a planned test.
        facts: by name, what it is of, such as the device; empty text where nobody says.
        known: the tests there are; None without a catalog.
        setups: by file, as ids begin with it, the median seconds of its set-ups.
        under_test: the back end with its version and commit, and what was checked out; two runs are often
            compared because of it, so it is no matter of being alike.
        in_scope: how many tests its share is of; 0 where nobody counted them.
        lacking: what has no outcome in it, for people; empty where all has one.
        started_at: seconds since the epoch; None where nobody says.
    """

    run: str
    rows: Sequence[Test]
    facts: Mapping[str, str] = field(default_factory=dict)
    known: Known | None = None
    setups: Mapping[str, float] = field(default_factory=dict)
    under_test: str = ""
    in_scope: int = 0
    lacking: str = ""
    started_at: float | None = None


class Unlike(NamedTuple):
    """Something that is otherwise about the runs themselves."""

    what: str
    now: str
    base: str


def unlike(now: Side[Test], base: Side[Test], existence: Existence) -> tuple[Unlike, ...]:
    """What two runs do not have in common.

    That other tests are in scope is told where the tests that came and went do not explain it: then the rules
    are others.
    """
    names: Iterable[str] = dict.fromkeys((*now.facts, *base.facts))
    found = [Unlike(name, now.facts.get(name, ""), base.facts.get(name, "")) for name in names]
    more = len(existence.appeared) - len(existence.vanished)
    if now.in_scope and base.in_scope and now.in_scope - base.in_scope != more:
        found.append(Unlike("tests in scope", f"{now.in_scope:,}", f"{base.in_scope:,}"))
    return tuple(one for one in found if one.now != one.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Generic[Test]):
    """What a run changes against another one.

    Attributes:
        now: the run.
        base: the one it is compared with.
        unlike: what the runs themselves do not have in common.
        changes: tests by what became of them.
        existence: tests that came and went.
        times: what takes longer.
    """

    now: Side[Test]
    base: Side[Test]
    unlike: tuple[Unlike, ...] = ()
    changes: Changes[Test] = field(default_factory=Changes)
    existence: Existence = field(default_factory=Existence)
    times: Times = field(default_factory=Times)

    @property
    def nothing(self) -> bool:
        """Whether no test fails, is flaky, comes, goes or takes longer that did not there."""
        counts = self.changes.counts
        quiet = {Kind.SAME, Kind.ONLY_NEW, Kind.ONLY_BASE, Kind.UNKNOWN, Kind.OTHERWISE}
        return not (
            any(number for kind, number in counts.items() if kind not in quiet)
            or self.changes.gone
            or self.existence.appeared
            or self.existence.vanished
            or self.times.found
        )

    def with_history(self, past: Mapping[str, Past]) -> Comparison[Test]:
        """The same without tests whose times are known to vary as much as this."""
        return replace(self, times=with_history(self.times, past))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What `--check` comes to: an exit code, and why."""

    code: int
    said: str


def compare_sides(now: Side[Test], base: Side[Test]) -> Comparison[Test]:
    """What a run changes against another one.

    Args:
        now: the run.
        base: the one it is compared with.
    """
    existence = compare_catalogs(now.known, base.known)
    changes = compare(now.rows, base.rows, appeared=frozenset(existence.appeared), moved=existence.moved)
    return Comparison(
        now=now,
        base=base,
        unlike=unlike(now, base, existence),
        changes=changes,
        existence=existence,
        times=compare_times(list(_pairs(now.rows, base.rows, existence.moved)), _setups(now, base)),
    )


def check(comparison: Comparison[Test]) -> Check:
    """Whether a run is worse: 1 where tests newly fail or are newly flaky, 3 where nobody can tell, else 0.

    A new failure that is quarantined stops nothing.
    """
    counts = comparison.changes.counts
    stops = {kind: sum(map(_worse, comparison.changes[kind])) for kind in STOPPING}
    stopping = [f"{number:,} {kind.words}" for kind, number in stops.items() if number]
    if stopping:
        return Check(code=EXIT_TEST_FAILED, said=f"worse: {', '.join(stopping)}")
    doubtful = [change for kind in UNANSWERED for change in comparison.changes[kind]]
    open_ = sum(1 for one in doubtful if one.now is not None and not one.now.quarantined)
    # What had an outcome there and has none here may fail.
    lost = sum(
        one.now is not None and one.now.verdict not in KNOWN for one in comparison.changes[Kind.UNKNOWN]
    )
    why = [f"{counted(open_, 'test')} failing or flaky, outcome in base unknown"] if open_ else []
    why += [f"{counted(lost, 'test')} without an outcome in the new run"] if lost else []
    uncollected = len(comparison.existence.uncollected_here)
    why += [f"{counted(uncollected, 'file')} not collected in the new run"] if uncollected else []
    if not comparison.now.rows or not comparison.base.rows:
        why.append("a run without tests")
    elif len(comparison.now.rows) == counts[Kind.ONLY_NEW]:
        why.append("no test is in both runs")
    if why:
        return Check(code=EXIT_INCOMPLETE, said=f"unknown: {', '.join(why)}")
    return Check(code=EXIT_OK, said="no worse: nothing newly fails or is newly flaky")


def _worse(change: Change[Test]) -> bool:
    """Whether a test that newly fails or is flaky did better there: one that failed did not."""
    return change.base is None or change.base.verdict is not Verdict.FAILED


def _pairs(now: Sequence[Test], base: Sequence[Test], moved: Mapping[str, str]) -> Iterator[Pair]:
    """The times of what passed in both, whatever it is called: only such say how long a test takes."""
    there = {row.id: row for row in base if row.verdict is Verdict.PASSED}
    for row in now:
        was = there.get(moved.get(row.id, row.id)) if row.verdict is Verdict.PASSED else None
        if was is not None and min(row.seconds, was.seconds) > 0:
            yield Pair(
                row.id,
                row.id.partition("::")[0],
                max(row.seconds, LEAST_TIMED_S),
                max(was.seconds, LEAST_TIMED_S),
                row.card or "",
                was.card or "",
            )


def _setups(now: Side[Test], base: Side[Test]) -> list[Pair]:
    return [
        Pair(file, file, max(seconds, LEAST_TIMED_S), max(base.setups[file], LEAST_TIMED_S))
        for file, seconds in now.setups.items()
        if base.setups.get(file, 0) > 0 and seconds > 0
    ]
