"""What a run changes against another one, test by test; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ci.pipeline.told import Row
from ci.report.verdict import Verdict

# Verdicts that say how a test does; the others say that nobody knows.
_KNOWN = frozenset({
    Verdict.PASSED, Verdict.FAILED, Verdict.FLAKY, Verdict.SKIPPED, Verdict.XFAILED, Verdict.XPASSED,
})  # fmt: skip
_GOOD = frozenset({Verdict.PASSED, Verdict.XFAILED, Verdict.XPASSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Tests by what became of them since; each in one of these at most, in the order of the run.

    Attributes:
        newly_failing: they do not fail there.
        failing_unknown: they fail, and nobody knows how they do there: new, or without an outcome.
        still_failing: they fail there as well.
        fixed: they fail there, and pass or fail as declared here.
        newly_flaky: they pass here only when run again, and are not flaky there.
        gone: how many that fail there were not planned here.
    """

    newly_failing: tuple[Row, ...] = ()
    failing_unknown: tuple[Row, ...] = ()
    still_failing: tuple[Row, ...] = ()
    fixed: tuple[Row, ...] = ()
    newly_flaky: tuple[Row, ...] = ()
    gone: int = 0


def compare(now: Iterable[Row], base: Iterable[Row]) -> Changes:
    """What is different.

    A test that is quarantined counts as failing all the same: whether it fails is one question, whether that
    blocks another.

    Args:
        now: the tests of the run.
        base: those of the run it is compared with.
    """
    there = {row.id: row.verdict for row in base}
    found: dict[str, list[Row]] = {}
    ids = set()
    for row in now:
        ids.add(row.id)
        if kind := _kind(row.verdict, there.get(row.id)):
            found.setdefault(kind, []).append(row)
    gone = sum(verdict is Verdict.FAILED and name not in ids for name, verdict in there.items())
    return Changes(gone=gone, **{kind: tuple(rows) for kind, rows in found.items()})


def _kind(now: Verdict, base: Verdict | None) -> str:
    """Which of the changes a test is; empty for none."""
    known = base in _KNOWN
    if now is Verdict.FAILED:
        if not known:
            return "failing_unknown"
        return "still_failing" if base is Verdict.FAILED else "newly_failing"
    if now is Verdict.FLAKY:
        return "newly_flaky" if base is not Verdict.FLAKY else ""
    return "fixed" if base is Verdict.FAILED and now in _GOOD else ""
