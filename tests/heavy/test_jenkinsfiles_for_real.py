"""A pull request's build under the recording DSL with real nox sessions; only images are a stand-in's."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jenkins_dsl import ROOT, Recorded, Scenario, run_scenarios
from tests.jenkins_world import World, make_world

pytestmark = pytest.mark.xdist_group("jenkins")

TREE = ROOT / "tests" / "integration" / "tree"
# Everything but images is nox's own: those want an engine and minutes.
NOX = """#!/bin/bash
if [ "$2 $4" = "image tree" ]; then exec cp -r "$REAL_TREE" "$6"; fi
if [ "$2" = image ]; then exec {stand_in} "$@"; fi
exec {python} -m nox "$@"
"""


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """A green build, one with a failing test, and one that loses a leg twice."""
    folder = tmp_path_factory.mktemp("real")
    world = make_world(folder)
    stand_in = (world.folder / "bin" / "nox").rename(world.folder / "stand-in")
    (world.folder / "bin" / "nox").write_text(
        NOX.format(stand_in=stand_in, python=sys.executable), encoding="utf-8"
    )
    (world.folder / "bin" / "nox").chmod(0o755)
    lost = {"session": "shards", "branch": "leg-001", "kind": "lose", "times": 2}
    return run_scenarios(
        [
            real(world, world.pull_request("green"), "test_devices.py", "sub/*"),
            real(world, world.pull_request("a failing test"), "test_devices.py", "test_outcomes.py"),
            real(world, world.pull_request("a lost leg", lost), "test_devices.py", "sub/*"),
        ],
        tmp_path_factory.mktemp("builds"),
    )


def real(world: World, scenario: Scenario, *files: str) -> Scenario:
    """The same with this very toolkit, which plans all tests of some files on two legs."""
    scripts = str(Path(sys.executable).parent)
    scenario.scm = ROOT
    scenario.environ = {
        **world.environ,
        "PATH": os.pathsep.join([str(world.folder / "bin"), scripts, os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "REAL_TREE": str(TREE),
        "NOX_DEFAULT_VENV_BACKEND": "none",
        "SPYRE_CI__DEVICE__NAME": "cpu",
        "SPYRE_CI__PYTORCH__FILES": json.dumps(files),
        "SPYRE_CI__STAGES": json.dumps({"0": {"percent": 0, "cards": 1}, "1": {"percent": 100, "cards": 2}}),
        "SPYRE_CI__PIPELINE__SHARD_S": "0.5",
        "SPYRE_CI__RUN__LEASES": str(world.folder / "leases"),
        "SPYRE_CI__REPORT__ENDPOINT": "none",
    }
    return scenario


def summary(build: Recorded) -> dict[str, Any]:
    path = build.folder / "scratch" / "archive" / "toolkit" / "runs" / "ci" / "summary.json"
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def codes(build: Recorded, session: str) -> list[int]:
    return [one["code"] for one in build.of("sh", session=session)]


def test_a_green_build_plans_runs_and_reports(builds: dict[str, Recorded]) -> None:
    green = builds["green"]
    assert codes(green, "plan") == [0]
    assert codes(green, "shards") == [0, 0]
    assert codes(green, "report") == [0]
    assert summary(green)["planned"] == summary(green)["verdicts"]["passed"] == 11
    assert {"toolkit/runs/ci/report.html", "toolkit/runs/ci/junit/0.xml"} <= green.archived()
