"""What a host has to run, and how: the pieces of its shards, what is known of each test, the options."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ci.runner.channel import Attempt, Order, Task, WorkerOptions
from ci.runner.scheduler import Job
from test_selection.pieces import Piece, cut_plan, piece_seconds
from test_selection.plan import Group, Plan, Shard
from test_selection.selection import Expectation

# Where more tests of a file may run, saying which costs more than leaving the others out saves.
MOST_WANTED = 5000
# Beyond a worker's own time-outs: importing torch on a busy machine, writing the account of a hang.
SILENCE_MARGIN_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(WorkerOptions):
    """How to run a plan on this host, besides what its workers are told; times in seconds.

    Attributes:
        run_dir: the run folder; journals and logs go below it.
        environ: the whole environment of the workers.
        worker_restarts: how often a card's lost worker is replaced.
        static: whether every shard is run by one card, and nobody helps.
        retries: how often a test that failed is run again.
        retry_budget: how many tests are run again at most.
        lease_timeout_s: how long a run waits while it has no card at all.
        spawned: files whose tests must not run in a forked process.
        doubts: of a run that is resumed, by shard and by reason the ids that may have run before.
        after: the number after which attempts at shards are counted.
        max_fail: failed tests after which nothing more is to be run; 0: there is no such number.
        spared: ids of quarantined tests, whose failures do not count for that.
    """

    run_dir: Path
    environ: Mapping[str, str]
    worker_restarts: int
    static: bool = True
    retries: int = 0
    retry_budget: int = 0
    lease_timeout_s: float = 0
    spawned: frozenset[str] = frozenset()
    doubts: Mapping[int, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    after: int = 0
    max_fail: int = 0
    spared: frozenset[str] = frozenset()

    @property
    def silence_s(self) -> float:
        """How long a worker that is well may write nothing to its journal."""
        longest = max(self.test_timeout_s, self.setup_timeout_s) + self.preflight_timeout_s
        return longest + self.grace_s + SILENCE_MARGIN_S

    def task(self, fingerprint: str, card: str, attempt: Attempt) -> Task:
        """What a worker is told once."""
        told = {one.name: getattr(self, one.name) for one in fields(WorkerOptions)}
        return Task(parent=os.getpid(), fingerprint=fingerprint, card=card, attempt=attempt, **told)


class Work:
    """The shards of a plan that run here, cut into pieces.

    Attributes:
        fingerprint: of the plan.
        shards: those with tests, longest first.
        indexes: theirs.
        pieces: by index of the plan's shards, in the order of running; empty for those that run elsewhere
            and whose pieces are not to be had here.
        rows: the pieces of all shards, the same on every host.
        table: what of each of them is to be run here, by its number; without ids where nothing is.
        wide: the shards that need several cards at once.
        apart: the first id of each piece that wants a process of its own.
        first: ids to run before all others of their shards.
        file_s: set-up seconds expected of each file.
        tick_s: how often slots look at the whole, in seconds: about what a piece takes.
    """

    def __init__(
        self,
        plan: Plan,
        shards: Sequence[Shard],
        *,
        expectations: Mapping[str, Expectation],
        durations: Mapping[str, float] | None = None,
        file_s: Mapping[str, float] | None = None,
        timeouts: Mapping[str, float] | None = None,
        spawned: Collection[str] = (),
        shared: bool = False,
        whole: Plan | None = None,
        first: Collection[str] = (),
    ) -> None:
        """Cut the plan.

        Args:
            plan: the whole plan; every host cuts it alike.
            shards: those that run here.
            expectations: declared outcomes by id.
            durations: seconds expected of each test, by which shards are cut into pieces.
            file_s: set-up seconds expected of each file.
            timeouts: seconds after which a test counts as hung, where its own history says; else its file's.
            spawned: the files that want processes that are not forked.
            shared: whether pieces of shards that run elsewhere may be claimed here.
            first: ids to run before all others, so in pieces of their own; with `shared`, as all hosts have
                to cut alike, none comes first.
            whole: what `plan` is the rest of, where the run is resumed: pieces keep the numbers by which
                others know them, and tests that have run may have to run again.
        """
        self.fingerprint, self.file_s = plan.fingerprint, file_s or {}
        self.first = frozenset() if shared else frozenset(first)
        here = {shard.index for shard in shards}
        known = [one for one in (whole or plan).shards if one.index in here or (shared and one.cards == 1)]
        self.shards = [shard for shard in shards if shard.groups]
        self._shards = {shard.index: shard for shard in shards}
        self.indexes = tuple(shard.index for shard in self.shards)
        within = {shard.index for shard in known}
        self.rows = [
            [replace(piece, number=number) for number, piece in enumerate(row)]
            for row in cut_plan(_set_apart(whole or plan, self.first), durations or {})
        ]
        done = set() if whole is None else set(whole.ids).difference(plan.ids)
        self.table = [
            [_rest(piece, done) for piece in row] if index in within else []
            for index, row in enumerate(self.rows)
        ]
        self.pieces = [[piece for piece in row if piece.ids] for row in self.table]
        self.wide = frozenset(shard.index for shard in self.shards if shard.cards > 1)
        self.tick_s = piece_seconds(whole or plan)
        self._spawned = frozenset(spawned)
        self._expectations, self._timeouts = expectations, timeouts or {}
        # Of all shards: what was run here for others may have to run here again.
        self._groups: dict[str, tuple[Shard, Group]] = {
            name: place
            for shard in (whole or plan).shards
            for group in shard.groups
            for place in ((shard, group),)
            for name in group.ids
        }
        self._planned: dict[str, list[str]] = {}
        for shard in (whole or plan).shards:  # whoever they are planned for, they may come here
            for group in shard.groups:
                self._planned.setdefault(group.file, []).extend(group.ids)
        self.apart = frozenset(group.ids[0] for shard in known for group in shard.groups if group.alone)

    def shard(self, index: int) -> Shard:
        """A shard that runs here."""
        return self._shards[index]

    def shard_for(self, index: int) -> Shard:
        """The shard a slot works for that runs something of shard `index`, which may be another host's."""
        return self._shards.get(index) or next(iter(self._shards.values()))

    def file_of(self, name: str) -> str:
        """The file of a planned test."""
        return self._groups[name][1].file

    def shard_of(self, name: str) -> int:
        """The shard a test is planned for."""
        return self._groups[name][0].index

    def cards_of(self, name: str) -> int:
        """How many cards a test needs at once."""
        return self._groups[name][0].cards

    def before(self, name: str) -> tuple[str, ...]:
        """The tests a test runs after in a given order, so that alone it would be another test."""
        group = self._groups[name][1]
        if not group.chains:
            return ()
        place = group.ids.index(name)
        chains = (first for first, count in group.chains if first <= place < first + count)
        return tuple(group.ids[next(chains, place) : place])

    def order(self, job: Job) -> Order:
        """What a worker is told of a job."""
        file = job.piece.file
        if job.setup:
            return Order(do="hold", file=file, wanted=self._wanted(file), spawn=file in self._spawned)
        group = self._groups[job.piece.ids[0]][1]
        return Order(
            do="run",
            file=file,
            ids=job.piece.ids,
            chains=_chains(group, job.piece.ids),
            expectations=self._expected(job.piece.ids),
            limits=self._limits(job.piece.ids, group.timeout_s),
            test_s=group.timeout_s,
            fresh=group.alone or job.why == "retry",
            spawn=file in self._spawned,
            why=job.why,
            of=job.of,
            attempt=job.attempt,
        )

    def _wanted(self, file: str) -> tuple[str, ...]:
        """What of a file may run, for the worker to leave the others out; empty where that is a lot."""
        ids = self._planned[file]
        return tuple(ids) if len(ids) <= MOST_WANTED else ()

    def _expected(self, ids: Sequence[str]) -> dict[str, Any]:
        return {name: one.as_json() for name in ids if (one := self._expectations.get(name)) is not None}

    def _limits(self, ids: Sequence[str], file_s: float | None) -> dict[str, float]:
        """The limits of tests that differ from their file's."""
        found = {name: self._timeouts[name] for name in ids if name in self._timeouts}
        return {name: seconds for name, seconds in found.items() if file_s is None or seconds < file_s}


def _chains(group: Group, ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """What of a group's chains is in a piece of it, or in a test that is run again."""
    wanted = frozenset(ids) if group.chains else ()
    rows = (group.ids[first : first + count] for first, count in group.chains)
    chains = (tuple(name for name in row if name in wanted) for row in rows)
    return tuple(chain for chain in chains if len(chain) > 1)


def _set_apart(plan: Plan, first: Collection[str]) -> Plan:
    """The plan with groups cut in two, so that no piece holds tests of both; chains stay whole."""
    if not first:
        return plan
    shards = tuple(
        replace(shard, groups=tuple(half for group in shard.groups for half in _halves(group, first)))
        for shard in plan.shards
    )
    return replace(plan, shards=shards)


def _halves(group: Group, first: Collection[str]) -> list[Group]:
    if group.chains:
        return [group]
    halves = ([name for name in group.ids if (name in first) is wanted] for wanted in (True, False))
    return [replace(group, ids=tuple(half)) for half in halves if half]


def _rest(piece: Piece, done: Collection[str]) -> Piece:
    if not done:
        return piece
    left = tuple(name for name in piece.ids if name not in done)
    return replace(piece, ids=left, expected_s=piece.expected_s * len(left) / len(piece.ids))
