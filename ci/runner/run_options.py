"""How to run a plan on this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Beyond a worker's own time-outs: importing torch on a busy machine, writing the account of a hang.
SILENCE_MARGIN_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a plan on this host; times in seconds.

    Attributes:
        run: the readable run id.
        run_dir: the run folder; journals and logs go below it.
        tests: the folder test files are named relative to.
        device: the device under test.
        environ: the whole environment of the workers.
        threads: CPU threads a worker may use.
        method: `fork` or `spawn`.
        may_change: whether a worker that has the device open before it forks spawns after all.
        test_timeout_s: after which a test counts as hung.
        setup_timeout_s: after which setting a file up counts as hung.
        grace_s: time a process gets to end by itself.
        worker_restarts: how often a card's lost worker is replaced.
        static: whether every shard is run by one card, and nobody helps.
        retries: how often a test that failed is run again.
        retry_budget: how many tests are run again at most.
        preflight_timeout_s: after which a card has failed its check; 0: cards are not checked.
        lease_timeout_s: how long a run waits while it has no card at all.
        spawned: files whose tests must not run in a forked process.
        machinery: whether workers import PyTorch's test machinery before they begin.
        doubts: of a run that is resumed, by shard and by reason the ids that may have run before.
        seed: of the run, from which each test's follows; None: nothing is seeded.
        as_try: by id, the try whose seed a test has, where that is not the one it is.
        after: the number after which attempts at shards are counted.
        stop: why nothing more is to be run, as events that were listened to have it; empty: go on.
    """

    run: str
    run_dir: Path
    tests: Path
    device: str
    environ: Mapping[str, str]
    threads: int
    method: str
    test_timeout_s: float
    setup_timeout_s: float
    grace_s: float
    worker_restarts: int
    may_change: bool = False
    static: bool = True
    retries: int = 0
    retry_budget: int = 0
    preflight_timeout_s: float = 0
    lease_timeout_s: float = 0
    spawned: frozenset[str] = frozenset()
    machinery: bool = True
    doubts: Mapping[int, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    after: int = 0
    seed: int | None = None
    as_try: Mapping[str, int] = field(default_factory=dict)
    stop: Callable[[], str] = str

    @property
    def silence_s(self) -> float:
        """How long a worker that is well may write nothing to its journal."""
        longest = max(self.test_timeout_s, self.setup_timeout_s) + self.preflight_timeout_s
        return longest + self.grace_s + SILENCE_MARGIN_S

    def task(self, fingerprint: str, card: str) -> dict[str, Any]:
        """What a worker is told once."""
        return {
            "parent": os.getpid(),
            "run": self.run,
            "fingerprint": fingerprint,
            "card": card,
            "tests": str(self.tests),
            "device": self.device,
            "machinery": self.machinery,
            "threads": self.threads,
            "method": self.method,
            "may_change": self.may_change,
            "test_timeout_s": self.test_timeout_s,
            "setup_timeout_s": self.setup_timeout_s,
            "grace_s": self.grace_s,
            "preflight_timeout_s": self.preflight_timeout_s,
            "seed": self.seed,
            "as_try": dict(self.as_try),
        }
