"""What a test does to the disk or within C, with the device open, costs no other test its verdict."""

from __future__ import annotations

import pytest

from ci.record.journal import read_journals
from ci.record.verdict import Verdict
from ci.report.reconcile import reconcile
from test_selection.plan import Plan

from .small_runs import Runner, make_plan

pytestmark = pytest.mark.gate

MATRIX = "test_fault_matrix.py::TestFaultMatrix::test_"
# What each test does to its process, its verdict, and a part of the message.
FAULTS = {
    "deletes_results": (Verdict.PASSED, ""),
    "flood": (Verdict.PASSED, ""),
    "loops_in_c": (Verdict.FAILED, "took longer than 8 s and was ended"),
    "passes_last": (Verdict.PASSED, ""),
}
OTHERS = ["test_outcomes.py::TestOutcomes::test_passes", "test_devices.py::TestFirst::test_plain"]


def whole() -> Plan:
    """Every fault on one card, sound tests on another."""
    return make_plan(
        {"test_fault_matrix.py": [f"{MATRIX}{name}" for name in FAULTS]},
        {name.partition("::")[0]: [name] for name in OTHERS},
    )


def test_every_fault_costs_its_test_and_every_other_test_has_its_verdict(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_FOLDER", str(runner.run_dir))
    # What an earlier report of the run left.
    (runner.run_dir / "junit").mkdir(parents=True)
    for name in ("junit/0.xml", "results.jsonl.gz"):
        (runner.run_dir / name).write_bytes(b"")
    plan = whole()
    assert runner.run(plan, cards=2, device="spyre", test_timeout_s=8) is False
    results = reconcile(plan, read_journals(runner.run_dir)).results
    assert [one.id for one in results] == plan.ids
    found = {one.id: one for one in results}
    told = {name: (found[f"{MATRIX}{name}"].verdict, found[f"{MATRIX}{name}"].message) for name in FAULTS}
    assert {name: verdict for name, (verdict, _) in told.items()} == {
        name: verdict for name, (verdict, _) in FAULTS.items()
    }
    assert [name for name, (_, message) in FAULTS.items() if message not in told[name][1]] == []
    assert {found[name].verdict for name in OTHERS} == {Verdict.PASSED}
    assert {one.attempts for one in results} == {1}
    # A loop in C is told with its stacks as well, and a flood does not fill the disk.
    assert "in test_loops_in_c" in found[f"{MATRIX}loops_in_c"].detail
    assert sum(path.stat().st_size for path in (runner.run_dir / "logs").iterdir()) < 200 << 20
