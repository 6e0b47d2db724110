"""What each lane does next, when and why, as a worker would decide it at a moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ci.config.lanes_model import Lane
from ci.lanes.cadence import next_due, said
from ci.lanes.turn import Begin, Known, Look, clock, off, take_turn

# What a worker that looks every few seconds is late by is not worth a word.
_NOTEWORTHY_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """What comes next of a lane.

    Attributes:
        lane: its name.
        at: when, in seconds since the epoch; None where nothing says so, such as before the end of a run.
        why: then, in words.
        state: what stands in the way or goes on meanwhile; empty where nothing does.
    """

    lane: str
    at: float | None
    why: str
    state: str = ""


def upcoming(lanes: Mapping[str, Lane], known: Mapping[str, Known], look: Look) -> list[Upcoming]:
    """What comes next of every lane, the soonest first and what never comes last.

    Args:
        lanes: the settings, by name.
        known: of the worker's store; empty where no worker was there.
        look: the moment, and what holds for all lanes.
    """
    turn = take_turn(lanes, known, look)
    begun = {one.lane: one for one in turn.begin}
    after = {**{name: Known() for name in lanes}, **known, **turn.known}
    found = [
        _now(begun[name], look)
        if name in begun
        else _later(name, lane, after[name], turn.quiet.get(name, ""), look)
        for name, lane in lanes.items()
    ]
    return sorted(found, key=lambda one: (one.at is None, one.at or 0, one.lane))


def _now(begin: Begin, look: Look) -> Upcoming:
    waited = look.now - begin.due
    state = f"was due at {clock(begin.due, look.zone)}" if waited >= _NOTEWORTHY_S else "is due"
    return Upcoming(lane=begin.lane, at=look.now, why=begin.why, state=state)


def _later(name: str, lane: Lane, known: Known, quiet: str, look: Look) -> Upcoming:
    """A lane that does not begin at this moment; `quiet` is why, where it is not that its time is to come."""
    words, run = said(lane.cadence, look.zone), known.open
    if off(lane, look.stage):
        return Upcoming(lane=name, at=None, why=words, state=quiet)
    if run is not None and run.next_try is not None:
        state = f"the run of {clock(run.due, look.zone)} is tried again then"
        return Upcoming(lane=name, at=max(run.next_try, look.now), why=words, state=state)
    if run is not None:
        quiet = f"the run of {clock(run.due, look.zone)} is on"
    if lane.cadence.after_end is not None and (run is not None or lane.begun_by == "ci"):
        return Upcoming(lane=name, at=None, why=words, state=quiet)
    due = next_due(lane, look.zone, name=name, looked=known.looked, last_end=known.last_end, now=look.now)
    while due.at in known.taken and lane.cadence.after_end is None:  # by a clock that has gone back since
        due = next_due(lane, look.zone, name=name, looked=due.at, last_end=None, now=due.at)
    return Upcoming(lane=name, at=max(due.at, look.now), why=due.why, state=quiet)
