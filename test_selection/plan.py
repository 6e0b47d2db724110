"""The plan: shards of groups, each shard with its expected seconds, and a fingerprint of the whole."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test_selection.errors import BadFileError
from test_selection.files import read_json, write_json

KIND = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tests of one file that one worker runs after setting the file up once."""

    file: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What one worker does; `expected_s` counts its tests and the set-up of every file it touches (law 3)."""

    index: int
    expected_s: float
    groups: tuple[Group, ...]

    @property
    def ids(self) -> list[str]:
        """Every canonical id of the shard, in the order of running."""
        return [one for group in self.groups for one in group.ids]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A split of a selection.

    Attributes:
        fingerprint: SHA-256 over the groups of every shard: equal for equal work.
        bound_s: no split over as many shards can end sooner, in seconds.
        makespan_s: expected seconds of the longest shard.
        binds: what keeps the makespan from being shorter.
        shards: one entry a worker, by index from 0.
    """

    fingerprint: str
    bound_s: float
    makespan_s: float
    binds: str
    shards: tuple[Shard, ...]

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


def write_plan(path: Path, plan: Plan) -> None:
    """Write `plan.json`; the same plan gives the same bytes."""
    shards = [
        {
            "index": shard.index,
            "expected_s": round(shard.expected_s, 3),
            "groups": [{"file": group.file, "ids": list(group.ids)} for group in shard.groups],
        }
        for shard in plan.shards
    ]
    content = {
        "fingerprint": plan.fingerprint,
        "bound_s": round(plan.bound_s, 3),
        "makespan_s": round(plan.makespan_s, 3),
        "binds": plan.binds,
        "shards": shards,
    }
    write_json(path, KIND, content)


def read_plan(path: Path) -> Plan:
    """Read `plan.json` and check that it is whole.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing, an id is planned twice, or shards are not numbered from 0.
    """
    content = read_json(path, KIND)
    try:
        plan = Plan(
            fingerprint=str(content["fingerprint"]),
            bound_s=float(content["bound_s"]),
            makespan_s=float(content["makespan_s"]),
            binds=str(content["binds"]),
            shards=tuple(_shard(row) for row in content["shards"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}",
            where=path,
            remedy="plan again with `spyre-ci plan`",
        ) from error
    _check(plan, path)
    return plan


def _shard(row: dict[str, Any]) -> Shard:
    groups = tuple(Group(file=one["file"], ids=tuple(one["ids"])) for one in row["groups"])
    return Shard(index=int(row["index"]), expected_s=float(row["expected_s"]), groups=groups)


def _check(plan: Plan, path: Path) -> None:
    remedy = "the file was changed by hand or cut; plan again with `spyre-ci plan`"
    ids = plan.ids
    if len(set(ids)) != len(ids):
        twice = next(one for one, count in Counter(ids).items() if count > 1)
        raise BadFileError(f"the id {twice!r} is planned twice", where=path, remedy=remedy)
    if [shard.index for shard in plan.shards] != list(range(len(plan.shards))):
        raise BadFileError("shard indices do not count up from 0", where=path, remedy=remedy)
