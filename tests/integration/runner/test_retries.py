"""A failed test is run again, alone, on another card; a card with nothing left helps another."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ci.record.journal import read_journals
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.reconcile import reconcile
from ci.runner.inventory import EMULATED_VARIABLE, Card
from ci.runner.pool import CardPool
from ci.runner.resume import pending_retries
from test_selection.plan import Plan
from tests.journal_rows import rows_of

from .small_runs import Runner, make_plan

pytestmark = pytest.mark.gate

OUTCOMES = "test_outcomes.py::TestOutcomes::test_"
RETRIES = "test_retries.py::TestRetries::test_"
SLOW = [f"test_retries.py::TestSlow::test_{number}" for number in range(12)]


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tests note how often they ran."""
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("RUN_NOTES", str(folder))
    return folder


def results(runner: Runner, plan: Plan) -> dict[str, Result]:
    return {one.id: one for one in reconcile(plan, read_journals(runner.run_dir)).results}


def test_a_failed_test_runs_again_on_another_card_and_keeps_its_first_failure(runner: Runner) -> None:
    ids = [f"{RETRIES}{name}" for name in ("fails_once", "crashes_once", "always_fails", "passes")]
    plan = make_plan({"test_retries.py": ids}, {"test_outcomes.py": [f"{OUTCOMES}passes"]})
    runner.run(plan, cards=2, device="spyre", static=False, retries=1)
    found = results(runner, plan)
    assert {name.removeprefix(RETRIES): found[name].verdict for name in ids} == {
        "fails_once": Verdict.FLAKY, "crashes_once": Verdict.FLAKY,
        "always_fails": Verdict.FAILED, "passes": Verdict.PASSED,
    }  # fmt: skip
    assert [found[name].attempts for name in ids] == [2, 2, 2, 1]
    assert "the first time" in found[ids[0]].message
    assert "died by SIGABRT" in found[ids[1]].message
    assert all(f"run {number}" in found[ids[2]].message for number in (1, 2))
    cards: dict[str, list[str]] = {}
    for journal in read_journals(runner.run_dir):
        first, *others = rows_of(journal.events)
        for event in others:
            if event["e"] == "start":
                cards.setdefault(event["id"], []).append(first["card"])
    assert all(len(set(cards[name])) == 2 for name in ids[:3])


def test_with_one_card_a_failed_test_stays_failed_and_why_is_told(runner: Runner) -> None:
    ids = [f"{RETRIES}fails_once", f"{RETRIES}passes"]
    plan = make_plan({"test_retries.py": ids})
    runner.run(plan, device="spyre", static=False, retries=1)
    assert results(runner, plan)[ids[0]].verdict is Verdict.FAILED
    assert runner.named("no_retry")[0]["ids"] == [ids[0]]
    assert "no other card" in runner.named("no_retry")[0]["message"]


def test_the_other_card_may_be_one_that_the_run_has_not_had_yet(runner: Runner) -> None:
    ids = [f"{RETRIES}fails_once", f"{RETRIES}passes"]
    plan = make_plan({"test_retries.py": ids})
    names = ("emulated:0", "emulated:1")
    pool = CardPool([Card(name=name, environment={EMULATED_VARIABLE: name}) for name in names], wanted=1)
    runner.run(plan, pool=pool, device="spyre", static=False, retries=1)
    found = results(runner, plan)[ids[0]]
    assert (found.verdict, found.attempts) == (Verdict.FLAKY, 2)
    assert [event["card"] for event in runner.named("shard_start")] == list(names)
    assert runner.named("no_retry") == []


CHANGES = """
import pathlib, unittest

class TestOnce(unittest.TestCase):
    def test_changes(self):
        path = pathlib.Path(__file__)
        path.write_text(path.read_text().replace({!r}, {!r}))
        self.fail("boom")
"""


def test_a_retry_that_cannot_be_made_says_why_and_is_owed_no_more(runner: Runner) -> None:
    changes = {
        "test_renamed.py": ("test_changes", "test_renamed"),
        "test_broken.py": ("import pathlib", "import nothing_of_the_name"),
    }
    for file, change in changes.items():
        (runner.tree / "test" / file).write_text(CHANGES.format(*change), encoding="utf-8")
    plan = make_plan({file: [f"{file}::TestOnce::test_changes"] for file in changes})
    runner.run(plan, retries=1)
    gone, broken = results(runner, plan).values()
    assert {(one.verdict, one.attempts) for one in (gone, broken)} == {(Verdict.FAILED, 1)}
    assert gone.message.endswith("; not run again: the file no longer has this test; collect again")
    assert broken.message.endswith(
        "; not run again: ModuleNotFoundError: No module named 'nothing_of_the_name'"
    )
    assert pending_retries(read_journals(runner.run_dir), 1) == []


