"""What is run on the control device, and with what."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ci.config import load_settings
from ci.core.errors import CommandError
from ci.record.events import End, Start
from ci.record.journal import journal_path
from ci.record.journal_line import line_of
from ci.runner.scheduler import Job
from ci.runner.source import Source
from ci.runner.work import RunOptions, Work
from ci.steps import control as control_module
from ci.steps.context import Context
from ci.steps.control import control_step
from ci.steps.folder import RunFolder
from ci.steps.plan import ShardSubset
from test_selection.durations import Durations
from test_selection.pieces import Piece
from test_selection.plan import Group, Plan, Shard, fingerprint
from test_selection.selection import Expectation

A, B, C = "a.py::one", "a.py::two", "b.py::three"
SHARDS = (
    Shard(index=0, expected_s=1, groups=(Group(file="a.py", ids=(A, B)),)),
    Shard(index=1, expected_s=1, groups=(Group(file="b.py", ids=(C,)),)),
)
PLAN = Plan(fingerprint=fingerprint(SHARDS), bound_s=1, makespan_s=1, binds="cards", shards=SHARDS)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run in which everything failed, shard 1 elsewhere."""
    folder = RunFolder(path=tmp_path / "run")
    for shard in SHARDS:
        path = journal_path(folder.path, shard.index, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        told = [event for name in shard.ids for event in (Start(id=name), End(id=name, outcome="failed"))]
        path.write_bytes(b"".join(map(line_of, told)))
    return folder


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the supervisor is handed, in place of running it."""
    calls: list[dict[str, Any]] = []

    def run_plan(work: Work, **rest: Any) -> bool:
        ids = sorted(name for row in work.pieces for piece in row for name in piece.ids)
        calls.append({"ids": ids, "work": work, **rest})
        return False

    monkeypatch.setattr(control_module, "run_plan", run_plan)
    return calls


def control(
    folder: RunFolder,
    plan: Plan = PLAN,
    shards: tuple[Shard, ...] = SHARDS[:1],
    whole: Plan | None = None,
    flags: Mapping[str, object] | None = None,
) -> str:
    """Run the step and return what it said."""
    said = io.StringIO()
    flags = {"run.control": "cpu", "device.name": "spyre", **(flags or {})}
    environ = {"SPYRE_CI_SHARE_PASSWORD": "geheim", "HOME": "/root"}
    context = Context(
        settings=load_settings(
            path=None, environ={}, flags=flags, cwd=folder.path
        ),
        environ=environ, clock=lambda: 0.0, monotonic=lambda: 0.0, cores=8,
        console=Console(file=said, width=200),
    )  # fmt: skip
    options = RunOptions(
        run="r", run_dir=folder.path, tests=folder.path, device=str(flags["device.name"]),
        environ=environ, threads=1, method="fork", test_timeout_s=9, setup_timeout_s=9, grace_s=1,
        worker_restarts=1, retries=3, max_fail=1, preflight_timeout_s=9, doubts={0: {"why": [A]}},
    )  # fmt: skip
    part = ShardSubset(
        plan=plan, shards=shards, source=Source(where=None, tests=folder.path, sha="s", version="2"),
        expectations={A: Expectation(mode="xfail", seed=7)}, durations=Durations(),
        folder=folder, whole=whole,
    )  # fmt: skip
    assert control_step(context, part, options) is False
    return said.getvalue()


def test_what_failed_in_these_shards_runs_once_more_with_nothing_of_the_device(
    folder: RunFolder, ran: list[dict[str, Any]]
) -> None:
    control(folder)
    (call,) = ran
    assert call["ids"] == [A, B]
    assert call["work"].fingerprint == PLAN.fingerprint
    options: RunOptions = call["options"]
    assert (options.device, options.run_dir, options.retries) == ("cpu", folder.path / "control", 0)
    assert options.max_fail == 0  # else nothing would run where the run itself stopped at a failure
    assert (options.doubts, options.preflight_timeout_s) == ({}, 0)
    assert options.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert options.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "cpu"
    assert "SPYRE_CI_SHARE_PASSWORD" not in options.environ
    order = call["work"].order(Job(piece=Piece(file="a.py", ids=(A,), expected_s=1.0), of=0))
    assert order.expectations == {A: Expectation(mode="mandatory_success", seed=7).as_json()}


def test_a_run_that_is_resumed_is_controlled_whole(folder: RunFolder, ran: list[dict[str, Any]]) -> None:
    left = replace(SHARDS[0], groups=(Group(file="a.py", ids=(B,)),))
    control(folder, replace(PLAN, shards=(left, SHARDS[1])), (left,), PLAN)
    assert ran[0]["ids"] == [A, B]


def test_what_ran_on_the_control_device_before_is_left_alone(
    folder: RunFolder, ran: list[dict[str, Any]]
) -> None:
    path = journal_path(folder.control.path, 0, 1)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(journal_path(folder.path, 0, 1).read_bytes().splitlines(keepends=True)[:2]))
    control(folder)
    assert ran[0]["ids"] == [B]


def test_a_limit_holds_and_is_told(folder: RunFolder, ran: list[dict[str, Any]]) -> None:
    said = control(folder, shards=SHARDS, flags={"run.control_limit": 2})
    assert ran[0]["ids"] == [A, C]
    assert "control: 1 failed test beyond run.control_limit" in said
    control(folder, flags={"run.control_limit": 0})
    assert len(ran) == 1


def test_the_cpu_is_no_control_of_itself(folder: RunFolder, ran: list[dict[str, Any]]) -> None:
    assert "skipped: cpu is the device under test" in control(folder, flags={"device.name": "cpu"})
    assert control(folder, flags={"run.control": "none"}) == ""
    assert ran == []


def test_a_control_that_cannot_be_run_costs_its_marks_alone(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_plan(*_: object, **__: object) -> bool:
        raise CommandError("the worker cannot be started", remedy="check the disk")

    monkeypatch.setattr(control_module, "run_plan", run_plan)
    assert "control: ended early: the worker cannot be started" in control(folder)
