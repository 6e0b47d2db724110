"""What this host tells other hosts and hears of them, where they share a plan; nothing, where it is alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ci.runner.claims.news import Learnt
from ci.runner.claims.share import Share
from ci.runner.claims.view import View, posted
from ci.runner.scheduler import Job, Scheduler
from ci.runner.work import Work
from test_selection.steal import Piece


class Neighbours:
    """The other hosts."""

    def __init__(self, share: Share | None, dispatcher: Scheduler, work: Work) -> None:
        self._share, self._scheduler, self._work = share, dispatcher, work
        self._view = View(dispatcher, work.table)

    @property
    def trouble(self) -> str:
        """Why nothing can be claimed now; empty while it can."""
        return self._share.trouble if self._share is not None else ""

    def exchange(self, mine: Sequence[int], now: float, *, busy: bool) -> None:
        """Let them know what is done here, and see what they do.

        Args:
            mine: the shards that posts of this host work for.
            now: the moment, in seconds since the run began.
            busy: whether anybody here has something to do.
        """
        if self._share is None:
            return
        look = self._share.look(posted(self._scheduler.sight, mine, now), busy=busy)
        if look is not None:
            self._view.apply(look, mine, now)

    def wait(self) -> bool:
        """Whether this host stays though it has nothing to do."""
        return self._share is not None and self._share.waits()

    def learn(self, shard: int, job: Job, took_s: float) -> None:
        """Tell what a job took."""
        if self._share is None or job.why == "retry":
            return
        expected_s = self._scheduler.expected_s(job)
        self._share.learn(
            Learnt(shard=shard, file=job.piece.file, took_s=took_s, expected_s=expected_s, setup=job.setup)
        )

    def wrote(self, journal: Path) -> None:
        """A journal of this host may tell of more outcomes now."""
        if self._share is not None:
            self._share.wrote(journal)

    def accounted(self, of: int, piece: Piece) -> None:
        """Nothing of a piece is left to run here."""
        if self._share is not None:
            self._share.accounted(of, piece)

    def give_up(self, of: int, piece: Piece) -> None:
        """Nobody is to run what of a piece has no outcome."""
        if self._share is not None:
            self._share.give_up((of, piece.number))

    def leave(self, journals: Iterable[Path], now: float) -> Iterator[tuple[int, str, list[str]]]:
        """Claim nothing more; the shard, the host and the ids of what others have of this host's shards.

        Args:
            journals: this host's.
            now: the moment, in seconds since the run began.
        """
        if self._share is None:
            return
        for journal in journals:
            self._share.wrote(journal)
        self._view.apply(self._share.leave(), self._work.indexes, now)
        for shard in self._work.indexes:
            row = self._work.table[shard]
            for host, numbers in self._share.away(shard, len(row)).items():
                if ids := [name for number in numbers for name in row[number].ids]:
                    yield shard, host, ids

    def close(self) -> None:
        """Leave, however the run ended."""
        if self._share is not None:
            self._share.leave()
