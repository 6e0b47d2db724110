"""How to run a plan on this host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from ci.runner.channel import Attempt, Task, WorkerOptions

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
