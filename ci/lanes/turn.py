"""What a worker does at a look at the clock: what begins, what is skipped and why, when to look again. Pure.

A look is `take_turn`. Whoever calls it writes `skip`, `give_up`, `known` and each of `begin` down in one
transaction before anything is started: a time that was begun is taken, and no time is taken twice. To skip a
time is a note and no more: a clock that was a year ahead has skipped all of that year, and its lanes are to
run when the year comes. So a note may come again, and be followed by a begin. The clock may go back or jump
by years: nothing is begun again, and no lane waits for a clock that was wrong to be right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

from ci.config.lanes_model import Lane, Retries
from ci.lanes.cadence import MOST_PASSED, next_due, passed, said, share


def waits(retries: Retries, *, seed: int, key: str) -> tuple[float, ...]:
    """Seconds before each try after the first, to the millisecond; as many as there are tries.

    The jitter is drawn once for all from seed, key and the number of the try, so that a worker that was
    started again waits as it would have. It is added before the cap, which no wait goes beyond.

    Args:
        retries: the settings.
        seed: of the lane.
        key: what is tried again: a run's lane and time.
    """
    bare = (
        min(retries.first_s * retries.factor**number, retries.longest_s) for number in range(retries.most)
    )
    return tuple(
        round(min(wait * (1 + retries.jitter * share(seed, key, number)), retries.longest_s), 3)
        for number, wait in enumerate(bare)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run that has begun and not ended.

    Attributes:
        due: its time.
        attempt: number of the last attempt, from 1.
        next_try: when the next is made; None while this one is on.
    """

    due: int
    attempt: int
    next_try: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the store knows of a lane.

    Attributes:
        looked: up to when its times were looked at; None: it was nobody's to begin, is new, or has no times
            of its own, as it counts from the end of its last run.
        last_end: when its last run ended, in seconds since the epoch; None: none did.
        taken: the times that were begun, those from `first_of_interest` on at least.
        open: its run that has not ended.
    """

    looked: float | None = None
    last_end: float | None = None
    taken: frozenset[int] = frozenset()
    open: OpenRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """An attempt to start; the first one opens the run of its time."""

    lane: str
    due: int
    attempt: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A time that no run is begun for, or an open run that is not tried again."""

    lane: str
    due: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a look at the clock came to.

    Attributes:
        begin: attempts to start, the longest due first.
        skip: times to note as skipped; some may have been before.
        give_up: open runs that end here: their lane is no longer the worker's to begin.
        known: `looked`, `last_end` and `open.next_try` of lanes where these are others now.
        quiet: why nothing of a lane begins, though it is enabled and due or not; by name.
        waits: lanes that are due and for which there is no room.
        look_at: when something is due next; None: nothing is, before a run ends or settings change.
    """

    begin: tuple[Begin, ...] = ()
    skip: tuple[Skip, ...] = ()
    give_up: tuple[Skip, ...] = ()
    known: Mapping[str, Known] = field(default_factory=dict)
    quiet: Mapping[str, str] = field(default_factory=dict)
    waits: frozenset[str] = frozenset()
    look_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A reading of the clock, and what holds for all lanes then.

    Attributes:
        now: seconds since the epoch.
        stage: the one in force.
        zone: in which cron and times of day are read.
        late_s: within which a missed time is still begun.
        at_once: runs at the same time, over all lanes.
        first: whether nobody looked just before: when a run ended that is over now, nobody knows.
    """

    now: float
    stage: int
    zone: tzinfo
    late_s: float
    at_once: int
    first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A lane at a look: what it wants to begin and since when, or when it is due."""

    known: Known
    wants: Begin | None = None
    since: float = 0
    skip: Sequence[Skip] = ()
    give_up: Sequence[Skip] = ()
    quiet: str = ""
    look_at: float | None = None


def take_turn(lanes: Mapping[str, Lane], known: Mapping[str, Known], look: Look) -> Turn:
    """Decide what every lane does now.

    Args:
        lanes: the settings, by name.
        known: of the store; a lane that is not there is new, one that is only there left the settings.
        look: the clock, and what holds for all lanes.
    """
    before = {name: known.get(name, Known()) for name in [*lanes, *known]}
    seen = {name: _lane(name, lanes.get(name), one, look) for name, one in before.items()}
    room = look.at_once - sum(one.open is not None and one.open.next_try is None for one in before.values())
    wanting = sorted((one.since, name) for name, one in seen.items() if one.wants is not None)
    for _, name in wanting[max(room, 0) :]:
        seen[name] = _without_room(seen[name], look)
    return Turn(
        begin=tuple(wants for _, name in wanting if (wants := seen[name].wants) is not None),
        skip=tuple(skip for one in seen.values() for skip in one.skip),
        give_up=tuple(skip for one in seen.values() for skip in one.give_up),
        known={name: one.known for name, one in seen.items() if one.known != before[name]},
        quiet={name: one.quiet for name, one in seen.items() if one.quiet},
        waits=frozenset(name for _, name in wanting[max(room, 0) :]),
        look_at=min((one.look_at for one in seen.values() if one.look_at is not None), default=None),
    )


def next_try(lane: Lane, name: str, run: OpenRun, ended: float) -> float | None:
    """When a run is tried again whose attempt came to no answer; None: it is not, as all tries were made.

    Args:
        lane: its settings.
        name: of the lane.
        run: with the number of the attempt that ended.
        ended: when it did.
    """
    wait = _wait(lane, name, run)
    return None if wait is None else ended + wait


def first_of_interest(known: Known, now: float) -> int:
    """From which time on `Known.taken` has to be whole."""
    return math.floor(min([now, *(one for one in (known.looked, known.last_end) if one is not None)]))


def idle(lane: Lane, stage: int) -> str:
    """Why a worker does not begin a lane at any time; empty where it does."""
    return off(lane, stage) or ("is begun by its CI" if lane.begun_by == "ci" else "")


def off(lane: Lane, stage: int) -> str:
    """Why a lane is begun at no time, whoever begins it otherwise; empty where it is."""
    if not lane.enabled:
        return "is disabled"
    if lane.in_stages and stage not in lane.in_stages:
        rows = ", ".join(map(str, lane.in_stages))
        return f"runs in stage {rows} only, and stage {stage} is in force"
    return ""


def clock(at: float, zone: tzinfo) -> str:
    """A moment as people of a time zone write it."""
    return f"{datetime.fromtimestamp(at, tz=zone):%Y-%m-%d %H:%M %Z}"


def _lane(name: str, lane: Lane | None, known: Known, look: Look) -> _Seen:
    reason = "is no longer in the settings" if lane is None else idle(lane, look.stage)
    if lane is None or reason:
        waits_to_be_tried = known.open is not None and known.open.next_try is not None
        ends = [Skip(lane=name, due=known.open.due, why=reason)] if known.open and waits_to_be_tried else []
        # When it is the worker's again, nothing of the time between was missed.
        return _Seen(known=replace(known, looked=None), give_up=ends, quiet=reason)
    righted = _righted(lane, name, known, look.now)
    if righted.open is not None:
        return _open(lane, name, righted, righted.open, look)
    return (_after_end if lane.cadence.after_end else _by_clock)(lane, name, righted, look)


def _righted(lane: Lane, name: str, known: Known, now: float) -> Known:
    """What is known, where the clock is behind it: what lies ahead was now at the latest."""
    run = known.open
    if run is not None and run.next_try is not None:
        run = replace(run, next_try=min(run.next_try, now + (_wait(lane, name, run) or 0)))
    return replace(
        known,
        looked=None if lane.cadence.after_end else min(now if known.looked is None else known.looked, now),
        last_end=None if known.last_end is None else min(known.last_end, now),
        open=run,
    )


def _open(lane: Lane, name: str, known: Known, run: OpenRun, look: Look) -> _Seen:
    """A lane whose run has not ended: times that come are skipped."""
    times = _fresh(lane, known, look)
    skip = _skips(name, times, f"the run of {clock(run.due, look.zone)} had not ended")
    known = replace(known, looked=look.now) if times else known
    if run.next_try is None:
        return _Seen(known=known, skip=skip, quiet="its run is on")
    if run.next_try > look.now:
        return _Seen(known=known, skip=skip, quiet="waits for its next try", look_at=run.next_try)
    wants = Begin(
        lane=name,
        due=run.due,
        attempt=run.attempt + 1,
        why=f"try {run.attempt + 1} of {lane.retries.most + 1}: the one before "
        f"{'came to no answer' if run.attempt else 'was handed back'}",
    )
    return _Seen(known=known, skip=skip, wants=wants, since=run.next_try)


def _after_end(lane: Lane, name: str, known: Known, look: Look) -> _Seen:
    due = next_due(lane, look.zone, name=name, looked=known.looked, last_end=known.last_end, now=look.now)
    at = due.at
    while at in known.taken:  # by a clock that has gone back since
        at += 1
    if at > look.now:
        return _Seen(known=known, look_at=at)
    return _Seen(known=known, wants=Begin(lane=name, due=at, attempt=1, why=due.why), since=at)


def _by_clock(lane: Lane, name: str, known: Known, look: Look) -> _Seen:
    """Cron and times of day: the last time that passed is begun if it is not too late; others are missed."""
    times = _fresh(lane, known, look)
    known = replace(known, looked=look.now) if times else known
    # A run was on at these, and was seen to end only now.
    end = -math.inf if look.first or known.last_end is None else known.last_end
    skip = _skips(name, [one for one in times if one < end], "the run before it had not ended")
    times = times[len(skip) :]
    if not times:
        due = next_due(lane, look.zone, name=name, looked=look.now, last_end=None, now=look.now)
        return _Seen(known=known, skip=skip, look_at=due.at)
    *missed, last = times
    late = look.now - last
    if late > look.late_s:
        why = f"it was not begun within {look.late_s:g} s: nobody was there, or there was no room"
        return _Seen(known=known, skip=[*skip, *_skips(name, times, why)])
    skip += _skips(name, missed, f"nobody was there at its time; that of {clock(last, look.zone)} was begun")
    wants = Begin(lane=name, due=last, attempt=1, why=said(lane.cadence, look.zone))
    return _Seen(known=known, skip=skip, wants=wants, since=last)


def _without_room(seen: _Seen, look: Look) -> _Seen:
    """A lane that waits: as many runs are on as may be at once. Its time stays to be looked at."""
    wants, known = seen.wants, seen.known
    if wants is not None and wants.attempt == 1 and known.looked is not None:
        known = replace(known, looked=min(known.looked, wants.due - 1))
    quiet = f"is due and waits: {look.at_once} runs at once, no more"
    return replace(seen, known=known, wants=None, quiet=quiet)


def _fresh(lane: Lane, known: Known, look: Look) -> list[int]:
    """The times since the last look that were not begun; a clock that went back shows some again."""
    if lane.cadence.after_end is not None or known.looked is None:
        return []
    times = passed(lane, look.zone, after=known.looked, until=look.now)
    return [one for one in times if one not in known.taken]


def _skips(name: str, times: Sequence[int], why: str) -> list[Skip]:
    # Where there are more than are listed, the first stands for those before it.
    more = "; as were those before it" if len(times) >= MOST_PASSED - 1 else ""
    return [Skip(lane=name, due=at, why=why + (more if at == times[0] else "")) for at in times]


def _wait(lane: Lane, name: str, run: OpenRun) -> float | None:
    """Seconds before the next try of a run; None where there is none."""
    all_waits = waits(lane.retries, seed=lane.seed, key=f"{name}-{run.due}")
    return all_waits[run.attempt - 1] if 1 <= run.attempt <= len(all_waits) else None
