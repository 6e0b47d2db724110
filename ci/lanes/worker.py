"""The worker: begins what is due, looks after what runs, and leaves nothing undone that it noted."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci.config.lanes_model import Lane, LaneWorker
from ci.core.errors import (
    EXIT_GOES_ON,
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_TEST_FAILED,
    SpyreCiError,
    file_system_error,
)
from ci.core.text import span
from ci.lanes.attempt import End, Launch, Processes
from ci.lanes.cadence import clock
from ci.lanes.decide import Decision, LaneState, Moment, OpenRun, decide, retry_wait_s
from ci.lanes.ledger import Attempt, Ledger, LedgerAwayError, Status

DAY_S = 24 * 3600.0
# Nothing is slept through for longer: a signal may come.
SLICE_S = 0.5
# How long an attempt may take to write its end down, after its time to end in its own way.
MARGIN_S = 15.0


def folder_of(folder: Path, attempt: Attempt) -> Path:
    """The folder of an attempt."""
    return folder / attempt.lane / f"{attempt.due}-{attempt.attempt}"


@dataclass(slots=True, kw_only=True)
class Worker:
    """One worker; there is no other with the same ledger.

    Attributes:
        lanes: all of the settings.
        chosen: names of those it begins.
        settings: of the worker.
        stage: the one in force.
        ledger: what was begun and how it ended.
        folder: below which each attempt has its own.
        processes: run attempts.
        launch: what an attempt runs, by it, its number of tries and its folder.
        wall: seconds since the epoch, which may jump.
        ticks: seconds that do not.
        sleep: waits so many seconds.
        say: takes a line for people.
    """

    lanes: Mapping[str, Lane]
    chosen: frozenset[str]
    settings: LaneWorker
    stage: int
    ledger: Ledger
    folder: Path
    processes: Processes
    launch: Callable[[Attempt, int, Path], Launch]
    wall: Callable[[], float]
    ticks: Callable[[], float]
    sleep: Callable[[float], object]
    say: Callable[[str], object]
    _last_line: dict[str, str] = field(default_factory=dict)
    _ended: dict[str, Status] = field(default_factory=dict)
    _prune_at: float = -math.inf

    @property
    def exit_code(self) -> int:
        """Of the last runs that ended, of each lane: 3 beats 1."""
        ends = set(self._ended.values())
        if not ends <= {Status.PASSED, Status.FAILED}:
            return EXIT_INCOMPLETE
        return EXIT_TEST_FAILED if Status.FAILED in ends else EXIT_OK

    def work(self, heard: Sequence[int], *, once: bool, by_hand: bool = False) -> None:
        """Work until interrupts are heard, or, with `once`, until what is due now has ended.

        Args:
            heard: interrupts, as they come; with a second one it leaves at once.
            once: whether times that come later are left.
            by_hand: whether, instead of what is due, every chosen lane is begun now.

        Raises:
            LedgerAwayError: the ledger cannot be used; without `once`, it is waited for.
            BadFileError: the ledger is none.
        """
        for attempt in self.ledger.running():
            self._say(attempt.lane, f"{self._named(attempt)} was running when the last worker stopped")
        self._say("worker", f"serves {', '.join(sorted(self.chosen)) or 'no lane'}")
        due: Collection[str] = self.chosen
        while not heard:
            try:
                waiting = self.tick(due, by_hand=by_hand)
                if once:
                    due = waiting
                    if not due and not self._open(self._states()):
                        return
            except LedgerAwayError as error:
                if once:
                    raise
                self._say_once("worker", f"{error.placed}; trying again")
            self._sleep(self.settings.poll_s, heard)
        self._leave(heard)

    def tick(self, due: Collection[str], *, by_hand: bool = False) -> set[str]:
        """Look after what runs, then at the clock, and begin what is due.

        Args:
            due: the lanes of which new times are begun; of others open runs are tried again.
            by_hand: whether these begin now, whatever their cadence says.

        Returns:
            Those of them that are due, and wait for room.
        """
        self._prune()
        self._look_after(self.ledger.running())
        moment = Moment(now=self.wall(), stage=self.stage, worker=self.settings)
        self.ledger.set_back(moment.now)
        states = self._states()
        names = {*due, *self._open(states)}
        known = {name: state for name, state in states.items() if name in names or name not in self.lanes}
        lanes = {name: self.lanes[name] for name in names}
        decision = decide(lanes, known, moment, due if by_hand else ())
        attempts = self.ledger.note(decision, moment.now)
        self._say_decision(decision, states)
        self._look_after(attempts)
        return decision.no_room & set(due)

    def _look_after(self, attempts: Sequence[Attempt]) -> None:
        """Start attempts that have not begun, and note those that ended."""
        for attempt in attempts:
            try:
                end = self._start_or_look(attempt)
            except LedgerAwayError:
                raise
            except OSError as error:
                self._say_once(
                    attempt.lane, f"{self._named(attempt)}: {file_system_error(error)}; trying again"
                )
                continue
            except Exception as error:  # noqa: BLE001  # a lane's failures are its own, whatever they are
                reason = (
                    error.placed if isinstance(error, SpyreCiError) else f"{type(error).__name__}: {error}"
                )
                end = End(status=Status.INCOMPLETE, reason=reason)
                self.processes.stop(self._folder(attempt))  # where it begins late
            if end is not None:
                self._end(attempt, end)

    def _start_or_look(self, attempt: Attempt) -> End | None:
        folder = self._folder(attempt)
        if self.processes.has_begun(folder):
            return self.processes.end_of(folder)
        if attempt.lane not in self.lanes:
            return End(status=Status.INCOMPLETE, reason="its lane is no longer in the settings")
        self.processes.start(folder, self.launch(attempt, self.ledger.tries(attempt), folder))
        self._say(attempt.lane, f"{self._named(attempt)} started; its folder is {folder}")
        return None

    def _end(self, attempt: Attempt, end: End) -> None:
        now = self.wall()
        lane, retry_at, counts = self.lanes.get(attempt.lane), None, True
        job = lane is not None and lane.run.job is not None
        if end.status is Status.CANCELLED or (end.status is Status.GONE and job):
            # No failure of its own, and a job on a cluster goes on: it is begun again without waiting.
            retry_at, counts = now, False
        elif lane and (end.exit_code == EXIT_GOES_ON or (end.status is Status.TIMED_OUT and job)):
            # It is followed again: another try would be a second job beside it.
            retry_at, counts = now + lane.retries.first_s, False
        elif end.status not in {Status.PASSED, Status.FAILED} and lane is not None:
            run = OpenRun(due=attempt.due, tries=self.ledger.tries(attempt))
            wait = retry_wait_s(lane, attempt.lane, run)
            retry_at = None if wait is None else now + wait
        ended_at = now if end.ended_at is None else min(end.ended_at, now)
        seen = replace(
            attempt, status=end.status, exit_code=end.exit_code, reason=end.reason, ended_at=ended_at,
            counts=counts, retry_at=retry_at,
        )  # fmt: skip
        self.ledger.ended(seen)
        self._ended[attempt.lane] = end.status
        code = "" if end.exit_code is None else f", exit code {end.exit_code}"
        reason = f" ({end.reason})" if end.reason else ""
        again = "" if retry_at is None else f"; starts again in {span(retry_at - now)}"
        self._say(
            attempt.lane,
            f"{self._named(attempt)}: {end.status.upper()}{code}{reason}{again}; "
            f"its folder is {self._folder(attempt)}",
        )

    def _leave(self, heard: Sequence[int]) -> None:
        """Tell what runs to end, and note its end; what does not end in time is left to the next worker."""
        until = self.ticks() + self.settings.ending_s + MARGIN_S
        self._say("worker", f"is stopping; its runs have {self.settings.ending_s:g} s to stop")
        left: list[Attempt] = []
        while True:
            try:
                left = self.ledger.running()
                for attempt in left:
                    self.processes.stop(self._folder(attempt))
                self._look_after([one for one in left if self.processes.has_begun(self._folder(one))])
                left = self.ledger.running()
                if not left:
                    return
            except LedgerAwayError as error:
                self._say_once("worker", f"{error.placed}; trying again")
            if len(heard) > 1 or self.ticks() > until:
                break
            self.sleep(SLICE_S)
        for attempt in left:
            self._say(attempt.lane, f"{self._named(attempt)} is left to the next worker")

    def _open(self, states: Mapping[str, LaneState]) -> list[str]:
        """The lanes it begins that have a run which has not ended."""
        return [name for name in self.chosen if name in states and states[name].open is not None]

    def _states(self) -> dict[str, LaneState]:
        return self.ledger.states(self.wall())

    def _folder(self, attempt: Attempt) -> Path:
        return folder_of(self.folder, attempt)

    def _named(self, attempt: Attempt) -> str:
        return f"attempt {attempt.attempt} of the run due {clock(attempt.due, self.settings.zone)}"

    def _say_decision(self, decision: Decision, states: Mapping[str, LaneState]) -> None:
        zone = self.settings.zone
        for note in decision.skip:
            self._say(note.lane, f"the run due {clock(note.due, zone)} is skipped: {note.why}")
        for note in decision.give_up:
            self._say(note.lane, f"the run due {clock(note.due, zone)} is not tried again: {note.why}")
        for lane, why in decision.quiet.items():
            if states.get(lane, LaneState()).open is None:
                self._say_once(lane, why)
        for note in decision.begin:
            self._say(note.lane, f"the run due {clock(note.due, zone)} starts: {note.why}")

    def _say(self, lane: str, text: str) -> None:
        self._last_line.pop(lane, None)
        self.say(f"{lane}: {text}")

    def _say_once(self, lane: str, text: str) -> None:
        """Say a line unless it was the last one of its lane, as what is found at every tick."""
        if self._last_line.get(lane) != text:
            self._say(lane, text)
            self._last_line[lane] = text

    def _sleep(self, seconds: float, heard: Sequence[int]) -> None:
        until = self.ticks() + seconds
        while not heard and (left := until - self.ticks()) > 0:
            self.sleep(min(left, SLICE_S))

    def _prune(self) -> None:
        """Once a day, forget what is old, with its folders."""
        if self.ticks() >= self._prune_at:
            self._prune_at = self.ticks() + DAY_S
            for attempt in self.ledger.prune(self.wall() - self.settings.keep_days * DAY_S):
                shutil.rmtree(self._folder(attempt), ignore_errors=True)
