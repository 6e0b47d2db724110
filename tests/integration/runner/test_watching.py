"""The live view is told of workers and cards that are lost."""

from __future__ import annotations

import io
import os
import signal

from rich.console import Console

from ci.record.events import parse
from ci.record.journal import read_journals
from ci.record.verdict import Verdict
from ci.report.live.state import State
from ci.report.live.view import Watcher, view_for
from ci.report.reconcile import reconcile
from tests.journal_rows import Row

from .small_runs import Runner, make_plan

SLOW = [f"test_retries.py::TestSlow::test_{number}" for number in range(3)]


def test_a_card_whose_worker_is_killed_is_seen_as_lost_and_counts_agree(runner: Runner) -> None:
    plan = make_plan({"test_retries.py": SLOW})
    out = io.StringIO()
    state = State(plan.shards, cards=["cpu:0"], expected_s={}, setup_s={}, now=0.0)
    watcher = Watcher(state, view_for(Console(file=out), {}), None, lambda: 1.0)
    pids: list[int] = []

    def listen(shard: int, event: Row) -> None:
        watcher.take(shard, parse(event))
        if event["e"] == "shard_start":
            pids.append(event["pid"])
        if event["e"] == "start" and event["id"] == SLOW[1]:
            os.kill(pids[-1], signal.SIGKILL)

    interrupted = runner.run(plan, restarts=0, listen=listen)
    watcher.finish(interrupted=interrupted)
    account = reconcile(plan, read_journals(runner.run_dir), interrupted=interrupted)
    assert {verdict: state.counts[verdict] for verdict in Verdict} == account.counts
    assert account.counts[Verdict.INFRASTRUCTURE] == 1
    assert state.able == ()
    said = out.getvalue()
    lost = [line for line in said.splitlines() if line.startswith("LOST ")]
    assert [line.partition("s] ")[2] for line in lost] == [f"{SLOW[1]}  the worker on cpu:0 died by SIGKILL"]
    assert "HW card cpu:0 is out of use for this run  the shard's worker was lost 1 times" in said
