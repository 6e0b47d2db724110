"""Take one attempt on its way: started, looked at, ended at its limit, and written down when it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci.config.lanes_model import Lane, LaneWorker
from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError, UsageError, file_system_error
from ci.core.text import span
from ci.lanes.noted import ENDING, LIMIT, Attempt, Outcome
from ci.lanes.order import Executor, Order, Seen, Standing
from ci.lanes.state import StateAwayError
from ci.lanes.store import Store
from ci.lanes.turn import OpenRun, clock, next_try

_ANSWERS = {Standing.PASSED, Standing.FAILED}
# What runs elsewhere and does not end when it is told to, or cannot be asked, is waited for so much longer.
PATIENCE_S = 900.0
LOCAL = "local"
SAID = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What a worker works with.

    Attributes:
        lanes: all of the settings.
        chosen: names of those it begins.
        settings: of the worker.
        stage: the one in force.
        store: its state.
        folder: below which each attempt has its own.
        runs: the folder of runs, where a cluster's are planned and reported.
        executors: by kind.
        wall: seconds since the epoch, which may jump.
        ticks: seconds that do not.
        sleep: waits so many seconds.
        say: takes a line for people.
    """

    lanes: Mapping[str, Lane]
    chosen: frozenset[str]
    settings: LaneWorker
    stage: int
    store: Store
    folder: Path
    runs: Path
    executors: Mapping[str, Executor]
    wall: Callable[[], float]
    ticks: Callable[[], float]
    sleep: Callable[[float], object]
    say: Callable[[str], object]

    def order(self, attempt: Attempt) -> Order:
        """An attempt as its executor knows it."""
        return Order(
            lane=attempt.lane,
            due=attempt.due,
            attempt=attempt.number,
            seed=attempt.seed,
            folder=folder_of(self.folder, attempt),
        )

    def named(self, attempt: Attempt) -> str:
        """An attempt in words; its lane is said before."""
        return f"attempt {attempt.number} of the run due {clock(attempt.due, self.settings.zone)}"


@dataclass(slots=True)
class Voice:
    """Lines with the name of their lane; what stays the same is said once."""

    say: Callable[[str], object]
    _last: dict[str, str] = field(default_factory=dict)

    def line(self, lane: str, text: str) -> None:
        """Say a line of a lane."""
        self._last.pop(lane, None)
        self.say(f"{lane}: {text}")

    def once(self, lane: str, text: str) -> None:
        """Say a line unless it was the last one of its lane, as what is found at every pass."""
        if self._last.get(lane) != text:
            self.line(lane, text)
            self._last[lane] = text


def folder_of(folder: Path, attempt: Attempt) -> Path:
    """The folder of an attempt."""
    return folder / attempt.lane / f"{attempt.due}-{attempt.number}"


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


