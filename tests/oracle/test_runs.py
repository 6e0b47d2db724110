"""Runs of real tests: faults cost one test each, the account adds up by id, and what was cut off goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.oracle.conftest import TREE, Desk, make_desk
from tests.oracle.run_files import Json, planned

pytestmark = pytest.mark.gate

# Generous: a busy machine is slow, not wrong.
PATIENCE_S = 120
FAULTS, OUTCOMES, OWN = (
    "test_process_faults.py::TestFaults::test_",
    "test_outcomes.py::TestOutcomes::test_",
    "test_own.py::TestOwn::test_",
)
OWN_TESTS = """
import os, pathlib, unittest
import pytest

NOTES = pathlib.Path(os.environ["NOTES"])


def first_time(name):
    try:
        (NOTES / name).mkdir()
    except FileExistsError:
        return False
    return True


class TestOwn(unittest.TestCase):
    def test_fails_once(self):
        self.assertFalse(first_time("fails"), "only once")

    def test_crashes_once(self):
        if first_time("crashes"):
            os.abort()


@pytest.mark.xfail(strict=False, reason="declared")
def test_xpasses():
    pass
"""
# Of each test its verdict, its cause and how often it ran: what is bad is tried once more.
EXPECTED: dict[str, tuple[str, str | None, int]] = {
    **{
        f"{FAULTS}{name}": ("passed", None, 1)
        for name in (
            "a_passes", "c_passes", "h_closes_its_output", "i_changes_folder", "j_leaves_a_child", "l_passes",
            "r_forks_and_comes_back_twice", "s_leaves_a_daemon", "v_passes",
        )
    },
    **{
        f"{FAULTS}{name}": ("failed", "signal", 2)
        for name in ("b_segfault", "d_abort", "f_killed", "o_dies_by_a_signal_without_a_name")
    },
    **{f"{FAULTS}{name}": ("failed", "exit", 2) for name in ("e_exit_zero", "u_closes_every_file")},
    **{f"{FAULTS}{name}": ("failed", "hang", 2) for name in ("g_hang", "t_holds_the_interpreter")},
    **{
        f"{FAULTS}{name}": ("failed", None, 2)
        for name in ("k_sys_exit", "p_raises_what_ctrl_c_raises", "q_ends_the_session")
    },
    **{
        f"{OUTCOMES}{name}": ("failed", None, 2)
        for name in ("fails", "errors", "subtests", "unexpectedly_passes")
    },
    f"{OUTCOMES}passes": ("passed", None, 1),
    f"{OUTCOMES}skips": ("skipped", None, 1),
    f"{OUTCOMES}xfails": ("xfailed", None, 1),
    "test_outcomes.py::test_function[left=1,right=2]": ("passed", None, 1),
    "test_outcomes.py::test_function[left=3,right=4]": ("passed", None, 1),
    f"{OWN}fails_once": ("flaky", None, 2),
    f"{OWN}crashes_once": ("flaky", "signal", 2),
    "test_own.py::test_xpasses": ("xpassed", None, 1),
}  # fmt: skip


def results_of(desk: Desk, run: Path) -> dict[str, Json]:
    """The verdicts of a run, which add up to its plan by id in every file (law 1)."""
    head, *rows = desk.read(run / "results.jsonl.gz")
    ids = planned(desk.read(run / "plan.json"))
    assert head["planned"] == len(rows) == len(ids) == len(set(ids))
    found = {one["id"]: one for one in rows}
    assert sorted(found) == sorted(ids)
    summary = desk.read(run / "summary.json")
    verdicts = [one["verdict"] for one in rows]
    assert summary["verdicts"] == {name: verdicts.count(name) for name in summary["verdicts"]}
    assert sum(summary["verdicts"].values()) == summary["planned"] == len(ids)
    cases = [case for path in (run / "junit").glob("*.xml") for case in ET.parse(path).iter("testcase")]  # noqa: S314  # our own file
    told = [one.get("value") for case in cases for one in case.iter("property") if one.get("name") == "id"]
    assert sorted(map(str, told)) == sorted(ids)
    return found


def verdicts_of(desk: Desk, run: Path) -> dict[str, str]:
    return {name: one["verdict"] for name, one in results_of(desk, run).items()}


def wait_for(true: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > until:
            pytest.fail(f"it did not come about in {PATIENCE_S} s: {what}")
        time.sleep(0.05)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, int]:
    """A desk with one run of every fault there is, and what it ended with."""
    base = tmp_path_factory.mktemp("faulty")
    desk = make_desk(base, stand_in=True)
    tree = Path(shutil.copytree(TREE, base / "pytorch"))
    (tree / "test" / "test_own.py").write_text(OWN_TESTS)
    (base / "notes").mkdir()
    said = desk.call(
        "pytorch", "--pytorch-src", tree, "--percent", "100", "--cards", "2", "--retries", "1", "--json",
        "--files", "test_outcomes.py,test_process_faults.py,test_own.py,test_import_*.py",
        "-k", "not late and not its_time and not deletes and not parallel",
        code=None,
        NOTES=str(base / "notes"), STRAY_FILE=str(base / "strays"),
        SPYRE_CI__RUN__TEST_TIMEOUT_S="2", SPYRE_CI__COLLECT__FILE_TIMEOUT_S="4",
    )  # fmt: skip
    assert said.json == desk.read(desk.runs()[0] / "summary.json")
    return desk, said.code


def test_every_fault_costs_its_own_test_and_is_told_as_what_it_was(faulty: tuple[Desk, int]) -> None:
    """Laws 1, 4 and 5."""
    desk, _ = faulty
    found = results_of(desk, desk.runs()[0])
    assert {
        name: (one["verdict"], one.get("cause"), one["attempts"]) for name, one in found.items()
    } == EXPECTED
    for name, said in (("b_segfault", "SIGSEGV"), ("f_killed", "SIGKILL"), ("g_hang", "longer than 2 s")):
        assert said in found[f"{FAULTS}{name}"]["message"]
    assert "last words" in found[f"{FAULTS}b_segfault"]["detail"]
    assert found[f"{OUTCOMES}skips"]["message"] == "not today"
    assert {one["card"] for one in found.values()} == {"cpu:0", "cpu:1"}
    strays = (desk.folder.parent / "strays").read_text().split()
    assert strays
    assert not [pid for pid in strays if Path("/proc", pid).exists()]


def test_files_that_cannot_be_collected_redden_the_run(faulty: tuple[Desk, int]) -> None:
    desk, code = faulty
    (run,) = desk.runs()
    summary = desk.read(run / "summary.json")
    assert (code, summary["exit_code"]) == (3, 3)
    errors = {one["file"]: one["error"] for one in summary["collect_errors"]}
    assert set(errors) == {"test_import_error.py", "test_import_crash.py", "test_import_hang.py"}
    assert "no_such_name_in_torch" in errors["test_import_error.py"]
    assert "SIGSEGV" in errors["test_import_crash.py"]
    assert desk.call("report", run.name, code=3).code == 3
    # Where such files may be, what failed is left.
    assert desk.call("report", run.name, "--allow-collect-errors", code=1).code == 1


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A control group that may use little memory."""
    base = Path("/sys/fs/cgroup")
    second = (base / "cgroup.controllers").is_file()
    folder = base / ("" if second else "memory") / f"spyre-ci-oracle-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.max" if second else "memory.limit_in_bytes")).write_text(str(700 << 20))
    except OSError as error:
        pytest.skip(f"no control group with a limit of memory is to be had: {error}")
    yield folder
    folder.rmdir()


