"""Runs plans on the small tree and answers with what their journals say."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ci
from ci.device.environment import device_environment
from ci.record.journal import read_journals
from ci.runner.claims.joining import ClaimSettings
from ci.runner.inventory import Card
from ci.runner.pool import CardPool
from ci.runner.prepared_parent import wants_machinery
from ci.runner.supervisor import run_plan
from ci.runner.work import RunOptions, Work
from test_selection.plan import Group, Plan, Shard, fingerprint
from test_selection.selection import Expectation
from tests.journal_rows import row_of, rows_of

STAND_IN = Path(__file__).parents[2] / "torch_stand_in"


def make_plan(*shards: Mapping[str, list[str]]) -> Plan:
    made = tuple(
        Shard(
            index=index,
            expected_s=1,
            groups=tuple(Group(file=file, ids=tuple(ids)) for file, ids in groups.items()),
        )
        for index, groups in enumerate(shards)
    )
    return Plan(fingerprint=fingerprint(made), bound_s=1, makespan_s=1, binds="balance", shards=made)


class Runner:
    """Runs plans on the small tree and answers with the events of their journals.

    What names no test machinery runs on a stand-in for torch, where nobody asks for the real one.
    """

    def __init__(self, tree: Path, method: str = "fork") -> None:
        self.method = method
        self.run_dir = tree.parent / "run"
        self.tree = tree
        self.path = str(Path(ci.__file__).parent.parent)
        self.events: list[dict[str, Any]] = []

    def run(
        self,
        plan: Plan,
        *,
        cards: int = 1,
        method: str | None = None,
        may_change: bool = False,
        test_timeout_s: float = 60,
        setup_timeout_s: float = 60,
        grace_s: float = 5,
        restarts: int = 1,
        threads: int = 1,
        expectations: Mapping[str, Expectation] | None = None,
        listen: Any = lambda *_: None,
        device: str = "cpu",
        static: bool = True,
        retries: int = 0,
        retry_budget: int = 100,
        durations: Mapping[str, float] | None = None,
        pool: CardPool | None = None,
        preflight_timeout_s: float = 0,
        lease_timeout_s: float = 0,
        timeouts: Mapping[str, float] | None = None,
        shards: Sequence[int] | None = None,
        claims: ClaimSettings | None = None,
        real_torch: bool = False,
    ) -> bool:
        files = {group.file for shard in plan.shards for group in shard.groups}
        machinery = wants_machinery(self.tree / "test", files)
        real = real_torch or machinery or device != "cpu"
        environ = {
            **os.environ,
            **device_environment(device),
            "PYTHONPATH": self.path if real else f"{self.path}{os.pathsep}{STAND_IN}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        options = RunOptions(
            machinery=machinery,
            run="r", run_dir=self.run_dir, tests=self.tree / "test", device=device, environ=environ,
            threads=threads, method=method or self.method, may_change=may_change,
            test_timeout_s=test_timeout_s, setup_timeout_s=setup_timeout_s,
            grace_s=grace_s, worker_restarts=restarts, static=static, retries=retries,
            retry_budget=retry_budget,
            preflight_timeout_s=preflight_timeout_s, lease_timeout_s=lease_timeout_s,
        )  # fmt: skip
        work = Work(
            plan,
            plan.shards if shards is None else [plan.shards[index] for index in shards],
            expectations=expectations or {},
            durations=durations,
            timeouts=timeouts,
            shared=claims is not None,
        )
        interrupted = run_plan(
            work,
            cards=pool or [Card(name=f"{device}:{index}", environment={}) for index in range(cards)],
            options=options,
            listen=lambda shard, event: listen(shard, row_of(event)),
            claims=claims,
        )
        journals = read_journals(self.run_dir)
        assert sum(journal.torn for journal in journals) == 0
        self.events = [event for journal in journals for event in rows_of(journal.events)]
        return interrupted

    def outcomes(self) -> dict[str, str]:
        """By id what the journals say of it; a test told of twice fails here."""
        found: dict[str, str] = {}
        for event in self.events:
            match event["e"]:
                case "end":
                    told = {event["id"]: event["outcome"]}
                case "crash":
                    told = {event["id"]: event["cause"]}
                case "not_run":
                    told = dict.fromkeys(event["ids"], "not_run")
                case "worker_lost" if event["id"] is not None:
                    told = {event["id"]: "infrastructure"}
                case _:
                    continue
            assert not told.keys() & found.keys()
            found.update(told)
        return found

    def named(self, event: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["e"] == event]
