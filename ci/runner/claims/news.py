"""What a host says to the others: a JSON object a line. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

Key = tuple[int, int]
# Sums of it stay finite, and no day is so long.
MAX_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What a post is at.

    Attributes:
        shard: the shard it works for, which is its number.
        file: the file it has set up, or does so.
        fresh: whether it runs nothing of it yet.
        left_s: seconds it is expected to need for what it does.
    """

    shard: int
    file: str | None
    fresh: bool
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What a piece or a set-up took.

    Attributes:
        shard: the number of the post.
        file: the file.
        took_s: seconds it took.
        expected_s: seconds it was expected to take before anything was known.
        setup: whether it was the file's set-up.
    """

    shard: int
    file: str
    took_s: float
    expected_s: float
    setup: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One line of a host.

    Attributes:
        claims: pieces it claimed since its last line, as (shard, piece, generation).
        done: pieces of which every test has an outcome in its journals, on the disk, as (shard, piece).
        given_up: pieces it is through with though a test of theirs has none; nobody runs them again but who
            resumes the run.
        posts: what its posts are at.
        learnt: what was learnt since its last line.
        busy: whether any of its posts has something to do.
        gone: whether it leaves; what it claimed and has not done is anybody's.
    """

    claims: tuple[tuple[int, int, int], ...] = ()
    done: tuple[Key, ...] = ()
    given_up: tuple[Key, ...] = ()
    posts: tuple[Posted, ...] = ()
    learnt: tuple[Learnt, ...] = ()
    busy: bool = False
    gone: bool = False

    def line(self) -> str:
        """The news as they are said."""
        return json.dumps(asdict(self), separators=(",", ":"))


def read_news(line: str) -> News | None:
    """The news of a line; None for one that is torn or not of this form."""
    try:
        row = json.loads(line)
        return News(
            claims=tuple((_whole(s), _whole(n), _whole(g)) for s, n, g in row["claims"]),
            done=tuple((_whole(s), _whole(n)) for s, n in row["done"]),
            given_up=tuple((_whole(s), _whole(n)) for s, n in row.get("given_up", ())),
            posts=tuple(_posted(one) for one in row["posts"]),
            learnt=tuple(_learnt(one) for one in row["learnt"]),
            busy=bool(row["busy"]),
            gone=bool(row["gone"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _posted(row: Any) -> Posted:
    file = None if row["file"] is None else _text(row["file"])
    left_s = _seconds(row["left_s"])
    return Posted(shard=_whole(row["shard"]), file=file, fresh=bool(row["fresh"]), left_s=left_s)


def _learnt(row: Any) -> Learnt:
    return Learnt(
        shard=_whole(row["shard"]),
        file=_text(row["file"]),
        took_s=_seconds(row["took_s"]),
        expected_s=_seconds(row["expected_s"]),
        setup=bool(row["setup"]),
    )


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("not a whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= MAX_S:
        raise TypeError("not seconds")
    return float(value)
