"""Tests that went with their host: which they are, and what is written of one that did so twice."""

from __future__ import annotations

from pathlib import Path

from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal import Journal, JournalWriter, journal_path, read_journals
from ci.record.verdict import Verdict
from ci.report.control import wants_control
from ci.report.reconcile import reconcile
from ci.runner.lost import apart_from_chains, lost_with_host, write_off
from ci.runner.pending import pending_retries
from test_selection.plan import Group, Plan, Shard, fingerprint

NAMES = ("a", "b", "c", "d", "e")
IDS = tuple(f"test_x.py::T::test_{name}" for name in NAMES)


def plan_of(*chains: tuple[int, int]) -> Plan:
    shards = (Shard(index=0, expected_s=1, groups=(Group(file="test_x.py", ids=IDS, chains=chains),)),)
    return Plan(fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="balance", shards=shards)


def journal(*found: JournalEvent, damaged: int = 0) -> Journal:
    return Journal(path=Path("journal/0-1.jsonl"), shard=0, attempt=1, events=list(found), damaged=damaged)


def start(name: str) -> JournalEvent:
    return events.Start(id=name)


def test_only_what_ran_when_all_went_at_once_is_lost_with_its_host() -> None:
    end = events.End(id="a", outcome="passed")
    assert lost_with_host([journal(start("a"), end, start("b"))]) == {"b": 1}
    assert lost_with_host([journal(start("b")), journal(start("b"), start("c"))]) == {"b": 2, "c": 1}
    # It came to an end at some time; its worker alone went; the run was ended; its end may be damaged.
    assert lost_with_host([journal(start("a")), journal(start("a"), end)]) == {}
    for last in (
        events.WorkerLost(id="b"), events.WorkerLost(), events.NotRun(ids=["b"]),
        events.ShardEnd(status="interrupted"),
    ):  # fmt: skip
        assert lost_with_host([journal(start("b"), last)]) == {}
    assert lost_with_host([journal(start("b"), damaged=1)]) == {}


def test_what_runs_in_order_is_not_run_apart() -> None:
    assert apart_from_chains(plan_of((1, 2)), set(IDS)) == [
        (name, "test_x.py", 0, 1) for name in (IDS[0], IDS[3], IDS[4])
    ]
    assert apart_from_chains(plan_of(), {IDS[1]}) == [(IDS[1], "test_x.py", 0, 1)]


def run_until(folder: Path, plan: Plan, attempt: int, name: str) -> None:
    writer = JournalWriter(journal_path(folder, 0, attempt), lambda: float(attempt))
    writer.write(events.ShardStart(shard=0, attempt=attempt, fingerprint=plan.fingerprint, boot=str(attempt)))
    writer.write(events.Start(id=name))
    writer.close()


def test_a_test_that_took_two_pods_down_has_failed_and_is_not_run_again(tmp_path: Path) -> None:
    plan = plan_of()

    def written_off() -> list[str]:
        return write_off(tmp_path, plan, read_journals(tmp_path), boot="3", host="here", clock=lambda: 3.0)

    run_until(tmp_path, plan, 1, IDS[1])
    assert written_off() == []
    run_until(tmp_path, plan, 2, IDS[1])
    assert written_off() == [IDS[1]]
    assert written_off() == []
    journals = read_journals(tmp_path)
    found = {one.id: one for one in reconcile(plan, journals).results}
    assert found[IDS[1]].verdict is Verdict.FAILED
    assert found[IDS[1]].cause == "exit"
    assert "its container went down with everything in it 2 times while it ran" in found[IDS[1]].message
    assert found[IDS[0]].verdict is Verdict.NOT_RUN
    assert pending_retries(journals, 5) == []
    assert wants_control(found.values()) == []