MEMORY = """
import unittest


class TestMemory(unittest.TestCase):
    def test_a_passes(self):
        pass

    def test_b_takes_all(self):
        kept = []
        while True:
            kept.append(bytearray(b"x") * (64 << 20))

    def test_c_passes(self):
        pass
"""


def test_a_test_that_takes_all_memory_is_told_so(quick_desk: Desk, tree: Path, cgroup: Path) -> None:
    (tree / "test" / "test_memory.py").write_text(MEMORY)
    words = ("--pytorch-src", tree, "--percent", "100", "--files", "test_memory.py", "--retries", "0")
    with quick_desk.start("pytorch", *words, "--cards", "1") as process:
        # Before it has begun anything: what it begins is in the group as well.
        (cgroup / "cgroup.procs").write_text(str(process.pid))
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    found = results_of(quick_desk, quick_desk.runs()[0])
    name = "test_memory.py::TestMemory::test_"
    assert {one.removeprefix(name): (row["verdict"], row.get("cause")) for one, row in found.items()} == {
        "a_passes": ("passed", None), "b_takes_all": ("failed", "oom"), "c_passes": ("passed", None),
    }  # fmt: skip


WAITS = "test_waits.py::TestWaits::test_"
WAITING = """
import os, pathlib, time, unittest

NOTES = pathlib.Path(os.environ["NOTES"])


class TestWaits(unittest.TestCase):
    def setUp(self):
        with (NOTES / self._testMethodName).open("a") as stream:
            stream.write(f"{os.getpid()}\\n")

    def test_a_passes(self):
        pass

    def test_b_fails(self):
        self.fail("as it should")

    def test_c_waits(self):
        while not (NOTES / "go").exists():
            time.sleep(0.05)

    def test_d_passes(self):
        pass

    def test_e_passes(self):
        pass
"""
WHOLE = {
    f"{WAITS}{name}": verdict
    for name, verdict in {
        "a_passes": "passed", "b_fails": "failed", "c_waits": "passed", "d_passes": "passed",
        "e_passes": "passed",
    }.items()
}  # fmt: skip


