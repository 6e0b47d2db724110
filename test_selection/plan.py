"""The plan: shards of groups with expected seconds, a fingerprint of the whole, and its file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Annotated, Any

from msgspec import Meta

from test_selection.errors import BadFileError
from test_selection.files import collector_paused, convert, read_json, write_json
from test_selection.seeds import MOST, seed_of_fingerprint

KIND = "plan"
_REMEDY = "the file was edited or truncated; plan again with `spyre-ci plan`"
# Far beyond any sum of seconds that were measured, and sums of it are finite.
_MAX_S = 1e100
Seconds = Annotated[float, Meta(ge=0, le=_MAX_S)]
Positive = Annotated[float, Meta(gt=0, le=_MAX_S)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tests of one file that one worker runs after setting the file up once.

    Attributes:
        file: the test file.
        ids: test ids in the order of running.
        alone: the group wants a fresh process and pays the set-up whatever ran before it.
        chains: tests that run in this order with nothing between them: the place of the first in `ids`, and
            how many.
        timeout_s: what the file's history says a test of it may take at most, where it is known.
    """

    file: str
    ids: tuple[str, ...]
    alone: bool = False
    chains: tuple[tuple[int, int], ...] = ()
    timeout_s: Positive | None = None

    def __post_init__(self) -> None:
        # A plan, a selection and journals name the same tests: all of them hold one copy of each id.
        object.__setattr__(self, "ids", tuple(map(intern, self.ids)))


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
    expected_s: Seconds
    groups: tuple[Group, ...]
    cards: Annotated[int, Meta(gt=0)] = 1
    speed: Positive = 1.0

    @property
    def ids(self) -> list[str]:
        """Every test id of the shard, in the order of running."""
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
        seed: of the run, as it was planned; None: nobody named one, see `run_seed`.
    """

    fingerprint: str
    bound_s: Seconds
    makespan_s: Seconds
    binds: str
    shards: tuple[Shard, ...]
    seed: Annotated[int, Meta(ge=0, le=MOST)] | None = None

    @property
    def run_seed(self) -> int:
        """The seed of a run of this plan, from which each test's follows; the same on every host."""
        return seed_of_fingerprint(self.fingerprint) if self.seed is None else self.seed

    @property
    def limited_by(self) -> str:
        """What keeps the makespan from being shorter, for people."""
        return "load balance" if self.binds == "balance" else self.binds

    @property
    def file_of(self) -> dict[str, str]:
        """The file of each planned test, by test id."""
        return {name: group.file for shard in self.shards for group in shard.groups for name in group.ids}

    @property
    def ids(self) -> list[str]:
        """Every planned test id, shard after shard."""
        return [one for shard in self.shards for one in shard.ids]


def fingerprint(shards: Sequence[Shard]) -> str:
    """SHA-256 (hex) over files and ids, shard by shard; times do not count."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(json.dumps([[group.file, *group.ids] for group in shard.groups]).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """What a plan's file holds."""
    return {
        "fingerprint": plan.fingerprint,
        "bound_s": round(plan.bound_s, 3),
        "makespan_s": round(plan.makespan_s, 3),
        "binds": plan.binds,
        **({} if plan.seed is None else {"seed": plan.seed}),
        "shards": [_shard_row(shard) for shard in plan.shards],
    }


def write_plan(path: Path, plan: Plan) -> None:
    """Write `plan.json`; the same plan gives the same bytes."""
    write_json(path, KIND, plan_to_json(plan))


def read_plan(path: Path) -> Plan:
    """Read `plan.json` and check that it is whole.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: of `plan_from_json`.
    """
    return plan_from_json(read_json(path, KIND), path)


def _shard_row(shard: Shard) -> dict[str, Any]:
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


def plan_from_json(content: Mapping[str, Any], where: Path | str) -> Plan:
    """The plan of a file's content.

    Args:
        content: as it was read.
        where: what errors name.

    Raises:
        BadFileError: a key is missing or of another kind than `write_plan` writes, an id is planned twice,
            shards are not numbered from 0, or the fingerprint is not that of the shards.
    """
    with collector_paused():
        plan = convert(content, Plan, where=where, remedy=_REMEDY)
    ids = plan.ids
    if len(set(ids)) != len(ids):
        twice = next(one for one, count in Counter(ids).items() if count > 1)
        raise _bad(f"the test {twice!r} is planned twice", where)
    for shard in plan.shards:
        for group in shard.groups:
            _check_chains(group, where)
    if [shard.index for shard in plan.shards] != list(range(len(plan.shards))):
        raise _bad("shard indices do not count up from 0", where)
    if (found := fingerprint(plan.shards)) != plan.fingerprint:
        raise _bad(
            f"the fingerprint {plan.fingerprint!r} does not match the groups, whose is {found!r}",
            where,
        )
    return plan


def _check_chains(group: Group, where: Path | str) -> None:
    """Refuse chains that do not lie one after another within the group."""
    free = 0
    for first, count in group.chains:
        if first < free or count < 2 or first + count > len(group.ids):  # noqa: PLR2004  # a chain of one is none
            raise _bad(
                f"chains of {group.file!r} holds {[first, count]}, not the first place, from {free} on, "
                "and the length of a chain",
                where,
            )
        free = first + count


def _bad(what: str, where: Path | str) -> BadFileError:
    return BadFileError(what, where=where, remedy=_REMEDY)
