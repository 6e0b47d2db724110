"""What a worker does at a look at the clock: what begins, what is skipped and why. Pure.

The ledger notes a decision in one transaction before anything is started: a time that was begun is taken,
and none is taken twice. A skip is only a note: a clock that was a year ahead skipped times that are still to
come, and these may begin. The clock may go back or jump: nothing begins again, and no lane waits for a clock
that was wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ci.config.lanes_model import Lane, LaneWorker
from ci.core.text import counted
from ci.lanes.cadence import clock, describe, drawn, times_after, wait_s

BY_HAND = "requested by hand"
# Of what a clock jumped over, or nobody was there for, so much is looked at.
MOST_BACK_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run that has begun and not ended.

    Attributes:
        due: its time, in seconds since the epoch.
        tries: attempts that count, with the one that runs.
        retry_at: when the next attempt begins; None while one runs.
    """

    due: int
    tries: int
    retry_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    """What the ledger knows of a lane.

    Attributes:
        looked: up to when its times were looked at; None: it is new, or was nobody's to begin.
        last_end: when its last run ended; None: none did.
        begun: times that were begun, those from a day before now on at least.
        open: its run that has not ended.
    """

    looked: float | None = None
    last_end: float | None = None
    begun: frozenset[int] = frozenset()
    open: OpenRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A reading of the clock, and what holds for all lanes then.

    Attributes:
        now: seconds since the epoch.
        stage: the one in force.
        worker: the zone of times, within what a missed one is still begun, how many run at once.
    """

    now: float
    stage: int
    worker: LaneWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A time of a lane with a reason: why it begins, is skipped, or is not tried again."""

    lane: str
    due: int
    why: str


@dataclass(slots=True)
class Decision:
    """What a look at the clock came to.

    Attributes:
        begin: runs of which an attempt begins, the longest due first.
        skip: times that no run is begun for; some may have been skipped before.
        give_up: open runs that are not tried again, as their lane is no longer the worker's to begin.
        looked: `LaneState.looked` of lanes where it is another now.
        quiet: why nothing of a lane begins, though its time has come or it has none.
        no_room: lanes that are due, and wait until fewer run at once.
    """

    begin: list[Note] = field(default_factory=list)
    skip: list[Note] = field(default_factory=list)
    give_up: list[Note] = field(default_factory=list)
    looked: dict[str, float | None] = field(default_factory=dict)
    quiet: dict[str, str] = field(default_factory=dict)
    no_room: set[str] = field(default_factory=set)


def decide(
    lanes: Mapping[str, Lane],
    states: Mapping[str, LaneState],
    moment: Moment,
    by_hand: Collection[str] = (),
) -> Decision:
    """Decide what every lane does now.

    Args:
        lanes: the settings, by name.
        states: of the ledger, of which nothing lies ahead; a lane that is not found is new, one that is only
            there left the settings.
        moment: the clock, and what holds for all lanes.
        by_hand: lanes that begin now, whatever their cadence says.
    """
    decision, wanted = Decision(), list[tuple[float, Note]]()
    for name in sorted({*lanes, *states}):
        lane, before = lanes.get(name), states.get(name, LaneState())
        reason = "is no longer in the settings" if lane is None else idle(lane, moment.stage)
        if lane is None or reason:
            _put_off(decision, name, before, reason)
        elif name in by_hand and (before.open is None or before.open.retry_at is not None):
            free = (at for at in itertools.count(int(moment.now)) if at not in before.begun)
            due = next(free) if before.open is None else before.open.due
            wanted.append((due, Note(lane=name, due=due, why=BY_HAND)))
        elif begin := _of_lane(decision, name, lane, before, moment):
            wanted.append(begin)
    busy = sum(one.open is not None and one.open.retry_at is None for one in states.values())
    room = max(moment.worker.at_once - busy, 0)
    wanted.sort(key=lambda one: (one[0], one[1].lane))
    decision.begin = [note for _, note in wanted[:room]]
    for _, note in wanted[room:]:
        decision.no_room.add(note.lane)
        decision.quiet[note.lane] = f"is due and waits: lane_worker.at_once is {moment.worker.at_once}"
        if decision.looked.get(note.lane) is not None:
            decision.looked[note.lane] = note.due - 1  # it stays to be looked at
    decision.looked = {
        name: looked
        for name, looked in decision.looked.items()
        if looked != states.get(name, LaneState()).looked
    }
    return decision


