"""Showing a recorded run again: its journals' events, in the order of their clocks, through the live view."""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ci.live import stream
from ci.live.sink import Sink
from ci.live.state import State
from ci.live.view import Watcher, view_for
from ci.runner.journal import Event, Journal, read_journals, seconds_of, text_of
from ci.steps.again import again_of
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.durations import Durations, read_durations
from test_selection.files import read_json
from test_selection.plan import Plan, read_plan

# How often the bar moves while recorded time passes, in recorded seconds.
TICK_S = 0.5
# Of a time in which nothing happened, such as before a run was resumed, only the end is shown.
LONGEST_GAP_S = 120.0
OpenSink = Callable[[Callable[[], float]], AbstractContextManager[Sink | None]]


@dataclass(slots=True)
class RecordedClock:
    """Recorded time: seconds since the epoch, as the journals have them."""

    now: float = 0.0

    def __call__(self) -> float:
        """The moment that is shown."""
        return self.now


def replay_step(
    context: Context,
    folder: RunFolder,
    *,
    speed: float,
    open_events: OpenSink,
    sleep: Callable[[float], object],
) -> None:
    """Show a run again.

    Args:
        context: the outside world.
        folder: the run.
        speed: recorded seconds a second; 0: as fast as it goes.
        open_events: opens what takes the events for other tools; it is handed the recorded clock.
        sleep: waits so many seconds.

    Raises:
        SpyreCiError: the run has no plan or no journals, or they cannot be read.
    """
    plan, journals = read_plan(folder.plan), read_journals(folder.path)
    clock = RecordedClock(next((moment for moment, _, _ in in_order(journals)), 0.0))
    view = view_for(context.console, context.environ, again_of(folder, plan.run_seed))
    state = _state(plan, journals, folder, clock.now)
    with open_events(clock) as sink:
        if sink is not None:
            sink.write(stream.run_start(state, run=folder.run, fingerprint=plan.fingerprint))
        watcher = Watcher(state, view, sink, clock)
        _play(in_order(journals), watcher, clock, pace=functools.partial(_pace, speed, sleep))
        watcher.finish(interrupted=_interrupted(journals))
        if sink is not None and folder.summary.is_file():
            summary = read_json(folder.summary, "summary")
            sink.write(stream.run_end(summary["verdicts"], summary["exit_code"]))


def in_order(journals: Iterable[Journal]) -> Iterator[tuple[float, int, Event]]:
    """The events of all journals by time: the moment, the shard, the event; a journal's own order stands.

    A clock that was set back in the middle of a journal does not take its later events forward, and an event
    without a time that can be is as late as the one before it; those a journal begins with, as the next one.
    """
    rows = (_timed(number, journal) for number, journal in enumerate(journals))
    merged = heapq.merge(*rows, key=lambda row: row[:2])
    return ((moment, shard, event) for moment, _, shard, event in merged)


def _timed(number: int, journal: Journal) -> Iterator[tuple[float, int, int, Event]]:
    known = (seconds_of(event.get("t"), -1.0) for event in journal.events)
    latest = next((moment for moment in known if moment >= 0), 0.0)
    for event in journal.events:
        latest = max(latest, seconds_of(event.get("t"), latest))
        yield latest, number, journal.shard, event


def _play(
    events: Iterable[tuple[float, int, Mapping[str, Any]]],
    watcher: Watcher,
    clock: RecordedClock,
    *,
    pace: Callable[[float], object],
) -> None:
    for moment, shard, event in events:
        clock.now = max(clock.now, moment - LONGEST_GAP_S)
        # Counted before: at times too great for their floats, adding half a second would change nothing.
        for _ in range(math.ceil((moment - clock.now) / TICK_S) - 1):
            pace(TICK_S)
            clock.now += TICK_S
            watcher.tick()
        pace(moment - clock.now)
        clock.now = moment
        watcher.take(shard, event)


def _pace(speed: float, sleep: Callable[[float], object], seconds: float) -> None:
    if speed and seconds > 0:
        sleep(seconds / speed)


def _state(plan: Plan, journals: Iterable[Journal], folder: RunFolder, now: float) -> State:
    starts = [event for journal in journals for event in journal.events if event["e"] == "shard_start"]
    cards = {text_of(event.get("card")) for event in starts}
    durations = read_durations(folder.durations) if folder.durations.is_file() else Durations()
    return State(
        plan.shards,
        cards=sorted(filter(None, cards)),
        expected_s=durations.tests,
        setup_s=durations.files,
        now=now,
        # Of hosts that shared, one may tell that a test is another's before that one begins it.
        others={name: group.file for shard in plan.shards for group in shard.groups for name in group.ids},
    )


def _interrupted(journals: Iterable[Journal]) -> bool:
    """Whether the last attempt at any shard was; what was resumed went on."""
    last = {journal.shard: journal for journal in journals}  # they come by attempt
    return any(
        event["e"] == "shard_end" and event.get("status") == "interrupted"
        for journal in last.values()
        for event in journal.events
    )
