"""The benchmarks work at all: quick mode, as a process of its own. No time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parent.parent.parent
BENCH = ROOT / "tests" / "benchmarks" / "bench.py"


def bench(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    dropped = {"SPYRE_CI_BENCH_CLASS_SECONDS", "PYTORCH_TREE"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return subprocess.run(
        [sys.executable, str(BENCH), "--quick", "--rounds", "1", *words],
        env={**kept, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


def test_the_quick_benchmark_measures_everything_of_the_planner(tmp_path: Path) -> None:
    times = {"conf": {f"test_{n}": {"TestA": 20.0 * n, "TestB": 3.0} for n in range(1, 9)}}
    path = tmp_path / "times.json"
    path.write_text(json.dumps(times), encoding="utf-8")
    found = json.loads(bench("--only", "planner", "--json", "--class-seconds", str(path)).stdout)["planner"]
    assert {row["input"] for row in found["packing"]} == {
        "conf",
        "heavy tail, 3,000 tests",
        "no test binds, 3,000 tests",
    }
    for row in found["packing"]:
        assert row["over_bound"]["spyre-ci"] >= 1 - 1e-9
        # No peer beats the bound: what is compared is the same thing.
        assert min(row["over_bound"].values()) >= 1 - 1e-9
    assert found["days"]
    assert found["size"]


def test_the_planners_tables_say_what_was_skipped() -> None:
    said = bench("--only", "planner").stdout
    assert "skipped: PyTorch's class times" in said
    assert "makespan with set-ups over the lower bound" in said
    assert "days on paper" in said


@pytest.mark.usefixtures("torch_installed")
def test_trivial_tests_are_run_by_the_runner_and_by_pytest_and_a_tree_is_asked_for() -> None:
    found = json.loads(bench("--only", "trivial", "--only", "runner", "--json").stdout)
    assert found["skipped"] == ["runner: PYTORCH_TREE names no PyTorch tree"]
    assert found["trivial"]["tests"] == 100
    assert list(found["trivial"]["walls_s"]) == [
        "spyre-ci run, 2 workers",
        "pytest",
        "pytest -n 2",
        "spyre-ci pytorch, 2 workers",
    ]
    assert all(len(row) == 1 and row[0] > 0 for row in found["trivial"]["walls_s"].values())
    assert found["trivial"]["peak_mib"] is None or found["trivial"]["peak_mib"] > 10


def test_the_runner_is_measured_on_a_tree_with_its_set_ups_and_journals(tree: Path) -> None:
    files = "test_outcomes.py,sub/test_nested.py"
    words = ["--only", "journal", "--only", "runner", "--files", files, "--percent", "100"]
    said = bench(*words, PYTORCH_TREE=str(tree)).stdout
    assert "10 tests of 2 files on 2 workers" in said
    assert "pytest -n 2, one thread" in said
    assert "set-up of a file, seconds" in said
    assert "sub/test_nested.py" in said
    # Two lines a test, and each file's and shard's own.
    events = int(said.partition("journals: ")[2].partition(" ")[0])
    assert events > 20


def test_a_file_that_is_not_there_says_so() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        bench("--only", "runner", "--files", "test_nowhere.py", PYTORCH_TREE=str(ROOT / "tests"))
    assert "ended with 2" in caught.value.stderr


def test_the_quick_benchmark_compares_two_runs() -> None:
    found = json.loads(bench("--only", "compare", "--json").stdout)["compare"]
    assert (found["code"], found["tests"], found["counted"]) == (0, 5_000, 5_000)
    assert found["mib"] > 0
    assert (found["slower"], found["faster"]) == (5, 0)


def test_the_quick_benchmark_collects_a_job() -> None:
    found = json.loads(bench("--only", "jobs", "--json").stdout)["jobs"]
    assert (found["pods"], found["tests"]) == (64, 6_000)
    assert found["collect"]["mib"] > 0
    assert found["collect"]["code"] == found["again"]["code"]


def test_two_checkouts_are_measured_in_turns_and_what_is_slower_is_marked(tmp_path: Path) -> None:
    for name, seconds in (("before", 2.0), ("now", 3.0)):
        (tmp_path / name).mkdir()
        document = json.dumps({"part": {"slow": seconds, "same": [1]}, name: 1, "ok": True})
        (tmp_path / name / "measure.py").write_text(f"print({document!r})", encoding="utf-8")
    words = [sys.executable, str(BENCH.with_name("beside.py")), "--turns", "3", "before", "now", "measure.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["2", "3", "1.50", "1.50", "slower", "part", "slow"],
        ["1", "1", "1.00", "1.00", "part", "same", "0"],
    ]
    assert done.stderr.splitlines()[-1] == "turn 3 of 3"