def test_a_test_that_follows_others_is_not_run_again_alone(runner: Runner) -> None:
    ids = [f"{RETRIES}{name}" for name in ("passes", "always_fails", "fails_once")]
    plan = make_plan({"test_retries.py": ids})
    shard = plan.shards[0]
    plan = replace(plan, shards=(replace(shard, groups=(replace(shard.groups[0], chains=((0, 2),)),)),))
    runner.run(plan, cards=2, device="spyre", static=False, retries=1)
    found = results(runner, plan)
    assert [found[name].verdict for name in ids] == [Verdict.PASSED, Verdict.FAILED, Verdict.FLAKY]
    (told,) = runner.named("no_retry")
    assert told["ids"] == [ids[1]]
    assert "in_order" in told["message"]


def test_a_test_that_follows_one_that_crashed_says_so_where_it_fails(runner: Runner) -> None:
    ids = [f"{RETRIES}{name}" for name in ("crashes_once", "passes", "always_fails")]
    plan = make_plan({"test_retries.py": ids})
    shard = plan.shards[0]
    plan = replace(plan, shards=(replace(shard, groups=(replace(shard.groups[0], chains=((0, 3),)),)),))
    runner.run(plan, cards=2, device="spyre", static=False, retries=1)
    found = results(runner, plan)
    assert [found[name].verdict for name in ids] == [Verdict.FLAKY, Verdict.PASSED, Verdict.FAILED]
    assert f"it ran in a new process, since {ids[0]} before it had ended theirs" in found[ids[2]].message


@pytest.mark.parametrize("static", [True, False])
def test_a_card_whose_workers_are_lost_leaves_its_shard_to_another(runner: Runner, static: bool) -> None:
    costly = [f"test_costly.py::TestCostly::test_{number}" for number in range(4)]
    plan = make_plan({"test_costly.py": costly}, {"test_outcomes.py": [f"{OUTCOMES}passes"]})
    runner.run(plan, cards=2, device="spyre", static=static, restarts=0)
    found = results(runner, plan)
    assert [found[name].verdict for name in costly[:1]] == [Verdict.INFRASTRUCTURE]
    assert found[f"{OUTCOMES}passes"].verdict is Verdict.PASSED
    # The shard had a second card, on which its second test cost the worker again; then it was given up.
    tried = {event["id"] for event in runner.named("start")}
    assert set(costly[:2]) <= tried


def test_a_worker_that_a_test_terminates_costs_that_test_and_interrupts_nothing(runner: Runner) -> None:
    names = [f"test_costly.py::TestTerminates::test_{number:02}" for number in range(16)]
    plan = make_plan({"test_costly.py": names})
    assert runner.run(plan, restarts=1) is False
    account = reconcile(plan, read_journals(runner.run_dir))
    assert account.interrupted is False
    assert [one.verdict for one in account.results] == [Verdict.INFRASTRUCTURE] + 15 * [Verdict.PASSED]
    assert account.results[0].message == "the worker on cpu:0 died by SIGTERM"
    # Its test may pass on another card: that a worker was lost is told all the same.
    passed = tuple(replace(one, verdict=Verdict.PASSED) for one in account.results)
    assert replace(account, results=passed).holes == ("1 worker lost",)


