"""Pruning with real processes: killed in the middle, interrupted, beside a run and beside another prune."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.retention_world import make_run, put

ROOT = Path(__file__).parent.parent.parent.parent
TIMEOUT_S = 120.0
# Slow enough to be met in the middle, on any machine: each deletion waits for a word.
SLOW = """
import pathlib, shutil, sys, time
real = shutil.rmtree
def slow(path, *words, **more):
    pathlib.Path("deleting").touch()
    while not pathlib.Path("go on").exists():
        time.sleep(0.01)
    real(path, *words, **more)
import ci.retention.trash
ci.retention.trash.shutil.rmtree = slow
from ci.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
# Holds the lock of a run as whoever runs it does.
WORKING = """
import pathlib, sys, time
from ci.core.locks import run_lock
with run_lock(pathlib.Path(sys.argv[1]), alone=False):
    print("at work", flush=True)
    time.sleep(600)
"""


class Desk:
    """A folder with old and young runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs"
        now = time.time()
        for name, days in (("older", 90), ("old", 60), ("young", 1), ("latest", 0.5)):
            make_run(self.runs, name, days, now=now)
        (folder / "spyre-ci.yaml").write_text("retention: {runs: {keep_last: 1}}\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
        self.environ = {**kept, "PYTHONPATH": str(ROOT), "DOCKER_HOST": f"unix://{folder}/no-engine.sock"}

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def prune(self, *words: str, code: int = 0) -> dict[str, Any]:
        with self.started("-m", "ci.cli", "prune", "--json", *words) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == code, err
        assert "Traceback" not in err
        told: dict[str, Any] = json.loads(out)
        return told

    def until(self, name: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not (self.folder / name).exists():
            assert time.monotonic() < end, name
            time.sleep(0.01)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.runs.iterdir())

    def whole(self) -> list[str]:
        return [name for name in self.names() if not name.startswith(".")]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def removed(told: dict[str, Any]) -> list[str]:
    return sorted(one["name"] for one in told["removed"])


def test_killed_in_the_middle_no_run_is_in_part_and_the_next_one_finishes(desk: Desk) -> None:
    with desk.started("-c", SLOW, "prune") as process:
        desk.until("deleting")
        process.kill()
    (trash,) = desk.runs.glob(".spyre-ci-trash-*")
    assert (trash / "it" / "run.json").is_file()
    assert len(desk.whole()) == 3
    for name in desk.whole():
        assert {path.name for path in (desk.runs / name).iterdir()} >= {
            "run.json",
            "plan.json",
            "summary.json",
        }
    told = desk.prune()
    assert told["finished"] == [str(trash)]
    assert desk.names() == ["latest", "young"]


def test_a_run_that_begins_while_others_are_deleted_stays(desk: Desk) -> None:
    """The decision is taken by then: what saves it is the last look, under its lock."""
    with desk.started("-c", SLOW, "prune", "--json") as process:
        desk.until("deleting")
        (waiting,) = {"old", "older"} & set(desk.whole())
        with desk.started("-c", WORKING, str(desk.runs / waiting)) as worker:
            assert worker.stdout is not None
            worker.stdout.readline()
            (desk.folder / "go on").touch()
            out, _ = process.communicate(timeout=TIMEOUT_S)
    told = json.loads(out)
    assert process.returncode == 0
    assert waiting in desk.whole()
    assert len(told["removed"]) == 1
    assert next(one["why"] for one in told["kept"] if one["name"] == waiting).startswith("in use: ")


def test_a_report_that_comes_in_while_others_are_deleted_keeps_its_run(desk: Desk) -> None:
    with desk.started("-c", SLOW, "prune", "--json") as process:
        desk.until("deleting")
        (waiting,) = {"old", "older"} & set(desk.whole())
        put(desk.runs / waiting / "outbox" / "000001-x.json", "report", {})
        (desk.folder / "go on").touch()
        out, _ = process.communicate(timeout=TIMEOUT_S)
    assert waiting in desk.whole()
    assert "outbox" in next(one["why"] for one in json.loads(out)["kept"] if one["name"] == waiting)
