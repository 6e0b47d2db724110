"""What a host says to the others, as a sign of life: a JSON object a line. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec

Whole = Annotated[int, msgspec.Meta(ge=0)]
# Sums of it stay finite, and no day is so long.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
# A piece: the shard and its number there.
Key = tuple[Whole, Whole]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """What a worker is at.

    Attributes:
        shard: the shard it works for, which is its number.
        file: the file it has set up, or does so.
        fresh: whether it runs nothing of it yet.
        left_s: seconds it is expected to need for what it does.
    """

    shard: Whole
    file: str | None
    fresh: bool
    left_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What a piece or a set-up took.

    Attributes:
        shard: the number of the worker.
        file: the file.
        took_s: seconds it took.
        expected_s: seconds it was expected to take before anything was known.
        setup: whether it was the file's set-up.
    """

    shard: Whole
    file: str
    took_s: Seconds
    expected_s: Seconds
    setup: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One line of a host.

    Attributes:
        claims: pieces it claimed since its last line, as (shard, piece, generation).
        done: pieces of which every test has an outcome in its journals, on the disk.
        given_up: pieces it is through with though a test of theirs has none; nobody runs them again but who
            resumes the run.
        slots: what its workers are at.
        learnt: what was learnt since its last line.
        busy: whether any of its workers has something to do.
        gone: whether it leaves; what it claimed and has not done is anybody's.
    """

    claims: tuple[tuple[Whole, Whole, Whole], ...] = ()
    done: tuple[Key, ...] = ()
    given_up: tuple[Key, ...] = ()
    slots: tuple[AtWork, ...] = ()
    learnt: tuple[Learnt, ...] = ()
    busy: bool = False
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