def test_journals_that_a_test_deletes_are_there_when_the_run_is_over(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_FOLDER", str(runner.run_dir))
    ids = [f"{OUTCOMES}passes", f"{OUTCOMES}fails"]
    deletes = "test_costly.py::TestOnce::test_deletes_every_journal"
    plan = make_plan({"test_outcomes.py": ids}, {"test_costly.py": [deletes]})
    runner.run(plan, cards=1)
    assert [results(runner, plan)[name].verdict for name in plan.ids] == [
        Verdict.PASSED, Verdict.FAILED, Verdict.PASSED,
    ]  # fmt: skip


def test_a_lost_worker_costs_its_test_alone_where_its_journal_was_deleted_before(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_FOLDER", str(runner.run_dir))
    names = ("0", "1_deletes_the_journals", "2_costs_its_worker", "3")
    plan = make_plan(
        {"test_costly.py": [f"test_costly.py::TestDeletesThenCosts::test_{name}" for name in names]}
    )
    runner.run(plan, restarts=1)
    found = results(runner, plan)
    assert [(found[name].verdict, found[name].attempts) for name in plan.ids] == [
        (Verdict.PASSED, 1), (Verdict.PASSED, 1), (Verdict.INFRASTRUCTURE, 1), (Verdict.PASSED, 1),
    ]  # fmt: skip


def test_a_wide_test_is_not_tried_for_ever_where_no_worker_lives(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of the second pair of cards die before they say a word."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif os.environ.get('SPYRE_CI_CARD', '').startswith('emulated:2'):\n    os._exit(9)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(runner, "path", f"{tmp_path}:{runner.path}")
    ids = [f"{RETRIES}always_fails"]
    plan = make_plan({"test_retries.py": ids})
    plan = replace(plan, shards=(replace(plan.shards[0], cards=2),))
    names = [f"emulated:{number}" for number in range(4)]
    pool = CardPool([Card(name=name, environment={EMULATED_VARIABLE: name}) for name in names])
    runner.run(plan, pool=pool, device="spyre", static=False, retries=1, restarts=1)
    found = results(runner, plan)[ids[0]]
    assert (found.verdict, found.attempts) == (Verdict.FAILED, 1)
    assert len(runner.named("worker_lost")) == 2
    assert "no other card" in runner.named("no_retry")[0]["message"]


def test_what_a_test_leaves_behind_is_told_of_it_and_of_no_other(runner: Runner) -> None:
    names = ("a_leaves_a_process", "b_leaves_a_thread", "c_leaves_nothing")
    ids = [f"test_costly.py::TestLeaks::test_{name}" for name in names]
    plan = make_plan({"test_costly.py": ids}, {"test_outcomes.py": [f"{OUTCOMES}passes"]})
    runner.run(plan, setup_timeout_s=3)  # a thread keeps its process from ending
    found = results(runner, plan)
    assert {one.verdict for one in found.values()} == {Verdict.PASSED}
    first, second, third = (found[name].leak for name in ids)
    assert re.fullmatch(r"process \d+ \(.+\)", first)
    assert second == "thread 'left'"
    assert third == found[f"{OUTCOMES}passes"].leak == ""


def test_a_card_with_nothing_left_helps_another(runner: Runner) -> None:
    plan = make_plan({"test_retries.py": SLOW}, {"test_retries.py": [f"{RETRIES}passes"]})
    runner.run(plan, cards=2, static=False, durations=dict.fromkeys(SLOW, 1.0))
    assert set(runner.outcomes().values()) == {"passed"}
    ran = Counter(
        journal.shard
        for journal in read_journals(runner.run_dir)
        for event in rows_of(journal.events)
        if event["e"] == "end"
    )
    assert ran[1] >= 4
    stolen = [event for event in runner.named("piece") if event["why"] == "stolen"]
    # The one test of the other may be stolen too, by whoever has the file set up first.
    assert 0 in {event["of"] for event in stolen}


def test_a_static_run_leaves_every_test_on_its_shard(runner: Runner) -> None:
    plan = make_plan({"test_retries.py": SLOW[:4]}, {"test_retries.py": [f"{RETRIES}passes"]})
    runner.run(plan, cards=2, static=True, durations=dict.fromkeys(SLOW, 1.0))
    for journal in read_journals(runner.run_dir):
        ids = {event["id"] for event in rows_of(journal.events) if event["e"] == "end"}
        assert ids == set(plan.shards[journal.shard].ids)


def test_more_shards_than_cards_are_run_one_after_another(runner: Runner) -> None:
    shards = [
        {"test_outcomes.py": [f"test_outcomes.py::TestOutcomes::test_{name}"]}
        for name in ("passes", "fails", "skips")
    ]
    shards.append({"test_devices.py": ["test_devices.py::TestFirst::test_plain"]})
    for static in (True, False):
        runner.run_dir = runner.run_dir.parent / f"run-{static}"
        runner.run(make_plan(*shards), cards=1, static=static)
        assert sorted(runner.outcomes().values()) == ["failed", "passed", "passed", "skipped"]
        assert len({event["pid"] for event in runner.named("shard_start")}) == 1
