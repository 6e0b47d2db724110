"""What a far run's end means here: a standing and an exit code; pure.

A run that brought its results back ends as these say. Without them the far side's word counts, and a lane of
tests that failed without results did not come to an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from ci.core.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE
from ci.lanes.order import Seen, Standing

_CODES = {
    Standing.PASSED: EXIT_OK,
    Standing.FAILED: EXIT_TEST_FAILED,
    Standing.INCOMPLETE: EXIT_INCOMPLETE,
    Standing.CANCELLED: EXIT_INTERRUPTED,
    Standing.TIMED_OUT: EXIT_INCOMPLETE,
    Standing.GONE: EXIT_INCOMPLETE,
}
_STANDINGS = {EXIT_OK: Standing.PASSED, EXIT_TEST_FAILED: Standing.FAILED}
_WORST = (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED)


def ended(standing: Standing, said: str = "", url: str = "") -> Seen:
    """An end, with the exit code that its standing has by itself."""
    return Seen(standing=standing, exit_code=_CODES[standing], said=said, url=url)


def of_code(code: int, said: str = "", url: str = "") -> Seen:
    """An end by an exit code; one that says nothing of tests is taken for something missing."""
    code = _known(code)
    return Seen(standing=_STANDINGS.get(code, Standing.INCOMPLETE), exit_code=code, said=said, url=url)


def settled(seen: Seen, codes: Iterable[int], *, wants_results: bool) -> Seen:
    """An end as the results that came back have it.

    Args:
        seen: what the far side says.
        codes: exit codes of the runs that came back.
        wants_results: the lane is of tests, so that there should be some.
    """
    if seen.standing not in {Standing.PASSED, Standing.FAILED}:
        return seen  # it did not come to its end, whatever was reported until then
    known = {_known(code) for code in codes}
    code = next((one for one in _WORST if one in known), None)
    if code is not None:
        return of_code(code, seen.said or "its results say so", seen.url)
    if seen.standing is Standing.FAILED and wants_results and not known:
        return ended(Standing.INCOMPLETE, f"{seen.said}, and no results of it came back", seen.url)
    return seen


def _known(code: int) -> int:
    return code if code in {EXIT_OK, *_WORST} else EXIT_INCOMPLETE