class Tender:
    """Looks after attempts.

    Args:
        hands: what the worker works with.
        voice: takes what there is to say.
    """

    def __init__(self, hands: Hands, voice: Voice) -> None:
        self._hands, self._voice = hands, voice
        # When each attempt's time is over, in ticks: a clock that jumps ends nothing.
        self._limits: dict[tuple[str, int, int], float] = {}
        self._told: set[tuple[str, int, int]] = set()
        # What each was told to end for, where that could not be noted.
        self._why: dict[tuple[str, int, int], str] = {}
        # What is on its way, for when the state cannot be read.
        self.running: dict[tuple[str, int, int], Attempt] = {}
        self.ended: dict[str, Standing] = {}

    def tend(self, attempt: Attempt, *, fresh: bool = False) -> None:
        """Do for an attempt what is to be done now.

        Args:
            attempt: as it is noted.
            fresh: whether it was noted just now, so that nobody can have started it.

        Raises:
            StateAwayError: the state cannot be used.
        """
        try:
            if attempt.reference is None:
                attempt = self._start(attempt, fresh=fresh)
            seen = self._seen(attempt)
        except Exception as error:  # noqa: BLE001  # a lane's failures are its own, whatever they are
            told = file_system_error(error) if isinstance(error, OSError) else error
            if isinstance(told, SpyreCiError):
                seen = self._seen_in_vain(attempt, told)
            else:
                said = f"{type(error).__name__}: {error}"[:SAID]
                seen = Seen(standing=Standing.INCOMPLETE, exit_code=EXIT_INCOMPLETE, said=said)
        if seen is not None and seen.standing.ended:
            self._end(attempt, seen)

    def tell_to_end(self, attempt: Attempt, why: str) -> None:
        """Have an attempt end, and note what for; asked again until its executor has heard it.

        Raises:
            StateAwayError: it was told to, and what for cannot be noted yet.
        """
        away = None
        if not attempt.asked:
            self._why.setdefault(attempt.key, why)
            try:
                self._hands.store.asked(attempt, self._why[attempt.key])
            except StateAwayError as error:
                away = error
        if attempt.key not in self._told and attempt.reference is not None:
            self._executor(attempt).cancel(self._hands.order(attempt), attempt.reference)
            self._told.add(attempt.key)
        if away is not None:
            raise away

    def _seen(self, attempt: Attempt) -> Seen | None:
        """Where it stands; None where that is to be looked at again."""
        executor, order = self._executor(attempt), self._hands.order(attempt)
        assert attempt.reference is not None  # noqa: S101  # it was started
        self.running[attempt.key] = attempt
        seen = executor.look(order, attempt.reference)
        if not seen.standing.ended:
            late_s = self._late_s(attempt)
            if attempt.asked or late_s > 0:
                self.tell_to_end(attempt, LIMIT)
            if attempt.kind == LOCAL or late_s < PATIENCE_S:
                return None
            return Seen(standing=Standing.TIMED_OUT, said="it did not end when it was told to", url=seen.url)
        try:
            executor.fetch(order, attempt.reference)
            # What came back may say more than was seen without it.
            seen = executor.look(order, attempt.reference)
        except SpyreCiError as error:
            if self._late_s(attempt) < PATIENCE_S:
                raise
            said = f"what it left cannot be brought back: {error.what}"
            seen = replace(seen, said=f"{seen.said}; {said}" if seen.said else said)
        return seen

    def _start(self, attempt: Attempt, *, fresh: bool) -> Attempt:
        executor, order = self._executor(attempt), self._hands.order(attempt)
        order.folder.mkdir(parents=True, exist_ok=True)
        reference = None if fresh else executor.find(order)
        if reference is not None:
            self._voice.line(attempt.lane, f"{self._hands.named(attempt)} had been started before")
        elif attempt.asked:
            raise UsageError("was told to end before it began")
        elif attempt.lane not in self._hands.lanes:
            raise UsageError("its lane left the settings before it began")
        else:
            reference = executor.start(order)
        started = replace(attempt, reference=reference, standing=Standing.RUNNING)
        self.running[attempt.key] = started
        self._hands.store.started(attempt, reference)
        self._voice.line(
            attempt.lane, f"{self._hands.named(attempt)} runs ({attempt.kind}); its folder is {order.folder}"
        )
        return started

    def _seen_in_vain(self, attempt: Attempt, error: SpyreCiError) -> Seen | None:
        """What an error makes of an attempt: another time may do, for as long as there is patience.

        Of what runs elsewhere a refusal (a token that ended) says nothing: another try would run beside it.
        """
        named = self._hands.named(attempt)
        runs_on = (
            attempt.reference is not None and attempt.kind != LOCAL and attempt.lane in self._hands.lanes
        )
        if error.exit_code != EXIT_INCOMPLETE and not runs_on:
            return Seen(standing=Standing.INCOMPLETE, said=error.placed)
        self._voice.once(attempt.lane, f"{named} is asked for again: {error.placed}")
        if attempt.kind == LOCAL or self._late_s(attempt) < PATIENCE_S:
            return None
        return Seen(standing=Standing.TIMED_OUT, said=f"could not be asked for: {error.placed}")

    def _end(self, attempt: Attempt, seen: Seen) -> None:
        hands, now = self._hands, self._hands.wall()
        # A stranger's words may be no text that can be kept.
        seen = replace(seen, said=_kept(seen.said), url=_kept(seen.url))
        # What it was asked may have been noted since it was read.
        attempt = next((one for one in hands.store.on_their_way() if one.key == attempt.key), attempt)
        attempt = replace(attempt, asked=attempt.asked or self._why.get(attempt.key, ""))
        lane = hands.lanes.get(attempt.lane)
        end = outcome(attempt, seen, lane=lane, tries=hands.store.tries(attempt), now=now)
        hands.store.ended(attempt, end, now=now)
        self._limits.pop(attempt.key, None)
        self._told.discard(attempt.key)
        self._why.pop(attempt.key, None)
        self.running.pop(attempt.key, None)
        code = "" if end.seen.exit_code is None else f", exit code {end.seen.exit_code}"
        said = f" ({end.seen.said})" if end.seen.said else ""
        again = ""
        if end.handed_back:
            again = "; the next worker begins it again"
        elif end.again_at is not None:
            again = f"; tried again in {span(max(end.again_at - now, 0))}"
        else:
            self.ended[attempt.lane] = end.seen.standing
        self._voice.line(
            attempt.lane,
            f"{hands.named(attempt)}: {end.seen.standing.upper()}{code}{said}{again}; "
            f"what it left is in {hands.order(attempt).folder}",
        )

    def _late_s(self, attempt: Attempt) -> float:
        """Seconds since its time was over; below 0 where it is not."""
        hands = self._hands
        if attempt.key not in self._limits:
            ran_s = max(hands.wall() - attempt.begun_at, 0)
            self._limits[attempt.key] = hands.ticks() + attempt.limit_s - ran_s
        return hands.ticks() - self._limits[attempt.key]

    def _executor(self, attempt: Attempt) -> Executor:
        found = self._hands.executors.get(attempt.kind)
        if found is None:
            raise UsageError(f"there is no executor of kind {attempt.kind} here")
        return found


def _kept(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
