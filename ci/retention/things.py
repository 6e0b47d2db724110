"""The things retention is about, and what is decided of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DAY_S = 24 * 3600.0
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Space of a file with several names (hard links), some of them in a thing.

    Attributes:
        key: tells the file from any other: its device and inode.
        inside: how many of its names are in the thing.
        links: how many it has.
        bytes: it holds on the disk.
    """

    key: tuple[int, int]
    inside: int
    links: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something that may be removed as a whole: a run's folder, a tree, a record, an image.

    Attributes:
        kind: one of KINDS.
        name: within its kind.
        path: where it is; of an image or a row its id.
        at: when it was last of use, in seconds since the epoch; None where nothing tells.
        own: bytes on the disk that only it holds.
        shared: of files that others may hold too.
        held: why it stays, a sentence each; none: rules decide.
        cut_off: whether somebody may still finish it.
        names: those of its kind that it names, and that are wanted while it stays.
    """

    kind: str
    name: str
    path: str
    at: float | None
    own: int = 0
    shared: tuple[Shared, ...] = ()
    held: tuple[str, ...] = ()
    cut_off: bool = False
    names: frozenset[str] = frozenset()

    @property
    def bytes(self) -> int:
        """What it takes on the disk, a file with several names counted once."""
        return self.own + sum(one.bytes for one in self.shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How much of a kind is kept.

    Attributes:
        keep_days: days; None: no age.
        keep_bytes: bytes; None: no size.
        keep_last: so many of the newest stay.
        cut_off: whether what was cut off goes too, once it is older than `keep_days`.
    """

    keep_days: float | None
    keep_bytes: float | None
    keep_last: int = 0
    cut_off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a thing.

    Attributes:
        thing: it.
        goes: whether it is removed.
        why: in a few words.
        frees: bytes the disk gets back by it, once all that go before it are gone.
    """

    thing: Thing
    goes: bool
    why: str
    frees: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Something that is not ours, where ours is: it is told, not counted and left alone.

    Attributes:
        kind: whose place it is in.
        path: where it is.
        why: it is not ours.
    """

    kind: str
    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found of a kind."""

    things: Sequence[Thing] = ()
    foreign: Sequence[Foreign] = ()