class Waiting:
    """A desk with a tree whose third test waits until it may go on."""

    def __init__(self, desk: Desk, tree: Path) -> None:
        self.desk, self.notes = desk, desk.folder / "notes"
        self.notes.mkdir()
        desk.environ["NOTES"] = str(self.notes)
        (tree / "test" / "test_waits.py").write_text(WAITING)
        self.words = (
            "pytorch", "--pytorch-src", str(tree), "--files", "test_waits.py", "--percent", "100",
            "--cards", "1", "--retries", "0",
        )  # fmt: skip

    @contextlib.contextmanager
    def begun(self) -> Iterator[subprocess.Popen[str]]:
        """The run, once the third test waits."""
        with self.desk.start(*self.words) as process:
            try:
                wait_for(lambda: bool(self.pids("c_waits")) or process.poll() is not None, "the third test")
                yield process
            finally:
                process.kill()

    def pids(self, name: str) -> list[int]:
        """The process of each time that a test ran."""
        path = self.notes / f"test_{name}"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def ran(self) -> dict[str, int]:
        return {name: len(self.pids(name.removeprefix(WAITS))) for name in WHOLE}

    def resume(self, code: int) -> str:
        (self.notes / "go").touch()
        return self.desk.call("pytorch", "--resume", "latest", code=code).out


@pytest.fixture
def waiting(quick_desk: Desk, tree: Path) -> Waiting:
    return Waiting(quick_desk, tree)


def test_an_interrupted_run_has_its_account_and_goes_on(waiting: Waiting) -> None:
    with waiting.begun() as process:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "--resume" in out
    (run,) = waiting.desk.runs()
    not_run = {f"{WAITS}{name}": "not_run" for name in ("c_waits", "d_passes", "e_passes")}
    assert verdicts_of(waiting.desk, run) == {**WHOLE, **not_run}
    assert waiting.desk.read(run / "summary.json")["exit_code"] == 130
    waiting.resume(code=1)
    assert verdicts_of(waiting.desk, run) == WHOLE
    assert waiting.ran() == {**dict.fromkeys(WHOLE, 1), f"{WAITS}c_waits": 2}


