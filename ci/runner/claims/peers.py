"""The other hosts that share a plan with this one, in its scheduler's eyes; none, where it is alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ci.runner.claims.session import ClaimSession
from ci.runner.claims.table import AtWork
from ci.runner.scheduler import Scheduler
from test_selection.pieces import Piece


class Peers:
    """Tells the others what is done here, and takes from a scheduler what they have."""

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
        # The shards that slots of others work for.
        self._theirs: set[int] = set()

    @property
    def trouble(self) -> str:
        """Why nothing can be claimed now; empty while it can."""
        return "" if self._session is None else self._session.trouble

    def exchange(self, mine: Collection[int], now: float) -> None:
        """Let them know what is done here, and see what they have and are at, if it is time.

        Args:
            mine: the shards that slots of this host work for.
            now: the moment, in seconds since the run began.
        """
        if self._session is None:
            return
        view = self._scheduler.view
        slots = (  # asked at every poll, and said only when it is time
            AtWork(
                shard=shard,
                file=view.holds[shard],
                fresh=view.fresh[shard],
                left_s=round(max(0.0, view.busy_until[shard] - now), 3),
                pace=max(0.001, round(view.pace(shard), 3)),
            )
            for shard in mine
        )
        if self._session.exchange(slots):
            self._look()
            self._see(mine, now)

    def wait(self) -> bool:
        """Whether this host stays though it has nothing to do."""
        if self._session is None:
            return False
        if self._session.trouble:
            return self._session.waits() and any(
                self._session.free((shard, piece.number))
                for shard, row in enumerate(self._pieces)
                for piece in row
                if piece.ids
            )
        # What has become free since the last look is this host's to run.
        return self._session.waits() or self._look()

    def ended(self, names: Iterable[str], journal: Path) -> None:
        """Tests have an outcome in a journal of this host."""
        if self._session is not None:
            self._session.ended(names, journal)

    def took(self, of: int, piece: Piece, seconds: float) -> None:
        """A piece takes so long on a card of the usual speed."""
        if self._session is not None:
            self._session.took((of, piece.number), seconds)

    def accounted(self, of: int, piece: Piece) -> None:
        """Nothing of a piece is left to run here."""
        if self._session is not None:
            self._session.accounted((of, piece.number))

    def give_up(self, of: int, piece: Piece) -> None:
        """Nobody is to run what of a piece has no outcome."""
        if self._session is not None:
            self._session.give_up((of, piece.number))

    def leave(self, shards: Collection[int]) -> Iterator[tuple[int, str, list[str]]]:
        """Claim nothing more; the shard, the host and the ids of what others have of this host's shards."""
        if self._session is None:
            return
        self._session.leave()
        self._look()
        for shard in shards:
            row = self._pieces[shard]
            for host, numbers in self._session.away(shard, len(row)).items():
                if ids := [name for number in numbers for name in row[number].ids]:
                    yield shard, host, ids

    def close(self) -> None:
        """Leave, however the run ended."""
        if self._session is not None:
            self._session.leave()

    def _see(self, mine: Collection[int], now: float) -> None:
        """Give the scheduler the slots of the others, and what their pieces took."""
        view = self._scheduler.view
        assert self._session is not None  # noqa: S101  # asked by those who know
        # What others say of numbers that are this host's, or nobody's, is not heeded.
        seen = {
            one.shard: one
            for one in self._session.at_work()
            if one.shard < len(self._pieces) and one.shard not in mine
        }
        for shard in self._theirs - seen.keys() - set(mine):
            self._scheduler.end(shard)
        self._theirs = set(seen)
        for shard, one in seen.items():
            self._scheduler.begin(shard)
            view.holds[shard], view.fresh[shard] = one.file, one.fresh
            view.busy_until[shard] = now + one.left_s
            view.paces[shard] = one.pace
        for shard, number, seconds in self._session.learnt():
            if shard < len(self._pieces) and number < len(row := self._pieces[shard]) and row[number].ids:
                view.learn(row[number].file, usual_s=seconds, expected_s=row[number].expected_s)

    def _look(self) -> bool:
        """Take from the scheduler what others have, and give it what is anybody's; whether there was any."""
        session, scheduler = self._session, self._scheduler
        assert session is not None  # noqa: S101  # asked by those who know
        queued, found = {(shard, piece.number): piece for shard, piece in scheduler.queued()}, False
        for shard, row in enumerate(self._pieces):
            for piece in row:
                key = shard, piece.number
                if key in queued:
                    if not (session.free(key) or session.holds(key)):
                        scheduler.withdraw(shard, queued[key])
                elif piece.ids and session.free(key):
                    scheduler.give_back(shard, piece)
                    found = True
        return found
