"""The ends of a search, out of what past runs saw; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ci.bisect.belief import Belief, Tally
from ci.core.errors import UsageError
from ci.record.verdict import CODE_FAILED, CODE_PASSED

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# What a run of another day, on another build, says of an end counts for so many tries at most.
COUNTS = 3
NOTHING = Tally()
# A good end that is not one is found out, for a step more; a nearer one saves less than that.
_SURE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where a search begins and ends.

    Attributes:
        good: SHA; empty where the history has none.
        bad: SHA; empty where the history has none.
        seen_good: what was seen at the good end, as far as it counts.
        seen_bad: the same of the bad end.
    """

    good: str = ""
    bad: str = ""
    seen_good: Tally = NOTHING
    seen_bad: Tally = NOTHING


def counted_outcome(verdict: str, attempts: int) -> Tally:
    """What one run says; a flaky test failed until its last attempt, a skip or a lost card says nothing."""
    if verdict in CODE_PASSED:
        return Tally(passed=1)
    if verdict in CODE_FAILED:
        return Tally(failed=max(attempts, 1))
    if verdict == "flaky":
        return Tally(passed=1, failed=max(attempts - 1, 1))
    return NOTHING


def choose_ends(seen: Iterable[tuple[str, Tally]]) -> Ends:
    """The nearest ends that are clear enough, by the same rule that searches between them.

    Args:
        seen: SHAs with what a run saw, the oldest first; what follows the last failure is left out, as
            whatever it was is mended there.
    """
    by_sha: dict[str, Tally] = {}
    for sha, tally in seen:
        if _SHA.fullmatch(sha) and tally.tries:
            by_sha[sha] = by_sha.get(sha, NOTHING) + tally
    rows = list(by_sha.items())
    while rows and not rows[-1][1].failed:
        rows.pop()
    if not rows:
        return Ends(good=next((sha for sha in reversed(by_sha) if by_sha[sha].passed), ""))
    bad_sha, bad = rows[-1]
    if len(rows) == 1:
        return Ends(bad=bad_sha, seen_bad=_capped(bad))
    belief = Belief(last=len(rows) - 1, tallies={number: tally for number, (_, tally) in enumerate(rows)})
    good_at = max((one for one in range(len(rows)) if belief.bad(one) <= 1 - _SURE), default=-1)
    if good_at < 0:  # nothing is clear: the oldest that ever passed and did not fail
        good_at = next((one for one, (_, tally) in enumerate(rows) if tally.passed and not tally.failed), -1)
    later = range(max(good_at, 0) + (good_at >= 0), len(rows))
    bad_at = next((one for one in later if belief.bad(one) >= _SURE and rows[one][1].failed), len(rows) - 1)
    bad_sha, bad = rows[bad_at]
    if good_at < 0 or good_at >= bad_at:
        return Ends(bad=bad_sha, seen_bad=_capped(bad))
    good_sha, good = rows[good_at]
    return Ends(good=good_sha, bad=bad_sha, seen_good=_capped(good), seen_bad=_capped(bad))


def require(found: Ends, *, test: str, lane: str) -> Ends:
    """The ends, both of them.

    Raises:
        UsageError: the history lacks one.
    """
    for end, flag, word in ((found.bad, "--bad", "failed"), (found.good, "--good", "passed")):
        if not end:
            raise UsageError(
                f"no run of lane {lane!r} tells where {test} {word}",
                where=flag,
                remedy=f"name a commit with {flag}, or another lane with bisect.lane",
            )
    return found


def _capped(seen: Tally) -> Tally:
    """As much of what was seen as counts; what was seen at all stays."""
    if seen.tries <= COUNTS:
        return seen
    failed = min(max(round(COUNTS * seen.failed / seen.tries), min(seen.failed, 1)), COUNTS)
    passed = COUNTS - failed
    return Tally(passed=max(passed, min(seen.passed, 1)), failed=failed)
