"""The plan: shards of groups with expected seconds, a fingerprint of the whole, and its file."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from test_selection.errors import BadFileError
from test_selection.files import collector_paused, read_json, write_json
from test_selection.seeds import MOST, seed_of_fingerprint

__all__ = [
    "KIND",
    "Group",
    "Plan",
    "Shard",
    "digest_of",
    "fingerprint",
    "plan_from_json",
    "plan_to_json",
    "read_plan",
    "slice_size",
    "write_plan",
]

KIND = "plan"
# Beyond any plan; a slice that says it is one of more would be padded for ever.
MOST_SHARDS = 1 << 16
_WHOLE = ("fingerprint", "bound_s", "makespan_s", "binds")
_REMEDY = "the file was changed by hand or cut; plan again with `spyre-ci plan`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A split of a selection.

    Attributes:
        fingerprint: SHA-256 over the groups of every shard: equal for equal work.
        bound_s: no split over as many shards can end sooner, in seconds.
        makespan_s: expected seconds of the longest shard.
        binds: what keeps the makespan from being shorter.
        shards: one entry a worker, by index from 0.
        seed: of the run, as it was planned; None: nobody named one, see `run_seed`.
    """

    fingerprint: str
    bound_s: float
    makespan_s: float
    binds: str
    shards: tuple[Shard, ...]
    seed: int | None = None

    @property
    def run_seed(self) -> int:
        """The seed of a run of this plan, from which each test's follows; the same on every host."""
        return seed_of_fingerprint(self.fingerprint) if self.seed is None else self.seed

    @property
    def ids(self) -> list[str]:
        """Every planned canonical id, shard after shard."""
        return [one for shard in self.shards for one in shard.ids]


def fingerprint(shards: Sequence[Shard]) -> str:
    """SHA-256 (hex) over files and ids, shard by shard; times do not count."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(json.dumps([[group.file, *group.ids] for group in shard.groups]).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def plan_to_json(plan: Plan, indexes: Iterable[int] | None = None) -> dict[str, Any]:
    """What a plan's file holds; of a slice, no more than its own shards.

    Args:
        plan: whole.
        indexes: of the slice's shards; None: all, and no slice.
    """
    wanted = range(len(plan.shards)) if indexes is None else sorted(indexes)
    content: dict[str, Any] = {
        "fingerprint": plan.fingerprint,
        "bound_s": round(plan.bound_s, 3),
        "makespan_s": round(plan.makespan_s, 3),
        "binds": plan.binds,
        **({} if plan.seed is None else {"seed": plan.seed}),
        "shards": [shard_row(plan.shards[index]) for index in wanted],
    }
    if indexes is not None:
        content["slice"] = {"of": len(plan.shards), "digest": digest_of(content, len(plan.shards))}
    return content


def digest_of(content: Mapping[str, Any], of: int) -> str:
    """SHA-256 (hex) over a slice: its rows as they stand, and what it is a slice of."""
    said = [of, *(content[key] for key in _WHOLE), content["shards"]]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def write_plan(path: Path, plan: Plan) -> None:
    """Write `plan.json`; the same plan gives the same bytes."""
    write_json(path, KIND, plan_to_json(plan))


def read_plan(path: Path) -> Plan:
    """Read `plan.json` and check that it is whole, or a whole slice.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: of `plan_from_json`.
    """
    return plan_from_json(read_json(path, KIND), path)


def plan_from_json(content: Mapping[str, Any], where: Path | str) -> Plan:
    """The plan of a file's content. The shards that a slice leaves out are there, and empty.

    A slice has the whole plan's fingerprint, so that its journals are of the whole plan.

    Args:
        content: as it was read.
        where: what errors name.

    Raises:
        BadFileError: a key is missing or of another kind than `write_plan` writes, an id is planned twice,
            shards are not numbered from 0, or fingerprint or digest are not those of the shards.
    """
    try:
        plan = Plan(
            fingerprint=text_of(content, "fingerprint"),
            bound_s=seconds_of(content, "bound_s"),
            makespan_s=seconds_of(content, "makespan_s"),
            binds=text_of(content, "binds"),
            shards=shards_of(content),
            seed=_seed_of(content),
        )
    except (KeyError, TypeError) as error:
        raise _bad(f"a key is missing or of the wrong kind: {error}", where) from error
    _check_ids(plan, where)
    if "slice" in content:
        return _padded(plan, slice_size(content, where), where)
    return _checked(plan, where)


def _seed_of(content: Mapping[str, Any]) -> int | None:
    seed = content.get("seed")
    if seed is not None and (type(seed) is not int or not 0 <= seed <= MOST):
        raise TypeError(f"seed is {seed!r:.40}, not a whole number from 0 to {MOST}")
    return seed


def slice_size(content: Mapping[str, Any], where: Path | str) -> int:
    """Of how many shards a slice is one.

    Args:
        content: as it was read.
        where: what errors name.

    Raises:
        BadFileError: it is no slice, or was changed.
    """
    try:
        row = content["slice"]
        if not isinstance(row, dict):
            raise TypeError(f"slice is {type(row).__name__}, not a table")
        of: Any = row["of"]
        if type(of) is not int or not 0 < of <= MOST_SHARDS:
            raise TypeError(f"slice.of is {of!r}, not a number of shards")
        digest, found = text_of(row, "digest"), digest_of(content, of)
    except (KeyError, TypeError) as error:
        raise _bad(f"a key is missing or of the wrong kind: {error}", where) from error
    if found != digest:
        raise _bad(f"the slice's digest {digest!r} is of other shards than these, whose is {found!r}", where)
    return of


def _padded(plan: Plan, of: int, where: Path | str) -> Plan:
    """The plan with an empty shard wherever the slice has none."""
    indexes = [shard.index for shard in plan.shards]
    if indexes != sorted(set(indexes)) or not set(indexes) <= set(range(of)):
        raise _bad(f"shard indices do not count up within 0 to {of - 1}", where)
    own = {shard.index: shard for shard in plan.shards}
    shards = tuple(own.get(index) or Shard(index=index, expected_s=0.0, groups=()) for index in range(of))
    return replace(plan, shards=shards)


def _check_ids(plan: Plan, where: Path | str) -> None:
    ids = plan.ids
    if len(set(ids)) != len(ids):
        twice = next(one for one, count in Counter(ids).items() if count > 1)
        raise _bad(f"the id {twice!r} is planned twice", where)


def _checked(plan: Plan, where: Path | str) -> Plan:
    if [shard.index for shard in plan.shards] != list(range(len(plan.shards))):
        raise _bad("shard indices do not count up from 0", where)
    if (found := fingerprint(plan.shards)) != plan.fingerprint:
        raise _bad(
            f"the fingerprint {plan.fingerprint!r} is of other groups than these, whose is {found!r}", where
        )
    return plan


def _bad(what: str, where: Path | str) -> BadFileError:
    return BadFileError(
        what,
        where=where,
        remedy="the file was changed by hand or cut; plan again with `spyre-ci plan`",
    )


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
