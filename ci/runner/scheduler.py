"""Who runs what next on this host: pure, so that it is tested without a process or a clock.

A slot (a worker with its card or cards) works for one shard at a time, and is called by its number in what
everybody sees (`test_selection.scheduler_view`). It runs the shard's pieces in order; when they are gone it
runs failed tests of others again, or helps where `test_selection.work_stealing` says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ci.runner.channel import Why
from ci.runner.retries import Retries
from test_selection.pieces import Piece
from test_selection.scheduler_view import SchedulerView
from test_selection.work_stealing import StealingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a slot is to do.

    Attributes:
        piece: the tests; none where the file is only to be set up.
        of: the shard they are planned for.
        why: why this slot runs them.
        attempt: which try of the tests this is, from 1.
    """

    piece: Piece
    of: int
    why: Why = "plan"
    attempt: int = 1

    @property
    def setup(self) -> bool:
        """Whether the file is only set up, so that others go on with its pieces meanwhile."""
        return not self.piece.ids


# Which time a piece of a shard is begun, 0 where another host has it.
Claim = Callable[[int, Piece], int]


class Scheduler:
    """Hands out pieces.

    Attributes:
        view: what is unclaimed, who is at what, what was learnt.
    """

    def __init__(
        self,
        pieces: Sequence[Sequence[Piece]],
        *,
        file_s: Mapping[str, float],
        tick_s: float,
        steals: bool,
        retries: Retries,
        private: Collection[int] = (),
        first: Collection[str] = (),
        apart: Collection[str] = (),
        claim: Claim | None = None,
    ) -> None:
        """Look at the pieces of every shard.

        Args:
            pieces: by shard; those of shards that run elsewhere and share nothing are empty.
            file_s: set-up seconds expected of each file.
            tick_s: how often slots look at the whole, in seconds.
            steals: whether a slot that has nothing left helps others.
            retries: the tests to be run again.
            private: shards whose pieces nobody else may take, such as those of several cards.
            first: ids whose pieces come before all others of their shards, and are not taken over by helpers.
            apart: the first ids of pieces that want a process of their own.
            claim: takes a piece of a shard before all other hosts; which time it is begun, which is more
                than 1 after a host that was lost, or 0 where another was faster; None: nobody else is there.
        """
        self._private, self._first = frozenset(private), frozenset(first)
        # What the slot of a shard runs before anything else, and nobody else does.
        self._kept: dict[int, deque[Piece]] = {shard: deque() for shard in range(len(pieces))}
        shared: list[list[Piece]] = [[] for _ in pieces]
        for shard, row in enumerate(pieces):
            for piece in row:
                (self._kept if self._keeps(shard, piece) else shared)[shard].append(piece)
        self.view = SchedulerView(shared, file_s=file_s, prior_s=tick_s)
        # Nobody works for a shard until a slot does; its pieces may be taken all the same.
        self.view.known_dead = [True] * len(pieces)
        self._policy = StealingPolicy(self.view)
        self._tick_s, self._steals, self._claim = tick_s, steals, claim or (lambda _shard, _piece: 1)
        self._retries, self._apart = retries, frozenset(apart)
        self._next_tick, self._stuck = 0.0, False
        self._doing: dict[int, tuple[Job, float]] = {}
        self._refused: dict[int, set[str]] = {}

    def begin(self, slot: int) -> None:
        """A slot works for its shard from now on."""
        self.view.known_dead[slot] = False
        self.view.started[slot] = True
        self.view.paces.pop(slot, None)

    def end(self, slot: int) -> None:
        """A slot works no longer for its shard: its card is lost, or at another shard."""
        self.view.known_dead[slot] = True
        self.view.holds[slot] = None
        while slot not in self._private and self._kept[slot]:
            self.view.give_back(slot, self._kept[slot].popleft())

    def tick(self, now: float, *, stuck: bool = False) -> None:
        """Look at every shard anew, if it is time; `stuck` says that nobody is at work."""
        self._stuck = stuck
        if self._steals and (stuck or now >= self._next_tick):
            self._next_tick = now + self._tick_s
            self._policy.tick(now)

    def ask(self, slot: int, card: str, now: float) -> Job | None:
        """What a slot does next; None where there is nothing for it, now.

        Args:
            slot: the shard it works for.
            card: the name of its card, or of its cards joined by `+`.
            now: the moment, in seconds since the run began.
        """
        if self._at_a_file(slot):
            # Running a test again takes a fresh process: it waits until the slot changes files.
            job = self._own(slot) or self._shared(slot) or self._retry(card)
        else:
            job = self._own(slot) or self._retry(card) or self._shared(slot)
        if job is None and not self._doing and (self._stuck or slot in self._private):
            job = self._retry(card, last=True)
        if job is not None:
            self._begin(slot, job, now)
        return job

    def done(self, slot: int, now: float, *, held: str | None, whole: bool = True) -> float | None:
        """A slot did what it was told to; what that took is known now.

        Args:
            slot: the shard it works for.
            now: the moment, in seconds since the run began.
            held: the file it has set up now.
            whole: whether it did that and nothing else, such as a set-up after a crash.

        Returns:
            The seconds that a piece takes on a card of the usual speed; None where not recorded.
        """
        job, began = self._doing.pop(slot)
        self.view.holds[slot] = held
        if not whole or slot in self._private or job.why == "retry":
            return None
        took, view, file = now - began, self.view, job.piece.file
        if job.setup:
            view.learn_pace(slot, took_s=took, expected_s=view.file_s.get(file, 0.0))
            return None
        usual = took / view.pace(slot)
        view.learn(file, usual_s=usual, expected_s=job.piece.expected_s)
        view.learn_pace(slot, took_s=took, expected_s=job.piece.expected_s * view.scale(file))
        return usual

    def hold(self, slot: int, file: str | None) -> None:
        """A slot has this file set up, or none."""
        self.view.holds[slot] = file

    def refuse(self, slot: int, file: str) -> list[Piece]:
        """A slot cannot set a file up: it leaves it to others, and its own tests of it to nobody.

        Returns:
            The pieces that are given up; those that another host has are not among them.
        """
        self.view.holds[slot] = None
        self._refused.setdefault(slot, set()).add(file)
        given_up = [one for one in self._kept[slot] if one.file == file and self._claim(slot, one)]
        self._kept[slot] = deque(one for one in self._kept[slot] if one.file != file)
        while file in self.view.queues[slot]:
            piece = self.view.take(slot, file)
            if self._claim(slot, piece):
                given_up.append(piece)
        return given_up

    def lost(self, slot: int, ended: Collection[str]) -> None:
        """The worker of a slot is gone: what it had claimed and not run is unclaimed again."""
        found = self._doing.pop(slot, None)
        self.view.holds[slot] = None
        if found is None:
            return
        job = found[0]
        for piece in without([job.piece], ended):
            if job.why == "retry":
                self._retries.give_back(piece.ids[0])
            else:
                self.give_back(job.of, piece)

    def give_back(self, shard: int, piece: Piece) -> None:
        """A piece is unclaimed again."""
        if shard in self._private:
            self._kept[shard].appendleft(piece)
        else:
            self.view.give_back(shard, piece)

    def withdraw(self, shard: int, piece: Piece) -> None:
        """Another host has a piece: it is no longer to be had here."""
        if piece in self._kept[shard]:
            self._kept[shard].remove(piece)
        else:
            self.view.withdraw(shard, piece)

    def queued(self) -> Iterator[tuple[int, Piece]]:
        """The pieces nobody has claimed, each with its shard."""
        for shard, queue in enumerate(self.view.queues):
            for piece in chain(*queue.values(), self._kept[shard]):
                yield shard, piece

    def left_over(self) -> dict[int, list[str]]:
        """The ids nobody has claimed, by shard."""
        found: dict[int, list[str]] = {}
        for shard, piece in self.queued():
            found.setdefault(shard, []).extend(piece.ids)
        return found

    def _own(self, slot: int) -> Job | None:
        kept = self._kept[slot]
        while kept:
            if (job := self._job(slot, slot, kept[0], kept.popleft)) is not None:
                return job
        if self._steals:
            return None  # the policy knows of its own pieces, too
        while (file := next(iter(self.view.queues[slot]), None)) is not None:
            if (job := self._piece(slot, slot, file)) is not None:
                return job
        return None

    def _retry(self, card: str, *, last: bool = False) -> Job | None:
        """A test that failed elsewhere; alone, so that nothing but itself can be why it passes or fails.

        What went with its host may take this one as well: it is the last there is, one at a time.
        """
        if (one := self._retries.take(card, last=last)) is None:
            return None
        piece = Piece(file=one.file, ids=(one.id,), expected_s=0.0)
        return Job(piece=piece, of=one.of, why="retry", attempt=one.attempt)

    def _shared(self, slot: int) -> Job | None:
        if not self._steals or slot in self._private:
            return None
        while (file := self._next_file(slot)) is not None:
            shard = self._policy.shard_for(slot, file)
            if (job := self._piece(slot, shard, file)) is not None:
                return job
        return None

    def _next_file(self, slot: int) -> str | None:
        refused = self._refused.get(slot, set())
        file = self._policy.next_file(slot)
        if file in refused:
            # What it cannot have keeps it from nothing else.
            file = next((one for one in self.view.queues[slot] if one not in refused), None)
        if file is None and self._stuck:
            return self.view.any_file(without=refused)
        return file

    def _at_a_file(self, slot: int) -> bool:
        """Whether there is more of what the slot has set up."""
        view, held = self.view, self.view.holds[slot]
        return held is not None and view.shard_of(held) is not None

    def _piece(self, slot: int, shard: int, file: str) -> Job | None:
        """The next piece of a shard's file; None where another host took it."""
        piece = self.view.queues[shard][file][0]
        return self._job(slot, shard, piece, lambda: self.view.take(shard, file))

    def _job(self, slot: int, shard: int, piece: Piece, take: Callable[[], Piece]) -> Job | None:
        """Set a file up that the slot has not, else its piece, taken out; None where another has it."""
        why: Why = "plan" if shard == slot else "stolen"
        if self.view.holds[slot] != piece.file and piece.ids[0] not in self._apart:
            return Job(piece=Piece(file=piece.file, ids=(), expected_s=0.0), of=shard, why=why)
        take()
        time = self._claim(shard, piece)
        return Job(piece=piece, of=shard, why=why, attempt=time) if time else None

    def _keeps(self, shard: int, piece: Piece) -> bool:
        return shard in self._private or not self._first.isdisjoint(piece.ids)

    def _begin(self, slot: int, job: Job, now: float) -> None:
        self._doing[slot] = job, now
        view, file = self.view, job.piece.file
        expected = job.piece.expected_s * view.scale(file)
        if job.setup:
            expected = view.setup_for(slot, file)
            view.fresh[slot] = True
        else:
            view.fresh[slot] = False
        alone = job.why == "retry" or (not job.setup and job.piece.ids[0] in self._apart)
        view.holds[slot] = None if alone else file
        view.busy_until[slot] = now + expected * view.pace(slot)


def without(pieces: Sequence[Piece], ids: Collection[str]) -> list[Piece]:
    """The pieces with `ids` taken out; a piece that is left empty goes."""
    left = []
    for piece in pieces:
        kept = tuple(name for name in piece.ids if name not in ids)
        if kept:
            share = len(kept) / len(piece.ids)
            left.append(replace(piece, ids=kept, expected_s=piece.expected_s * share))
    return left
