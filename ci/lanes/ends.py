"""What a far run's end means here: a standing and an exit code; pure.

A run that brought its results back ends as these say. Without them the far side's word counts, and a lane of
tests that failed without results did not come to an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from ci.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE
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
# https://javadoc.jenkins.io/hudson/model/Result.html
_JENKINS = {
    "SUCCESS": (Standing.PASSED, ""),
    "UNSTABLE": (Standing.FAILED, "the build is unstable: tests failed"),
    "FAILURE": (Standing.FAILED, "the build failed"),
    "ABORTED": (Standing.CANCELLED, "the build was aborted, by somebody or by a time limit of its own"),
    "NOT_BUILT": (Standing.INCOMPLETE, "nothing was built"),
}
# https://docs.github.com/en/rest/actions/workflow-runs
_WAITS = {
    "queued": "waits for a runner",
    "requested": "is asked for",
    "pending": "waits behind another run of its concurrency group",
    "waiting": "waits for somebody's approval",
}
_GITHUB = {
    "success": (Standing.PASSED, ""),
    "neutral": (Standing.PASSED, ""),
    "failure": (Standing.FAILED, "the run failed"),
    "cancelled": (Standing.CANCELLED, "the run was cancelled"),
    "timed_out": (Standing.TIMED_OUT, "the run took longer than GitHub allows it"),
    "skipped": (Standing.INCOMPLETE, "every job was skipped"),
    "action_required": (Standing.INCOMPLETE, "the run wants somebody's approval and was not begun"),
    "stale": (Standing.INCOMPLETE, "GitHub gave the run up, as nothing was heard of it for two weeks"),
    "startup_failure": (Standing.INCOMPLETE, "the run could not begin: its workflow file, or what it calls"),
}


def ended(standing: Standing, said: str = "", url: str = "") -> Seen:
    """An end, with the exit code that its standing has by itself."""
    return Seen(standing=standing, exit_code=_CODES[standing], said=said, url=url)


def of_code(code: int, said: str = "", url: str = "") -> Seen:
    """An end by an exit code; one that says nothing of tests is taken for something missing."""
    code = _known(code)
    return Seen(standing=_STANDINGS.get(code, Standing.INCOMPLETE), exit_code=code, said=said, url=url)


def of_jenkins(result: str, url: str = "") -> Seen:
    """How a build stands, by its result; empty while it runs."""
    if not result:
        return Seen(standing=Standing.RUNNING, url=url)
    unknown = (Standing.INCOMPLETE, f"the build ended as {result:.40}, which nobody here knows")
    standing, said = _JENKINS.get(result, unknown)
    return ended(standing, said, url)


def of_github(status: str, conclusion: str, url: str = "") -> Seen:
    """How a run of a workflow stands, by what GitHub says of it.

    Args:
        status: `completed` once it has ended.
        conclusion: how; empty before.
        url: its page.
    """
    if status in _WAITS:
        return Seen(standing=Standing.STARTING, said=_WAITS[status], url=url)
    # Where nothing but a status is told, it may be a conclusion.
    word = status if status in _GITHUB else conclusion
    if status != "completed" and status not in _GITHUB:
        return Seen(standing=Standing.RUNNING, url=url)
    unknown = (Standing.INCOMPLETE, f"the run ended as {word or 'nothing':.40}, which nobody here knows")
    standing, said = _GITHUB.get(word, unknown)
    return ended(standing, said, url)


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
