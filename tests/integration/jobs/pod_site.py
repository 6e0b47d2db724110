"""A run of two pods on this host: its folder, its plan, its store, and the verbs as processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ci.jobs.plan_chunks import chunks_of, pack_plan
from ci.jobs.record import JobRecord, write_record
from ci.record.identity import RunIdentity, write_identity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import read_results
from ci.runner.orphans import find_orphans_of_run
from ci.steps.folder import RunFolder, write_source
from test_selection.ci_jobs import CiJob
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection

ROOT = Path(__file__).parent.parent.parent.parent
TIMEOUT_S = 300
RUN = "20260101-000000-spyre-some"
# As a store knows it, by its CI's number and attempt.
STORED = f"{RUN}-1-1"
TESTS = """
import os, pathlib, time, unittest

NOTES = pathlib.Path(os.environ["RUN_NOTES"])


class Test{name}(unittest.TestCase):
    def setUp(self):
        with (NOTES / f"{name}.{{self._testMethodName}}").open("a") as stream:
            stream.write("x")

    def test_a_passes(self):
        pass

    def test_b_fails(self):
        self.fail("as it should")

    def test_c_waits(self):
        while not (NOTES / "go").exists():
            time.sleep(0.05)

    def test_d_passes(self):
        pass

    @unittest.skip("not here")
    def test_e_skips(self):
        pass
