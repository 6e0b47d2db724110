"""One host's claims among those of others: it claims pieces, says what it does, and outlives the store.

A piece is run only once it is claimed. While the store does not answer, what was claimed goes on and nothing
else is begun: another host might have it, and a test must not run twice without a mark. The store is given
the time of a lease to come back; then what nobody could claim is reported as not run.

A piece that is told done is never run again: so it is done when nothing short of a broken disk can lose the
outcomes of its tests, and a test that went without one is not enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ci.record.journal import SYNC_S, bring_to_disk
from ci.runner.claims.store import Store, StoreLostError
from ci.runner.claims.table import AtWork, ClaimTable, Heartbeat, Key, read_heartbeat
from test_selection.pieces import Piece

# A host is silent for a fraction of the lease at most, so that a missed line or two is no death.
BEATS_A_LEASE = 4
# Hosts look so much more rarely the more they are, in seconds a host: they all read what all say.
HOST_S = 0.05
_SHOWN = 60


@dataclass(slots=True)
class _Outcomes:
    """What of a piece has no outcome yet, and the journals that hold the others."""

    missing: set[str]
    journals: set[Path] = field(default_factory=set)


class ClaimSession:
    """What this host shares with others.

    Attributes:
        me: this host's name in the share.
        trouble: why pieces cannot be claimed now; empty while they can.
    """

    def __init__(
        self,
        store: Store,
        *,
        me: str,
        clock: Callable[[], float],
        lease_s: float,
        look_s: float,
        say: Callable[[str], None],
        former: Collection[str] = (),
        again: Collection[Key] = (),
    ) -> None:
        """Join hosts that share.

        Args:
            store: where; the run was joined already.
            me: a name no other host has, and no other run of this one had.
            clock: seconds that never go back.
            lease_s: after so many seconds of silence a host is taken to be dead.
            look_s: how often to say and hear news, in seconds; more rarely among many.
            say: takes what people should know.
            former: names this host had before it was resumed.
            again: pieces that are to be finished by this host, which was resumed.
        """
        self.me, self.trouble = me, ""
        self._store, self._clock, self._say = store, clock, say
        self._lease_s, self._look_s = lease_s, look_s
        self._table = ClaimTable(
            me=me, lease_s=lease_s, now=clock(), former=frozenset(former), again=frozenset(again)
        )
        self._outcomes: dict[Key, _Outcomes] = {}
        self._key: dict[str, Key] = {}
        # Journals that were written to and may not be on the disk.
        self._unsynced: set[Path] = set()
        self._sync_at = 0.0
        self._accounted: dict[Key, float] = {}
        self._next, self._lost_at = 0.0, 0.0
        self._left = False
        self._claims: list[tuple[int, int, int]] = []
        self._done: list[Key] = []
        self._given_up: list[Key] = []
        self._took: list[tuple[int, int, float]] = []
        self._strange = False

    def claim(self, shard: int, piece: Piece) -> int:
        """Take a piece before all other hosts.

        Returns:
            Which time the piece is begun: 1, or more where a host that had it was lost; 0 where another
            has it, or nobody can know.
        """
        key = shard, piece.number
        if (held := self._table.held.get(key)) is not None:
            return held
        if self.trouble:
            return 0
        try:
            generation = self._claim(key)
        except StoreLostError as error:
            self._lose(error)
            return 0
        if not generation:
            return 0
        self._outcomes[key] = _Outcomes(set(piece.ids))
        self._key.update(dict.fromkeys(piece.ids, key))
        return generation

    def ended(self, names: Iterable[str], journal: Path) -> None:
        """Tests have an outcome in a journal of this host; the others are told of a piece that it ends."""
        for name in names:
            if (key := self._key.pop(name, None)) is not None:
                self._outcomes[key].missing.discard(name)
                self._outcomes[key].journals.add(journal)
                self._unsynced.add(journal)

    def accounted(self, key: Key) -> None:
        """Nothing of a piece is left to run here: what of it has no outcome then may get one by a retry."""
        self._accounted[key] = self._clock()

    def done(self, key: Key) -> None:
        """Every test of a piece has its outcome, which no power cut takes away."""
        self._table.finish(key)
        self._accounted.pop(key, None)
        self._done.append(key)

    def give_up(self, key: Key) -> None:
        """Nobody is to run what of a piece has no outcome, but who resumes the run."""
        self._table.finish(key)
        self._accounted.pop(key, None)
        self._given_up.append(key)

    def took(self, key: Key, seconds: float) -> None:
        """Tell the others what a piece takes on a card of the usual speed."""
        self._took.append((*key, round(seconds, 3)))

    def learnt(self) -> list[tuple[int, int, float]]:
        """What pieces took that others ran, as (shard, piece, seconds); each once."""
        learnt, self._table.took = self._table.took, []
        return learnt

    def exchange(self, slots: Iterable[AtWork] = ()) -> bool:
        """Say what this host and its slots do and hear the others, if it is time; whether they were heard."""
        if (now := self._clock()) < self._next:
            return False
        hosts = 1 + len(self._table.hosts)
        self._next = now + min(max(self._look_s, hosts * HOST_S), self._lease_s / BEATS_A_LEASE)
        self._settle()
        try:
            self._tell(slots)
            self._hear()
        except StoreLostError as error:
            self._lose(error)
            return False
        if self.trouble:
            self.trouble = ""
            self._say("the share is back: pieces are claimed again")
        return True

    def at_work(self) -> list[AtWork]:
        """What the slots of other hosts are at, as far as is known."""
        return self._table.at_work()

    def free(self, key: Key) -> bool:
        """Whether a piece is anybody's to claim, as far as is known."""
        return self._table.free(key)

    def holds(self, key: Key) -> bool:
        """Whether a piece was claimed here, and is not done."""
        return key in self._table.held

    def waits(self) -> bool:
        """Whether this host stays though it has nothing to do: for the store, or to take over."""
        self._settle()
        # Nobody here tries these again; two hosts that kept them would wait for each other.
        self._give_up_accounted(since=self._clock() - self._lease_s)
        if self.trouble:
            return self._clock() - self._lost_at < self._lease_s
        return self._table.must_wait()

    def leave(self) -> None:
        """Say that this host is gone, so that what it claimed and has not done is anybody's; a last look."""
        if self._left:
            return
        self._left = True
        self._settle(now=True)
        self._give_up_accounted()
        try:
            self._tell(gone=True)
            self._hear()
        except StoreLostError as error:
            self._lose(error)
        self._store.close()

    def away(self, shard: int, pieces: int) -> dict[str, list[int]]:
        """The pieces of a shard that others have or had and this host never began, by host.

        Args:
            shard: its index.
            pieces: how many it has.
        """
        found: dict[str, list[int]] = {}
        for number in range(pieces):
            key = shard, number
            if key not in self._table.ours and (name := self._table.holder(key)) is not None:
                found.setdefault(name, []).append(number)
        return found

    def _settle(self, *, now: bool = False) -> None:
        """Note the pieces that are done; journals are brought to the disk once a second, or `now`."""
        if not now and self._clock() < self._sync_at:
            return
        self._unsynced = {path for path in self._unsynced if not _on_disk(path)}
        # From the end, so that a slow disk is not kept busy with nothing else.
        self._sync_at = self._clock() + SYNC_S
        for key, one in list(self._outcomes.items()):
            if not one.missing and one.journals.isdisjoint(self._unsynced):
                del self._outcomes[key]
                self.done(key)

    def _give_up_accounted(self, since: float = -math.inf) -> None:
        """Give up what is accounted for without an outcome.

        While journals are not on the disk it may have one and lose it, and be run by others; but for what was
        accounted for before `since`.
        """
        for key, told in list(self._accounted.items()):
            if key in self._table.held and (not self._unsynced or told < since):
                self.give_up(key)

    def _claim(self, key: Key) -> int:
        heard = False
        while (generation := self._table.generation(key)) is not None:
            if generation > 1 and not heard:
                # Whoever had it may have done it, and said so, since.
                self._hear()
                heard = True
                continue
            stands = self._store.put(f"{key[0]}/{key[1]}.{generation}", self.me)
            if stands == self.me:
                self._table.claimed(key, generation)
                self._claims.append((*key, generation))
                return generation
            self._table.refused(key, generation, stands)
        return 0

    def _tell(self, slots: Iterable[AtWork] = (), *, gone: bool = False) -> None:
        heartbeat = Heartbeat(
            claims=tuple(self._claims),
            done=tuple(self._done),
            given_up=tuple(self._given_up),
            took=tuple(self._took),
            slots=tuple(slots),
            gone=gone,
        )
        self._store.say(heartbeat.line())
        self._claims, self._done, self._given_up, self._took = [], [], [], []

    def _hear(self) -> None:
        told = [(name, read_heartbeat(line)) for name, line in self._store.hear() if line]
        strange = next((name for name, heartbeat in told if heartbeat is None), None)
        if strange is not None and not self._strange:
            self._strange = True
            whose = f"the first of {strange[:_SHOWN]!r}" if strange else "of no host"
            self._say(f"the share contains lines that are not understood and are skipped, {whose}")
        # Who was never understood is no host.
        known = self._table.hosts.keys() | {
            name for name, heartbeat in told if name and heartbeat is not None
        }
        self._table.hear([(name, heartbeat) for name, heartbeat in told if name in known], self._clock())

    def _lose(self, error: StoreLostError) -> None:
        if not self.trouble:
            self._lost_at = self._clock()
            self._say(f"the share is lost, what was claimed goes on: {error}")
        self.trouble = str(error)


def _on_disk(journal: Path) -> bool:
    """Bring a journal to the disk; False where it is not found, as where a test deleted it, or that fails."""
    try:
        with journal.open("rb") as stream:
            bring_to_disk(stream.fileno())
    except OSError:
        return False  # who writes it ends the run for that; until then nothing of it is told
    return True