def test_a_run_that_was_killed_goes_on_and_nothing_that_had_a_verdict_runs_twice(waiting: Waiting) -> None:
    with waiting.begun() as process:
        # While it runs, nobody else resumes it.
        waiting.desk.call("pytorch", "--resume", "latest", code=2)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    (worker,) = waiting.pids("c_waits")
    wait_for(lambda: not Path("/proc", str(worker)).exists(), "the end of its worker")
    waiting.resume(code=1)
    (run,) = waiting.desk.runs()
    found = results_of(waiting.desk, run)
    assert {name: one["verdict"] for name, one in found.items()} == WHOLE
    assert waiting.ran() == {**dict.fromkeys(WHOLE, 1), f"{WAITS}c_waits": 2}
    assert found[f"{WAITS}c_waits"]["attempts"] == 2
    before = (run / "results.jsonl.gz").read_bytes()
    waiting.resume(code=1)
    assert (run / "results.jsonl.gz").read_bytes() == before
    assert waiting.ran()[f"{WAITS}c_waits"] == 2


def test_a_worker_that_is_lost_from_outside_costs_the_test_it_ran(waiting: Waiting) -> None:
    with waiting.begun() as process:
        (run,) = waiting.desk.runs()
        first = (run / "journal" / "0-1.jsonl").read_text().splitlines()[0]
        os.kill(json.loads(first)["pid"], signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert verdicts_of(waiting.desk, run) == {**WHOLE, f"{WAITS}c_waits": "infrastructure"}


def test_shards_run_apart_are_one_report_and_a_missing_one_is_named(quick_desk: Desk, tree: Path) -> None:
    desk, run = quick_desk, quick_desk.folder / "runs" / "split"
    here = ("--run-dir", run)
    desk.call("collect", *here, "--pytorch-src", tree, "--files", "test_outcomes.py,sub/*")
    desk.call("select", *here, "--percent", "100")
    desk.call("plan", *here, "--shards", "3")
    codes = [desk.call("run", *here, "--shard", "0", "--retries", "0", code=None).code]
    desk.call("report", *here, code=3)
    summary = desk.read(run / "summary.json")
    assert summary["missing_shards"] == [1, 2]
    lost = {name for name, verdict in verdicts_of(desk, run).items() if verdict == "not_run"}
    shards = desk.read(run / "plan.json")["shards"]
    assert lost == set(planned({"shards": shards[1:]})) != set()
    for shard in ("1", "2"):
        folder = desk.folder / f"host{shard}"
        folder.mkdir()
        shutil.copy(run / "plan.json", folder)
        words = ("--plan", folder / "plan.json", "--shard", shard, "--pytorch-src", tree, "--retries", "0")
        codes.append(desk.call("run", *words, code=None).code)
        desk.call("report", *here, code=3)
        for journal in (folder / "journal").iterdir():
            shutil.copy(journal, run / "journal")
    assert set(codes) <= {0, 1}
    desk.call("report", *here, code=1)
    names = {name: one for name, one in EXPECTED.items() if name.startswith("test_outcomes.py")}
    found = verdicts_of(desk, run)
    assert {name: found.pop(name) for name in names} == {
        name: verdict for name, (verdict, _, _) in names.items()
    }
    assert set(found.values()) == {"passed"}


def test_nothing_to_run_and_wrong_words_are_told_by_their_codes(quick_desk: Desk, tree: Path) -> None:
    source = ("pytorch", "--pytorch-src", tree, "--percent", "100", "--files", "sub/*")
    for words, code in (
        ((*source, "-k", "nothing_like_it"), 3),
        ((*source, "-k", "and and"), 2),
        ((*source, "--files", "test_nowhere.py"), 2),
        ((*source, "--stage", "1"), 2),
        (("pytorch", "--last-failed", "nowhere"), 2),
        (("pytorch", "--stage", "0"), 0),
    ):
        said = quick_desk.call(*words, code=code)
        assert code != 2 or "remedy: " in said.err
    quick_desk.call(*source, "--dry-run")
    assert not (quick_desk.runs()[-1] / "journal").exists()
