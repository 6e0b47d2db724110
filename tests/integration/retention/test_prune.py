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

from tests.retention_world import make_run

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
import ci.retention.disk
ci.retention.disk.shutil.rmtree = slow
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
        for name, days in (("older", 90), ("old", 60), ("young", 1), ("latest", 0.5)):
            make_run(self.runs, name, days, now=time.time())
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
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def deleting(self) -> Iterator[subprocess.Popen[str]]:
        """A prune that has renamed its first run, and waits for a file before it deletes it."""
        with self.started("-c", SLOW, "prune", "--json") as process:
            end = time.monotonic() + TIMEOUT_S
            while not (self.folder / "deleting").exists():
                assert time.monotonic() < end
                time.sleep(0.01)
            yield process

    def whole(self) -> list[str]:
        return sorted(path.name for path in self.runs.iterdir() if not path.name.startswith("."))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    document: dict[str, Any] = json.loads(out)
    return document


def test_killed_in_the_middle_no_run_is_in_part_and_the_next_one_finishes(desk: Desk) -> None:
    with desk.deleting() as process:
        process.kill()
    (trash,) = desk.runs.glob(".spyre-ci-trash-*")
    assert len(desk.whole()) == 3
    for folder in (trash, *(desk.runs / name for name in desk.whole())):
        assert all((folder / name).is_file() for name in ("run.json", "plan.json", "summary.json"))
    with desk.started("-m", "ci.cli", "prune", "--json") as process:
        assert told(process)["finished"] == [str(trash)]
    assert sorted(path.name for path in desk.runs.iterdir()) == ["latest", "young"]


def test_a_run_that_begins_while_others_are_deleted_stays(desk: Desk) -> None:
    """It was decided on by then: what saves it is that it is looked at once more, under its lock."""
    with desk.deleting() as process:
        (waiting,) = {"old", "older"} & set(desk.whole())
        with desk.started("-c", WORKING, str(desk.runs / waiting)) as worker:
            assert worker.stdout is not None
            worker.stdout.readline()
            (desk.folder / "go on").touch()
            document = told(process)
    assert waiting in desk.whole()
    assert len(document["removed"]) == 1
    assert next(one["why"] for one in document["kept"] if one["name"] == waiting).startswith("in use: ")


def test_a_run_with_a_bind_mount_in_it_stays(desk: Desk) -> None:
    data, trash = desk.folder / "data", desk.runs / f".spyre-ci-trash-{'0' * 32}"
    places = [desk.runs / "old" / "data", trash / "data"]
    for folder in (data, *places):
        folder.mkdir(parents=True)
    (data / "file").write_text("kept")
    mounted = []
    try:
        for place in places:
            if subprocess.run(["mount", "--bind", data, place], check=False, capture_output=True).returncode:
                pytest.skip("nothing can be mounted here")
            mounted.append(place)
        with desk.started("-m", "ci.cli", "prune", "--json") as process:
            document = json.loads(process.communicate(timeout=TIMEOUT_S)[0])
        assert (data / "file").read_text() == "kept"
    finally:
        for place in mounted:
            subprocess.run(["umount", place], check=True)
    assert [one["name"] for one in document["removed"]] == ["older"]
    assert [one["path"] for one in document["failed"]] == [str(trash)]
    assert (
        next(one["why"] for one in document["kept"] if one["name"] == "old") == "something is mounted in it"
    )
