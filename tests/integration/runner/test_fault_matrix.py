"""The fault matrix: whatever a test does to its process costs that test, and every other has its verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.record.journal import read_journals
from ci.record.verdict import Verdict
from ci.report.reconcile import reconcile
from test_selection.plan import Plan

from .small_runs import Runner, make_plan

pytestmark = pytest.mark.gate

MATRIX = "test_fault_matrix.py::TestFaultMatrix::test_"
CGROUPS = Path("/sys/fs/cgroup")
MEMORY_LIMIT = 2 << 30
# What each test does to its process, its verdict, and a part of the message.
FAULTS = {
    "abort": (Verdict.FAILED, "died by SIGABRT"),
    "changes_folder": (Verdict.PASSED, ""),
    "closes_its_output": (Verdict.PASSED, ""),
    "deletes_results": (Verdict.PASSED, ""),
    "exit_zero": (Verdict.FAILED, "ended its process with exit code 0"),
    "fails": (Verdict.FAILED, "as it should"),
    "flood": (Verdict.PASSED, ""),
    "keeps_the_pipe": (Verdict.PASSED, ""),
    "killed": (Verdict.FAILED, "died by SIGKILL"),
    "loops_in_c": (Verdict.FAILED, "took longer than 8 s and was ended"),
    "loops_in_python": (Verdict.FAILED, "took longer than 8 s and was ended"),
    "passes_first": (Verdict.PASSED, ""),
    "passes_last": (Verdict.PASSED, ""),
    "segfault": (Verdict.FAILED, "died by SIGSEGV"),
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
    for name in ("loops_in_c", "loops_in_python"):
        assert f"in test_{name}" in found[f"{MATRIX}{name}"].detail
    assert sum(path.stat().st_size for path in (runner.run_dir / "logs").iterdir()) < 200 << 20


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A control group that may use little memory."""
    version2 = (CGROUPS / "cgroup.controllers").is_file()
    folder = CGROUPS / ("" if version2 else "memory") / f"spyre-ci-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.max" if version2 else "memory.limit_in_bytes")).write_text(str(MEMORY_LIMIT))
    except OSError as error:
        pytest.skip(f"no control group with a limit of memory is to be had: {error}")
    yield folder
    folder.rmdir()


def test_a_test_that_takes_all_memory_is_told_from_one_that_was_killed(runner: Runner, cgroup: Path) -> None:
    ids = [f"{MATRIX}{name}" for name in ("passes_first", "out_of_memory", "killed", "passes_last")]
    # The supervisor is part of the group, as in a container; the kernel ends the one that takes most.
    script = (
        f"import os; open({str(cgroup / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        "import sys; from pathlib import Path\n"
        "from tests.integration.runner.small_runs import Runner, make_plan\n"
        "runner = Runner(Path(sys.argv[1]))\n"
        "runner.run(make_plan({'test_fault_matrix.py': sys.argv[2:]}), device='spyre')\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(runner.tree), *ids],
        env={**os.environ, "PYTHONPATH": runner.path},
        timeout=120,
        check=True,
    )
    plan = make_plan({"test_fault_matrix.py": ids})
    found = {one.id: one for one in reconcile(plan, read_journals(runner.run_dir)).results}
    assert [found[name].verdict for name in ids] == [
        Verdict.PASSED, Verdict.FAILED, Verdict.FAILED, Verdict.PASSED,
    ]  # fmt: skip
    assert found[ids[1]].message == "ended by the out-of-memory killer"
    assert found[ids[2]].message == "died by SIGKILL"
