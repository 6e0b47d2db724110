"""What a laptop with macOS needs neither card nor engine for, under its stand-in (tests/macos_stand_in)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.report.results import read_results
from ci.runner.orphans import end_orphans_of_run, find_orphans_of_run
from tests.integration.runner.small_runs import STAND_IN as TORCH

ROOT = Path(__file__).parent.parent.parent
STAND_IN = ROOT / "tests" / "macos_stand_in"
COMMAND = [sys.executable, "-P", "-m", "ci.cli"]
TIMEOUT_S = 240
MADE_BY_A_RUN = ("journal", "logs", "results*", "summary*", "junit", "report*", "outbox", ".*")
FAULTS = "test_process_faults.py::TestFaults::test_"


class Laptop:
    """A folder in which somebody uses spyre-ci on the small tree, on macOS or on Linux."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self.folder, self.tree = folder, tree
        folder.mkdir()
        self.strays = folder / "strays"

    def environ(self, system: str, **more: str) -> dict[str, str]:
        # No test of a run on the CPU uses torch.
        light = more.get("SPYRE_CI__DEVICE__NAME") == "cpu"
        path = [str(STAND_IN)] * (system == "macos") + [str(ROOT)] + [str(TORCH)] * light
        keep = {one: value for one, value in os.environ.items() if not one.startswith(("GITHUB_", "JENKINS"))}
        return {
            **keep,
            "PYTHONPATH": os.pathsep.join(path),
            "SPYRE_CI__REPORT__ENDPOINT": "none",
            "SPYRE_CI__COLLECT__CACHE": "false",
            "STRAY_FILE": str(self.strays),
            **more,
        }

    def start(self, system: str, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environ(system, **more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, system: str, *words: str, **more: str) -> tuple[int, str, str]:
        with self.start(system, *words, **more) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err

    @property
    def run(self) -> Path:
        (found,) = (self.folder / "runs").iterdir()
        return found

    def again(self, system: str, *words: str, **more: str) -> tuple[int, dict[str, tuple[str, str]]]:
        """Run the plan of the run once more, in a folder beside it: the exit code, and what each came to."""
        folder = self.folder / "-".join([system, *words]).replace("/", "")
        shutil.copytree(self.run, folder, ignore=shutil.ignore_patterns(*MADE_BY_A_RUN))
        code, _, err = self.call(system, "run", "--run-dir", str(folder), *words, **more)
        assert err == ""
        self.call(system, "report", "--run-dir", str(folder), **more)
        return code, results(folder)


def results(folder: Path) -> dict[str, tuple[str, str]]:
    found = list(read_results(folder / "results.jsonl.gz"))
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    planned = [one for shard in plan["shards"] for group in shard["groups"] for one in group["ids"]]
    assert sorted(result.id for result in found) == sorted(planned)
    return {result.id: (result.verdict, result.message) for result in found}


@pytest.fixture
def laptop(tmp_path: Path, tree: Path) -> Laptop:
    return Laptop(tmp_path / "laptop", tree)


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return False


def named(*names: str) -> list[str]:
    return [word for name in names for word in ("--id", f"{FAULTS}{name}")]


def test_what_crashes_and_leaves_processes_costs_itself(laptop: Laptop) -> None:
    more = ("--pytorch-src", str(laptop.tree), "--percent", "100", "--cards", "1")
    ids = named("a_passes", "b_segfault", "s_leaves_a_daemon")
    settings = {"SPYRE_CI__DEVICE__NAME": "cpu", "SPYRE_CI__RUN__RETRIES": "0"}
    code, out, err = laptop.call("macos", "pytorch", *more, *ids, **settings)
    assert (code, err) == (1, ""), out
    assert results(laptop.run) == {
        f"{FAULTS}a_passes": ("passed", ""),
        f"{FAULTS}b_segfault": ("failed", "died by SIGSEGV"),
        f"{FAULTS}s_leaves_a_daemon": ("passed", ""),
    }
    assert [pid for pid in laptop.strays.read_text(encoding="ascii").split() if alive(int(pid))] == []


@pytest.mark.nightly
def test_what_crashes_hangs_and_leaves_processes_costs_itself_and_ends_as_on_linux(laptop: Laptop) -> None:
    names = ("a_passes", "b_segfault", "c_passes", "g_hang", "s_leaves_a_daemon", "v_passes")
    ids = named(*names)
    settings = {
        "SPYRE_CI__DEVICE__NAME": "cpu",
        "SPYRE_CI__RUN__TEST_TIMEOUT_S": "3",
        "SPYRE_CI__RUN__RETRIES": "0",
    }
    more = ("--pytorch-src", str(laptop.tree), "--percent", "100", "--cards", "1")
    code, out, err = laptop.call("macos", "pytorch", *more, *ids, **settings)
    assert (code, err) == (1, ""), out
    there = results(laptop.run)
    assert {name: there[f"{FAULTS}{name}"] for name in names} == {
        "a_passes": ("passed", ""),
        "b_segfault": ("failed", "died by SIGSEGV"),
        "c_passes": ("passed", ""),
        "g_hang": ("failed", "took longer than 3 s and was ended"),
        "s_leaves_a_daemon": ("passed", ""),
        "v_passes": ("passed", ""),
    }
    assert "last words" in (laptop.run / "logs" / "0-1.log").read_text(encoding="utf-8")
    assert [pid for pid in laptop.strays.read_text(encoding="ascii").split() if alive(int(pid))] == []
    assert laptop.again("linux", "--cards", "1", **settings) == (code, there)


@contextlib.contextmanager
def hanging(laptop: Laptop) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run, and its journal, while a test hangs."""
    ids = named("a_passes", "g_hang")
    words = ("pytorch", "--pytorch-src", str(laptop.tree), "--percent", "100", "--cards", "1", *ids)
    with laptop.start("macos", *words, SPYRE_CI__DEVICE__NAME="cpu") as process:
        try:
            wait_for(
                lambda: any(
                    f'"e":"start","id":"{FAULTS}g_hang"' in path.read_text(encoding="utf-8").replace(" ", "")
                    for path in laptop.folder.glob("runs/*/journal/*.jsonl")
                ),
                "no test hangs",
            )
            yield process, next(laptop.folder.glob("runs/*/journal/*.jsonl"))
        finally:
            process.kill()
            for run in laptop.folder.glob("runs/*"):
                end_orphans_of_run(run)


def test_ctrl_c_ends_with_an_account_and_nothing_left(laptop: Laptop) -> None:
    with hanging(laptop) as (process, journal):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, err) == (130, "")
        assert "interrupted" in out
    verdicts = sorted(verdict for verdict, _ in results(laptop.run).values())
    assert verdicts == ["not_run", "passed"]
    assert find_orphans_of_run(journal.parent.parent) == []


@pytest.mark.nightly
def test_nothing_outlives_a_run_that_is_killed(laptop: Laptop) -> None:
    with hanging(laptop) as (process, journal):
        assert find_orphans_of_run(journal.parent.parent) != []
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
        wait_for(lambda: find_orphans_of_run(journal.parent.parent) == [], "something is left")


def test_who_asks_for_copies_is_told_what_to_do(laptop: Laptop) -> None:
    code, _, err = laptop.call("macos", "collect", SPYRE_CI__RUN__START_METHOD="fork")
    assert code == 2
    assert "run.start_method" in err
    assert "give spawn, or leave it at auto" in err


@pytest.mark.nightly
def test_a_share_of_the_op_suite_on_the_emulated_device_comes_to_the_same_by_copies_and_afresh(
    laptop: Laptop,
) -> None:
    code, out, err = laptop.call("macos", "pytorch", "--percent", "2", "--cards", "2")
    assert (code, err) == (0, ""), out
    there = results(laptop.run)
    assert len(there) > 100
    assert (laptop.run / "report.html").is_file()
    assert laptop.again("linux", "--cards", "2") == (code, there)
    assert laptop.again("linux", "--cards", "2", "--retries", "1", SPYRE_CI__RUN__START_METHOD="spawn") == (
        code,
        there,
    )