def idle(lane: Lane, stage: int) -> str:
    """Why a worker does not begin a lane at any time; empty where it does."""
    return off(lane, stage) or ("is started by its CI" if lane.begun_by is not None else "")


def off(lane: Lane, stage: int) -> str:
    """Why a lane is begun at no time, whoever begins it otherwise; empty where it is."""
    if not lane.enabled:
        return "is disabled"
    if lane.in_stages and stage not in lane.in_stages:
        rows = ", ".join(map(str, lane.in_stages))
        return f"runs only in stage {rows}, and the current stage is {stage}"
    return ""


def retry_wait_s(lane: Lane, name: str, run: OpenRun) -> float | None:
    """Seconds until a run is tried again whose last attempt gave no answer; None: all tries were made.

    The jitter is drawn from the lane's seed, the run and the try, so that a restarted worker waits the same.
    """
    retries = lane.retries
    if run.tries > retries.most:
        return None
    wait = min(retries.first_s * retries.factor ** max(run.tries - 1, 0), retries.longest_s)
    share = drawn(lane.seed, name, run.due, run.tries).random()
    return min(wait * (1 + retries.jitter * share), retries.longest_s)


def next_time(lane: Lane, name: str, state: LaneState, moment: Moment) -> int:
    """When a lane without an open run is due next; in the past where it has been due since the last look."""
    if lane.cadence.after_end is None:
        looked = moment.now if state.looked is None else state.looked
        return next(
            at for at in times_after(lane.cadence, moment.worker.zone, looked) if at not in state.begun
        )
    if state.last_end is None:
        at = int(moment.now)
    else:
        at = int(state.last_end) + wait_s(
            lane.cadence.after_end, seed=lane.seed, name=name, end=state.last_end
        )
    return next(one for one in itertools.count(at) if one not in state.begun)


def _put_off(decision: Decision, name: str, state: LaneState, reason: str) -> None:
    """A lane that is not the worker's to begin; when it is again, nothing of the time between was missed."""
    if state.open is not None and state.open.retry_at is not None:
        decision.give_up.append(Note(lane=name, due=state.open.due, why=reason))
    decision.looked[name] = None
    decision.quiet[name] = reason


def _of_lane(
    decision: Decision, name: str, lane: Lane, state: LaneState, moment: Moment
) -> tuple[float, Note] | None:
    """What a lane wants to begin, and since when; what it skips goes into the decision."""
    run, now, why = state.open, moment.now, describe(lane.cadence, moment.worker.zone)
    times = _passed(lane, state, moment)
    if lane.cadence.after_end is None:
        decision.looked[name] = now if times or state.looked is None else state.looked
    if run is not None:
        _skip(decision, name, times, f"the run due {clock(run.due, moment.worker.zone)} had not ended")
        if run.retry_at is None or run.retry_at > now:
            return None
        again = f"try {run.tries + 1} of {lane.retries.most + 1}" if run.tries else "it was interrupted"
        return run.retry_at, Note(lane=name, due=run.due, why=again)
    if lane.cadence.after_end is not None:
        due = next_time(lane, name, state, moment)
        return (due, Note(lane=name, due=due, why=why)) if due <= now else None
    during = [at for at in times if state.last_end is not None and at < state.last_end]
    _skip(decision, name, during, "the run before it had not ended")
    times = times[len(during) :]
    if times and now - times[-1] <= moment.worker.late_s:
        _skip(decision, name, times[:-1], "no worker ran at its time, and a later one starts")
        return times[-1], Note(lane=name, due=times[-1], why=why)
    _skip(
        decision,
        name,
        times,
        f"it was not started within {moment.worker.late_s:g} s: no worker ran, or no slot was free",
    )
    return None


def _passed(lane: Lane, state: LaneState, moment: Moment) -> list[int]:
    """The times since the last look that were not begun; a clock that went back shows some again."""
    if lane.cadence.after_end is not None or state.looked is None:
        return []  # a new lane has missed nothing
    since = max(state.looked, moment.now - max(MOST_BACK_S, moment.worker.late_s))
    passed = itertools.takewhile(
        lambda at: at <= moment.now, times_after(lane.cadence, moment.worker.zone, since)
    )
    return [at for at in passed if at not in state.begun]


def _skip(decision: Decision, name: str, times: Sequence[int], why: str) -> None:
    """Note that times are skipped: the last one, for all of them."""
    if times:
        more = f" (and {counted(len(times) - 1, 'time')} before it)" if len(times) > 1 else ""
        decision.skip.append(Note(lane=name, due=times[-1], why=why + more))
