"""The other hosts that share a plan with this one, in its scheduler's eyes; none, where it is alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ci.runner.claims.heartbeat import AtWork, Learnt
from ci.runner.claims.session import ClaimSession
from ci.runner.claims.table import Changes
from ci.runner.scheduler import Job, Scheduler
from test_selection.pieces import Piece
from test_selection.scheduler_view import SchedulerView


class Peers:
    """Tells the others what is done here, and keeps a scheduler current with what they do."""

    def __init__(
        self, session: ClaimSession | None, scheduler: Scheduler, pieces: Sequence[Sequence[Piece]]
    ) -> None:
        """Look after a scheduler.

        Args:
            session: with the others; None where there are none.
            scheduler: this host's.
            pieces: those of each shard, by number; without ids where nothing is to be run here.
        """
        self._session, self._scheduler, self._pieces = session, scheduler, pieces
        self._theirs: set[int] = set()

    @property
    def trouble(self) -> str:
        """Why nothing can be claimed now; empty while it can."""
        return "" if self._session is None else self._session.trouble

    def exchange(self, mine: Sequence[int], now: float, *, busy: bool) -> None:
        """Let them know what is done here, and see what they do.

        Args:
            mine: the shards that workers of this host work for.
            now: the moment, in seconds since the run began.
            busy: whether anybody here has something to do.
        """
        if self._session is not None:
            changes = self._session.exchange(at_work(self._scheduler.sight, mine, now), busy=busy)
            if changes is not None:
                self.apply(changes, mine, now)

    def wait(self) -> bool:
        """Whether this host stays though it has nothing to do."""
        return self._session is not None and self._session.waits()

    def learn(self, shard: int, job: Job, took_s: float) -> None:
        """Tell what a job took."""
        if self._session is not None and job.why != "retry":
            expected_s, file = self._scheduler.expected_s(job), job.piece.file
            self._session.learn(
                Learnt(shard=shard, file=file, took_s=took_s, expected_s=expected_s, setup=job.setup)
            )

    def wrote(self, journal: Path) -> None:
        """A journal of this host may tell of more outcomes now."""
        if self._session is not None:
            self._session.wrote(journal)

    def accounted(self, of: int, piece: Piece) -> None:
        """Nothing of a piece is left to run here."""
        if self._session is not None:
            self._session.accounted((of, piece.number))

    def give_up(self, of: int, piece: Piece) -> None:
        """Nobody is to run what of a piece has no outcome."""
        if self._session is not None:
            self._session.give_up((of, piece.number))

    def leave(
        self, shards: Collection[int], journals: Iterable[Path], now: float
    ) -> Iterator[tuple[int, str, list[str]]]:
        """Claim nothing more; the shard, the host and the ids of what others have of this host's shards.

        Args:
            shards: this host's.
            journals: this host's.
            now: the moment, in seconds since the run began.
        """
        if self._session is None:
            return
        for journal in journals:
            self._session.wrote(journal)
        self.apply(self._session.leave(), shards, now)
        for shard in shards:
            row = self._pieces[shard]
            for host, numbers in self._session.away(shard, len(row)).items():
                if ids := [name for number in numbers for name in row[number].ids]:
                    yield shard, host, ids

    def close(self) -> None:
        """Leave, however the run ended."""
        if self._session is not None:
            self._session.leave()

    def apply(self, changes: Changes, mine: Collection[int], now: float) -> None:
        """Take in what has changed.

        Args:
            changes: what the others did.
            mine: the shards that workers of this host work for; what others say of their numbers is not
                heeded.
            now: the moment, in seconds since the run began.
        """
        scheduler = self._scheduler
        for moved, do in ((changes.taken, scheduler.withdraw), (changes.freed, scheduler.give_back)):
            for shard, number in moved:
                row = self._pieces[shard] if shard < len(self._pieces) else ()
                if number < len(row) and row[number].ids:
                    do(shard, row[number])
        self._see([one for one in changes.slots if self._is_theirs(one.shard, mine)], mine, now)
        for one in changes.learnt:
            if self._is_theirs(one.shard, mine):
                scheduler.learn(
                    one.shard, one.file, took_s=one.took_s, expected_s=one.expected_s, setup=one.setup
                )

    def _is_theirs(self, shard: int, mine: Collection[int]) -> bool:
        return shard < len(self._pieces) and shard not in mine

    def _see(self, slots: Sequence[AtWork], mine: Collection[int], now: float) -> None:
        sight = self._scheduler.sight
        seen = {one.shard: one for one in slots}
        for shard in self._theirs - seen.keys() - set(mine):
            self._scheduler.end(shard)
        self._theirs = set(seen)
        for shard, one in seen.items():
            self._scheduler.begin(shard)
            sight.holds[shard], sight.fresh[shard] = one.file, one.fresh
            sight.busy_until[shard] = now + one.left_s


def at_work(sight: SchedulerView, shards: Collection[int], now: float) -> list[AtWork]:
    """What workers are at, for other hosts to know."""
    return [
        AtWork(
            shard=one,
            file=sight.holds[one],
            fresh=sight.fresh[one],
            left_s=round(max(0.0, sight.busy_until[one] - now), 3),
        )
        for one in shards
    ]