"""
NAMES = ("a_passes", "b_fails", "c_waits", "d_passes", "e_skips")
FILES = ("One", "Two", "Three")
WHOLE = (Verdict.PASSED, Verdict.FAILED, Verdict.PASSED, Verdict.PASSED, Verdict.SKIPPED)
# Two shards for the first pod, one for the second.
LEGS = (CiJob(shards=(0, 2), cards=1, expected_s=1), CiJob(shards=(1,), cards=1, expected_s=1))


def id_of(file: str, name: str) -> str:
    return f"test_{file.lower()}.py::Test{file}::test_{name}"


def plan_of_three() -> Plan:
    shards = tuple(
        Shard(
            index=index,
            expected_s=1,
            groups=(Group(file=f"test_{file.lower()}.py", ids=tuple(id_of(file, name) for name in NAMES)),),
        )
        for index, file in enumerate(FILES)
    )
    return Plan(fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="balance", shards=shards)


class Site:
    """A run that was planned here and runs in pods, which have its plan and the store."""

    def __init__(self, tree: Path, store: str = "", *, device: str = "cpu", **environ: str) -> None:
        self.tree, self.device = tree, device
        self.home = tree.parent
        self.run_dir, self.notes, self.inputs = (
            self.home / "runs" / RUN,
            self.home / "notes",
            self.home / "inputs",
        )
        self.store = store or str(self.home / "store")
        for folder in (self.run_dir, self.notes, self.inputs):
            folder.mkdir(parents=True)
        for file in FILES:
            (tree / "test" / f"test_{file.lower()}.py").write_text(TESTS.format(name=file), encoding="utf-8")
        self.prefix: tuple[str, ...] = ()
        self.plan = plan_of_three()
        self.write(self.run_dir)
        self.packed = pack_plan(self.run_dir, LEGS)
        for name, data in chunks_of(self.packed).items():
            (self.inputs / name).write_bytes(data)
        record = JobRecord(
            name="tests-calm-otter-1f2e3", namespace="default", kind="tests", run=STORED, image="",
            fingerprint=self.plan.fingerprint, store="", shards=tuple(leg.shards for leg in LEGS),
        )  # fmt: skip
        write_record(self.run_dir, record)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
            "PYTHONPATH": str(ROOT),
            "RUN_NOTES": str(self.notes),
            "SPYRE_CI__DEVICE__NAME": device,
            "SPYRE_CI_EMULATE": "1",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "SPYRE_CI__RUN__RETRIES": "0",
            "SPYRE_CI__REPORT__ENDPOINT": "none",
            **environ,
        }

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_plan(folder / "plan.json", self.plan)
        write_selection(folder / "selection.json", Selection(stage=None, percent=100, ids=self.plan.ids))
        identity = RunIdentity(
            run=RUN, run_id=1, run_attempt=1, device=self.device, pytorch_version="", pytorch_sha="",
            stage=None, percent=100, started_at=time.time(),
        )  # fmt: skip
        write_identity(folder, identity)
        write_source(RunFolder(path=folder), where=str(self.tree), sha="")

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "ci.cli", *words],
            cwd=self.home, env=self.environ | environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start_pod(self, index: int, **environ: str) -> Pod:
        """A pod with its own disk, and with a bucket two containers besides, which alone have its keys."""
        told = {
            "JOB_COMPLETION_INDEX": str(index), "SPYRE_CI_JOB_RUN": STORED, "SPYRE_CI_JOB_STORE": self.store,
            "SPYRE_CI_JOB_INPUT": str(self.inputs),
            "SPYRE_CI__RUN__LEASES": str(self.home / f"leases-{index}"),
        }  # fmt: skip
        scratch = self.home / f"scratch-{index}-{time.monotonic_ns()}"
        words = ("job", "pod", "--scratch", str(scratch))
        given = told | environ
        if not self.store.startswith("s3://"):
            return Pod(self.start(*words, **given), Path(self.store) / STORED / "pods" / str(index))
        restored = end(self.start(*words, "--role", "restore", **given))
        if restored[0]:
            return Pod(self.start("config", "show", **given), scratch, failed=restored)
        uploader = self.start(*words, "--role", "upload", **given)
        bare = {name: "" for name in self.environ if name in {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}}
        main = self.start(*words, **(given | bare))
        return Pod(main, scratch / STORED / "pods" / str(index), uploader=uploader)

    def pod(self, index: int, **environ: str) -> tuple[int, str, str]:
        return self.start_pod(index, **environ).end()

    def collect(self, *words: str) -> tuple[int, str, str]:
        return end(self.start("job", "collect", RUN, "--from", self.store, *words))

    def plain(self) -> dict[str, tuple[Verdict, int]]:
        """What the plain run of the same plan here comes to."""
        folder = self.home / "plain"
        self.write(folder)
        for words in (["run", "--run-dir", str(folder)], ["report", "--run-dir", str(folder)]):
            _, _, err = end(self.start(*words))
            assert err == ""
        return by_id(folder)

    def release(self) -> None:
        (self.notes / "go").touch()

    def ran(self, file: str, name: str) -> int:
        """How often a test was really run."""
        path = self.notes / f"{file}.test_{name}"
        return len(path.read_text(encoding="ascii")) if path.exists() else 0

    @property
    def results(self) -> dict[str, Result]:
        """The verdicts, which add up to the plan by id (law 1); what ran twice says so (law 5)."""
        found = {one.id: one for one in read_results(self.run_dir / "results.jsonl.gz")}
        assert sorted(found) == sorted(self.plan.ids)
        summary = json.loads((self.run_dir / "summary.json").read_text(encoding="utf-8"))
        assert sum(summary["verdicts"].values()) == summary["planned"] == len(self.plan.ids)
        for file in FILES:
            for name in NAMES:
                one = found[id_of(file, name)]
                marked = one.attempts > 1 or "may have run before" in one.message
                assert self.ran(file, name) <= 1 or marked, one
        return found


def by_id(folder: Path) -> dict[str, tuple[Verdict, int]]:
    return {one.id: (one.verdict, one.attempts) for one in read_results(folder / "results.jsonl.gz")}


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    with process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in out + err, out + err
    return process.returncode, out, err


def wait_for(true: Callable[[], bool]) -> None:
    for _ in range(2000):
        if true():
            return
        time.sleep(0.1)
    pytest.fail("it did not come about")


@dataclass
class Pod:
    """The containers of a pod, and its run folder; where it could not be restored, what that said."""

    main: subprocess.Popen[str]
    folder: Path
    uploader: subprocess.Popen[str] | None = None
    failed: tuple[int, str, str] | None = None

    @property
    def over(self) -> bool:
        return self.main.poll() is not None

    def end(self) -> tuple[int, str, str]:
        """As a Job takes it: an uploader that did not come to its end has another pod run it again."""
        code, out, err = end(self.main)
        if self.uploader is not None:
            uploaded, said, _ = end(self.uploader)
            return (uploaded, out + said, err) if uploaded else (code, out, err)
        return self.failed or (code, out, err)

    def kill(self) -> None:
        """End it as a node that goes away does: all of its processes, without a word."""
        for process in filter(None, (self.uploader, self.main)):
            for pid in [*children_of(process.pid), process.pid]:
                os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=TIMEOUT_S)
        for stray in find_orphans_of_run(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(stray, signal.SIGKILL)
        wait_for(lambda: not find_orphans_of_run(self.folder))


def children_of(pid: int) -> list[int]:
    """Process ids, the pod's own child and those below it, the lowest first."""
    return [one.pid for one in reversed(psutil.Process(pid).children(recursive=True))]
