"""The worker: begins what is due, looks after what runs, and leaves nothing undone that it noted."""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, SpyreCiError
from ci.lanes.cadence import said
from ci.lanes.noted import ENDING, Attempt
from ci.lanes.order import Standing
from ci.lanes.state import StateAwayError
from ci.lanes.tending import LOCAL, Hands, Tender, Voice, folder_of
from ci.lanes.turn import Begin, Known, Look, Turn, clock, take_turn
from ci.record.identity import read_identity

DAY_S = 24 * 3600.0
# Nothing is slept through for longer: a signal may come.
SLICE_S = 0.5
# How long a run's wrapper may take to write its end down, after its time to end in its own way.
MARGIN_S = 15.0
WORKER = "worker"
BY_HAND = "asked for by hand"


class LaneBusyError(SpyreCiError):
    """A lane has a run that has not ended; it has one at a time."""

    exit_code = EXIT_INCOMPLETE


class Worker:
    """One worker; there is no other with the same state.

    Args:
        hands: what it works with.
    """

    def __init__(self, hands: Hands) -> None:
        self._hands, self._voice = hands, Voice(hands.say)
        self._tender = Tender(hands, self._voice)
        self._prune_at = -math.inf
        self._first = True

    @property
    def exit_code(self) -> int:
        """Of the last runs that ended, of each lane: 3 beats 1."""
        ends = set(self._tender.ended.values())
        if not ends <= {Standing.PASSED, Standing.FAILED}:
            return EXIT_INCOMPLETE
        return EXIT_TEST_FAILED if Standing.FAILED in ends else EXIT_OK

    def work(self, heard: Sequence[int], *, once: bool, by_hand: bool = False) -> None:
        """Work until interrupts are heard, or, with `once`, until what is due now has ended.

        Args:
            heard: interrupts, as they come; with a second one it leaves at once.
            once: whether times that come later are left.
            by_hand: whether, instead of what is due, every lane is begun now.

        Raises:
            LaneBusyError: a lane that is to be begun by hand has a run already.
            StateAwayError: the state cannot be used; but for a beginning without `once`, it is waited for.
            BadFileError: the state is none.
        """
        self._arrive()
        due: Collection[str] = self._hands.chosen
        if by_hand:
            self._begin_by_hand()
            due = ()
        while not heard:
            try:
                waits = self.one_pass(due)
                if once:
                    due = waits
                    if not due and not self._open():
                        return
            except StateAwayError as error:
                if once:
                    raise
                self._voice.once(WORKER, f"{error.placed}; it is tried again")
            self._sleep(self._hands.settings.poll_s, heard)
        self._leave(heard)

    def one_pass(self, due: Collection[str]) -> frozenset[str]:
        """Look after what runs, then at the clock, and begin what is due.

        Args:
            due: the lanes of which new times are begun; of others open runs are tried again.

        Returns:
            Those of them that are due, and wait for room.

        Raises:
            StateAwayError: the state cannot be used; another pass goes on where this one stopped.
        """
        hands = self._hands
        self._prune()
        for attempt in hands.store.on_their_way():
            self._tender.tend(attempt)
        names = {*due, *self._open()}
        known, now = self._known(names), hands.wall()
        turn = take_turn({name: hands.lanes[name] for name in sorted(names)}, known, self._look(now))
        attempts = hands.store.note_turn(turn, hands.lanes, now=now)
        self._first = False
        self._say_turn(turn, known)
        why = {(one.lane, one.due): one.why for one in turn.begin}
        for attempt in attempts:
            self._voice.line(attempt.lane, f"{hands.named(attempt)} begins: {why[attempt.lane, attempt.due]}")
            self._tender.tend(attempt, fresh=True)
        return turn.waits & frozenset(due)

    def _begin_by_hand(self) -> None:
        """Begin a run of every lane, whatever its cadence says and however many are on.

        Raises:
            LaneBusyError: one has a run that has not ended.
        """
        hands = self._hands
        for attempt in hands.store.on_their_way():
            self._tender.tend(attempt)
        known, now = hands.store.known(hands.wall()), hands.wall()
        begin = []
        for name in sorted(hands.chosen):
            one = known.get(name, Known())
            if one.open is not None:
                due_at = clock(one.open.due, hands.settings.zone)
                raise LaneBusyError(
                    f"lane {name} has a run, due {due_at}, that has not ended",
                    where=hands.store.path,
                    remedy="wait for its end, or see it to its end with --once and without --now",
                )
            due = math.floor(now)
            while due in one.taken:
                due += 1
            begin.append(Begin(lane=name, due=due, attempt=1, why=BY_HAND))
        for attempt in hands.store.note_turn(Turn(begin=tuple(begin)), hands.lanes, now=now):
            self._voice.line(attempt.lane, f"{hands.named(attempt)} begins: {BY_HAND}")
            self._tender.tend(attempt, fresh=True)

    def _open(self) -> list[str]:
        """The lanes it begins that have a run which has not ended."""
        known = self._hands.store.known(self._hands.wall())
        return [name for name in self._hands.chosen if name in known and known[name].open is not None]

    def _look(self, now: float) -> Look:
        settings = self._hands.settings
        return Look(
            now=now,
            stage=self._hands.stage,
            zone=settings.zone,
            late_s=settings.late_s,
            at_once=settings.at_once,
            first=self._first,
        )

    def _known(self, names: Collection[str]) -> dict[str, Known]:
        """What is known of some lanes, and of those that are in the settings no more."""
        known = self._hands.store.known(self._hands.wall())
        return {name: one for name, one in known.items() if name in names or name not in self._hands.lanes}

    def _arrive(self) -> None:
        """Say what was found."""
        hands = self._hands
        words = {name: said(hands.lanes[name].cadence, hands.settings.zone) for name in hands.chosen}
        for lane, before in sorted(hands.store.note_lanes(words).items()):
            self._voice.line(lane, f"its cadence was {before}, and is {words[lane]}")
        for attempt in hands.store.on_their_way():
            self._voice.line(
                attempt.lane, f"{hands.named(attempt)} was on its way when the last worker ended"
            )
        self._voice.line(WORKER, f"begins {', '.join(sorted(hands.chosen)) or 'no lane'}")

    def _say_turn(self, turn: Turn, known: Mapping[str, Known]) -> None:
        zone = self._hands.settings.zone
        for skip in turn.skip:
            self._voice.line(skip.lane, f"the run due {clock(skip.due, zone)} is skipped: {skip.why}")
        for over in turn.give_up:
            self._voice.line(over.lane, f"the run due {clock(over.due, zone)} is not tried again: {over.why}")
        for lane, why in turn.quiet.items():
            one = known.get(lane)
            if one is None or one.open is None:
                self._voice.once(lane, why)

    def _leave(self, heard: Sequence[int]) -> None:
        """End what runs here, and leave what runs elsewhere; the next worker finds both."""
        hands = self._hands
        until = hands.ticks() + hands.settings.ending_s + MARGIN_S
        self._voice.line(
            WORKER, f"is told to end; runs here have {hands.settings.ending_s:g} s to do so as well"
        )
        while True:
            left = [one for one in self._on_their_way() if one.kind == LOCAL and one.reference]
            for attempt in left:
                try:
                    self._tender.tell_to_end(attempt, ENDING)
                    self._tender.tend(attempt)
                except SpyreCiError as error:
                    self._voice.once(WORKER, f"{error.placed}; it is tried again")
                except OSError as error:
                    self._voice.once(WORKER, f"{error}; it is tried again")
            if not left or len(heard) > 1 or hands.ticks() > until:
                break
            hands.sleep(SLICE_S)
        for attempt in self._on_their_way():
            self._voice.line(attempt.lane, f"{hands.named(attempt)} is left to the next worker")

    def _on_their_way(self) -> list[Attempt]:
        """What has not ended: as noted, or, where the state cannot be read, as this worker remembers it."""
        running = self._tender.running
        try:
            noted = self._hands.store.on_their_way()
            return [one if one.reference else running.get(one.key, one) for one in noted]
        except StateAwayError as error:
            self._voice.once(WORKER, f"{error.placed}; it is tried again")
            return list(running.values())

    def _sleep(self, seconds: float, heard: Sequence[int]) -> None:
        until = self._hands.ticks() + seconds
        while not heard and (left := until - self._hands.ticks()) > 0:
            self._hands.sleep(min(left, SLICE_S))

    def _prune(self) -> None:
        """Once a day, forget what is old, with its folders."""
        hands = self._hands
        if hands.ticks() < self._prune_at:
            return
        self._prune_at = hands.ticks() + DAY_S
        for attempt in hands.store.prune(hands.wall() - hands.settings.keep_days * DAY_S):
            shutil.rmtree(folder_of(hands.folder, attempt), ignore_errors=True)
            if attempt.kind == "openshift":
                _forget_run(hands.runs, hands.order(attempt).id)


def _forget_run(runs: Path, run: str) -> None:
    """Remove the folder of a job's run, where it is that run's by what stands in it."""
    from ci.jobs.record import read_record  # noqa: PLC0415  # for lanes of a cluster alone

    found = set()
    with suppress(SpyreCiError):
        found.add(read_identity(runs / run).run)
    with suppress(SpyreCiError):
        found.add(read_record(runs / run).run)
    if run in found:
        shutil.rmtree(runs / run, ignore_errors=True)
