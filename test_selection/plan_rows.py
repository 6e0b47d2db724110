"""What a plan is made of, shards and their groups, and how they stand in a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from test_selection.collector import collector_paused

# Far beyond any sum of seconds that were measured, and sums of it are finite.
MAX_S = 1e100
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tests of one file that one worker runs after setting the file up once.

    Attributes:
        file: the test file.
        ids: canonical ids in the order of running.
        alone: the group wants a fresh process and pays the set-up whatever ran before it.
        chains: tests that run in this order with nothing between them: the place of the first in `ids`, and
            how many.
        timeout_s: what the file's history says a test of it may take at most, where it is known.
    """

    file: str
    ids: tuple[str, ...]
    alone: bool = False
    chains: tuple[tuple[int, int], ...] = ()
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What one worker does; `expected_s` counts its tests and the set-up of every file it touches (law 3).

    Attributes:
        index: from 0.
        expected_s: seconds on the shard's card or cards, their speed reckoned in.
        groups: what it runs, in order.
        cards: how many cards the worker holds all the while.
        speed: the factor of the slowest of them; 1 takes the expected seconds, 0.5 twice as long.
    """

    index: int
    expected_s: float
    groups: tuple[Group, ...]
    cards: int = 1
    speed: float = 1.0

    @property
    def ids(self) -> list[str]:
        """Every canonical id of the shard, in the order of running."""
        return [one for group in self.groups for one in group.ids]


def shard_row(shard: Shard) -> dict[str, Any]:
    """A shard as it stands in a file; what is usual is left out."""
    row: dict[str, Any] = {"index": shard.index, "expected_s": round(shard.expected_s, 3)}
    if shard.cards != 1:
        row["cards"] = shard.cards
    if shard.speed != 1:
        row["speed"] = shard.speed
    row["groups"] = [_group_row(group) for group in shard.groups]
    return row


def _group_row(group: Group) -> dict[str, Any]:
    row: dict[str, Any] = {"file": group.file}
    if group.alone:
        row["alone"] = True
    if group.chains:
        row["chains"] = group.chains
    if group.timeout_s is not None:
        row["timeout_s"] = group.timeout_s
    row["ids"] = group.ids
    return row


def shards_of(content: Mapping[str, Any]) -> tuple[Shard, ...]:
    """The shards of a plan file's content.

    Raises:
        KeyError, TypeError: a key is missing or of the wrong kind.
    """
    with collector_paused():
        return tuple(
            _at(f"shards[{number}]", _shard, row) for number, row in enumerate(_rows(content, "shards"))
        )


def _shard(row: dict[str, Any]) -> Shard:
    if type(row["index"]) is not int:
        raise TypeError(f"index is {row['index']!r}, not a whole number")
    groups = _rows(row, "groups")
    return Shard(
        index=row["index"],
        expected_s=seconds_of(row, "expected_s"),
        groups=tuple(_at(f"groups[{number}]", _group, one) for number, one in enumerate(groups)),
        cards=_positive(row, "cards", 1, int),
        speed=_positive(row, "speed", 1.0, int, float),
    )


def _group(row: dict[str, Any]) -> Group:
    alone = row.get("alone", False)
    if not isinstance(alone, bool):
        raise TypeError(f"alone is {alone!r}, neither true nor false")
    ids = _rows(row, "ids")
    if not set(map(type, ids)) <= {str}:
        raise TypeError("ids holds something else than text")
    timeout_s = _positive(row, "timeout_s", 1.0, int, float) if row.get("timeout_s") is not None else None
    chains = _chains(row, len(ids))
    return Group(file=text_of(row, "file"), ids=tuple(ids), alone=alone, chains=chains, timeout_s=timeout_s)


def _chains(row: dict[str, Any], tests: int) -> tuple[tuple[int, int], ...]:
    """Runs of places, ascending and apart, within so many tests."""
    found: list[tuple[int, int]] = []
    free = 0
    for one in _rows(row, "chains") if "chains" in row else ():
        match one:
            case [int(first), int(count)] if free <= first and count > 1 and first + count <= tests:
                found.append((first, count))
                free = first + count
            case _:
                raise TypeError(
                    f"chains holds {one!r}, not the first place, from {free} on, and the length of a chain"
                )
    return tuple(found)


def _at(where: str, make: Callable[[dict[str, Any]], Made], row: object) -> Made:
    """`make(row)`; what it does not like is told with its place."""
    try:
        if not isinstance(row, dict):
            raise TypeError(f"is {type(row).__name__}, not a table")
        return make(row)
    except (KeyError, TypeError) as error:
        raise TypeError(f"{where}: {error}") from error


def _rows(row: Mapping[str, Any], key: str) -> list[Any]:
    value: Any = row[key]
    if not isinstance(value, list):
        raise TypeError(f"{key} is {type(value).__name__}, not a list")
    return value


def text_of(row: Mapping[str, Any], key: str) -> str:
    """A value that must be text.

    Raises:
        KeyError, TypeError: it is missing or is none.
    """
    value: Any = row[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}, not text")
    return value


def seconds_of(row: Mapping[str, Any], key: str) -> float:
    """A value that must be seconds.

    Raises:
        KeyError, TypeError: it is missing or is none.
    """
    value: Any = row[key]
    if type(value) not in (int, float) or not 0 <= value <= MAX_S:
        raise TypeError(f"{key} is {value!r}, not seconds of 0 or more")
    return float(value)


def _positive(row: dict[str, Any], key: str, default: Any, *kinds: type) -> Any:
    value: Any = row.get(key, default)
    if type(value) not in kinds or not 0 < value < math.inf:
        raise TypeError(f"{key} is {value!r}, not a number above 0")
    return value
