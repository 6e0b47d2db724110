"""What an attempt's end means: an answer, another try, or work handed back to the next worker; pure."""

from __future__ import annotations

from dataclasses import replace

from ci.config.lanes_model import Lane
from ci.core.errors import EXIT_INCOMPLETE
from ci.lanes.noted import ENDING, LIMIT, Attempt, Outcome
from ci.lanes.order import Seen, Standing
from ci.lanes.turn import OpenRun, next_try

_ANSWERS = {Standing.PASSED, Standing.FAILED}


def outcome(attempt: Attempt, seen: Seen, *, lane: Lane | None, tries: int, now: float) -> Outcome:
    """What becomes of the run of an attempt that ended.

    Args:
        attempt: as it is noted.
        seen: its end.
        lane: its settings; None where they have it no more.
        tries: attempts of the run that count, with this one.
        now: seconds since the epoch.
    """
    if seen.standing in _ANSWERS or (seen.standing.answered and not attempt.asked):
        return Outcome(seen=seen)
    if attempt.asked == ENDING:
        # No failure of its own: the next worker begins it again, without waiting.
        told = replace(seen, standing=Standing.CANCELLED, said="ended with the worker, and was handed back")
        return Outcome(seen=told, again_at=now, handed_back=True)
    if attempt.asked == LIMIT:
        said = f"took longer than its {attempt.limit_s:g} s"
        if seen.said:
            said = seen.said if said in seen.said else f"{said}; {seen.said}"
        # Whatever code it ended with is of its being told to end.
        seen = replace(seen, standing=Standing.TIMED_OUT, exit_code=EXIT_INCOMPLETE, said=said)
    run = OpenRun(due=attempt.due, attempt=tries)
    again_at = None if lane is None else next_try(lane, attempt.lane, run, now)
    return Outcome(seen=seen, again_at=again_at)
