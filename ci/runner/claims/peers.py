"""The other hosts that share a plan with this one, in its scheduler's eyes; none, where it is alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ci.runner.claims.session import ClaimSession
from ci.runner.claims.table import Changes
from ci.runner.scheduler import Scheduler
from test_selection.steal import Piece


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

    @property
    def trouble(self) -> str:
        """Why nothing can be claimed now; empty while it can."""
        return "" if self._session is None else self._session.trouble

    def exchange(self) -> None:
        """Let them know what is done here, and see what they have."""
        if self._session is not None and (changes := self._session.exchange()) is not None:
            self.apply(changes)

    def wait(self) -> bool:
        """Whether this host stays though it has nothing to do."""
        return self._session is not None and self._session.waits()

    def ended(self, names: Iterable[str], journal: Path) -> None:
        """Tests have an outcome in a journal of this host."""
        if self._session is not None:
            self._session.ended(names, journal)

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
        self.apply(self._session.leave())
        for shard in shards:
            row = self._pieces[shard]
            for host, numbers in self._session.away(shard, len(row)).items():
                if ids := [name for number in numbers for name in row[number].ids]:
                    yield shard, host, ids

    def close(self) -> None:
        """Leave, however the run ended."""
        if self._session is not None:
            self._session.leave()

    def apply(self, changes: Changes) -> None:
        """Take in what has changed."""
        for moved, do in (
            (changes.taken, self._scheduler.withdraw),
            (changes.freed, self._scheduler.give_back),
        ):
            for shard, number in moved:
                row = self._pieces[shard] if shard < len(self._pieces) else ()
                if number < len(row) and row[number].ids:
                    do(shard, row[number])
