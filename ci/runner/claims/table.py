"""What a host knows of all claims, from what the others said and from what it was refused. Pure.

A piece is claimed by generation: the first is anybody's; the next is to be had once the host of the one
before has left or has been silent for longer than a lease. Silence is measured by the reader's own clock
from when it last heard something new, so clocks are never compared; and only while it could hear: who was
cut off himself gives everybody a lease anew.

Who resumes a run takes its own earlier names for dead. What of its shards has no outcome is to be run, though
one of those names said that it was done (the journals were lost since) or anybody gave it up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Annotated

import msgspec

Whole = Annotated[int, msgspec.Meta(ge=0)]
# No day is so long.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Pace = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
# A piece: the shard and its number there.
Key = tuple[Whole, Whole]
# Who is said to have a piece that is anybody's.
NOBODY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """What a slot is at, so that hosts do not all set the same file up to help with it.

    Attributes:
        shard: the shard it works for, which is its number.
        file: the file it has set up, or does so.
        fresh: whether it has run nothing of it yet.
        left_s: seconds it is expected to need for what it does.
        pace: by how much its card is slower than expected, so far.
    """

    shard: Whole
    file: str | None
    fresh: bool
    left_s: Seconds
    pace: Pace = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a host says to the others, as a sign of life: a JSON object a line.

    Attributes:
        claims: pieces it claimed since its last line, as (shard, piece, generation).
        done: pieces of which every test has an outcome in its journals, on the disk.
        given_up: pieces it is through with though a test of theirs has none; nobody runs them again but who
            resumes the run.
        took: seconds that pieces it ran take on a card of the usual speed, as (shard, piece, seconds).
        slots: what its slots are at.
        gone: whether it leaves; what it claimed and has not done is anybody's.
    """

    claims: tuple[tuple[Whole, Whole, Whole], ...] = ()
    done: tuple[Key, ...] = ()
    given_up: tuple[Key, ...] = ()
    took: tuple[tuple[Whole, Whole, Seconds], ...] = ()
    slots: tuple[AtWork, ...] = ()
    gone: bool = False

    def line(self) -> str:
        """The heartbeat as it is said."""
        return json.dumps(asdict(self), separators=(",", ":"))


def read_heartbeat(line: str) -> Heartbeat | None:
    """The heartbeat of a line; None for one that is torn or not of this form."""
    try:
        # Python's own JSON reads names of files that are no UTF-8; NaN, which it reads too, is none of ours.
        return msgspec.convert(json.loads(line, parse_constant=lambda _: None), Heartbeat)
    except (ValueError, RecursionError):
        return None


@dataclass(slots=True, kw_only=True)
class Host:
    """Another host.

    Attributes:
        heard: when it last said something, in seconds of the reader's clock.
        gone: whether it has left.
        slots: what its slots were at then.
    """

    heard: float
    gone: bool = False
    slots: tuple[AtWork, ...] = ()


@dataclass(slots=True, kw_only=True)
class ClaimTable:
    """All that is known of claims.

    Attributes:
        me: this host's name.
        lease_s: for how long a silent host is taken to live, in seconds.
        now: when this host last heard the others, by its clock.
        hosts: the others, by name.
        held: pieces claimed here and not done, with their generation.
        ours: pieces that were ever claimed here.
        others: pieces claimed by others and not done, with generation and host.
        done: pieces that are done, and by whom.
        took: what pieces took that others ran, since somebody looked; as in a heartbeat.
        former: names this host had before it was resumed.
        again: pieces that are to be finished by this host, which was resumed.
    """

    me: str
    lease_s: float
    now: float
    hosts: dict[str, Host] = field(default_factory=dict)
    held: dict[Key, int] = field(default_factory=dict)
    ours: set[Key] = field(default_factory=set)
    others: dict[Key, tuple[int, str]] = field(default_factory=dict)
    done: dict[Key, str] = field(default_factory=dict)
    took: list[tuple[int, int, float]] = field(default_factory=list)
    former: frozenset[str] = frozenset()
    again: frozenset[Key] = frozenset()

    def hear(self, told: Iterable[tuple[str, Heartbeat | None]], now: float) -> None:
        """Take what the others said, up to now."""
        if now - self.now > self.lease_s / 2:
            for host in self.hosts.values():
                host.heard = now
        self.now = now
        for name, heartbeat in told:
            host = self._host(name)
            host.heard = now
            if heartbeat is not None:
                self._take(name, host, heartbeat)

    def lives(self, name: str) -> bool:
        """Whether a host is taken to live."""
        if name == NOBODY or name in self.former:
            return False
        host = self._host(name)
        return not host.gone and self.now - host.heard <= self.lease_s

    def at_work(self) -> list[AtWork]:
        """What the slots of the hosts that live are at."""
        return [one for name, host in self.hosts.items() if self.lives(name) for one in host.slots]

    def refused(self, key: Key, generation: int, name: str) -> None:
        """A claim stands that this host had wanted to make."""
        # A claim that names nobody is one of a host that died at it.
        self._claimed(key, generation, name or f"nobody ({key[0]}/{key[1]})")

    def generation(self, key: Key) -> int | None:
        """Which generation of a piece may be claimed now; None where it is done or somebody's."""
        if key in self.done:
            return None
        if key not in self.others:
            return 1
        generation, name = self.others[key]
        return None if self.lives(name) else generation + 1

    def claimed(self, key: Key, generation: int) -> None:
        """A claim was made here."""
        self.others.pop(key, None)
        self.held[key] = generation
        self.ours.add(key)

    def finish(self, key: Key) -> None:
        """A piece is done here."""
        self.held.pop(key, None)
        self.others.pop(key, None)
        self.done[key] = self.me

    def free(self, key: Key) -> bool:
        """Whether a piece is anybody's: not done, not held here, and by nobody who lives."""
        return key not in self.held and self.generation(key) is not None

    def holder(self, key: Key) -> str | None:
        """The other host that has, or has done, a piece; None where none has."""
        name = self.done.get(key) or self.others.get(key, (0, ""))[1]
        return name if name and name != self.me else None

    def must_wait(self) -> bool:
        """Whether this host, with nothing to do, stays to take over from one that dies.

        Two of those that live are enough: the first two by name; the others need not hold their cards.
        """
        alive = sorted(name for name in self.hosts if self.lives(name))
        if sum(name < self.me for name in alive) >= 2:  # noqa: PLR2004  # two guards, one may die
            return False
        return any(name in alive for _, name in self.others.values())

    def _host(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host(heard=self.now))

    def _take(self, name: str, host: Host, said: Heartbeat) -> None:
        host.gone, host.slots = said.gone, said.slots
        self.took += said.took
        for shard, number, generation in said.claims:
            self._claimed((shard, number), generation, name)
        for key in (*said.done, *said.given_up):
            # Who resumes a run finishes what anybody gave up, and what it had done and has lost since.
            if key in self.again and (name in self.former or key in said.given_up):
                self._reopen(key, name)
            else:
                self.others.pop(key, None)
                self.held.pop(key, None)
                self.done.setdefault(key, name)

    def _reopen(self, key: Key, name: str) -> None:
        """A piece that was told of as ended is anybody's, unless it is this host's or somebody's already."""
        if key in self.held or key in self.done:
            return
        generation, holder = self.others.get(key, (1, name))
        if holder == name:
            self.others[key] = generation, NOBODY

    def _claimed(self, key: Key, generation: int, name: str) -> None:
        known = max(self.others.get(key, (0, ""))[0], self.held.get(key, 0))
        if generation <= known or key in self.done:
            return
        self.held.pop(key, None)
        self.others[key] = generation, name
        self._host(name)
