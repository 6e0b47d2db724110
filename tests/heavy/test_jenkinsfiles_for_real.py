"""A pull request's build under the recording DSL with real nox sessions; only images are a stand-in's."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.github_api import GitHubApi, Repository, pull
from tests.jenkins_dsl import CREDENTIALS, ROOT, URL, Recorded, Scenario, run_scenarios
from tests.jenkins_world import World, git, make_world

TREE = ROOT / "tests" / "integration" / "tree"
# Everything but images is nox's own: those want an engine and minutes.
NOX = """#!/bin/bash
if [ "$2 $4" = "image tree" ]; then exec cp -r "$REAL_TREE" "$6"; fi
if [ "$2" = image ]; then exec {stand_in} "$@"; fi
exec {python} -m nox "$@"
"""


@pytest.fixture(scope="module")
def github(world: World) -> Iterator[GitHubApi]:
    with GitHubApi() as api:
        asked = pull(7, sha=world.head, head="somebody/demo")
        api.repositories["example/demo"] = Repository(pulls={7: asked})
        api.tokens[CREDENTIALS["company-github"]] = None
        yield api


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = make_world(tmp_path_factory.mktemp("real"))
    nox = made.folder / "bin" / "nox"
    stand_in = nox.rename(made.folder / "stand-in")
    nox.write_text(NOX.format(stand_in=stand_in, python=sys.executable), encoding="utf-8")
    nox.chmod(0o755)
    tree = shutil.copytree(TREE, made.folder / "tree")
    # A file for each leg that costs and says the same, so that it does not matter which of them is lost.
    outcomes = tree / "test" / "test_outcomes.py"
    shutil.copy(outcomes, outcomes.with_name("test_outcomes_too.py"))
    return made


@pytest.fixture(scope="module")
def builds(world: World, github: GitHubApi, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """A green build, and one with failing tests in one leg that loses the other one twice."""
    lost = {"session": "shards", "branch": "leg-000", "kind": "lose", "times": 2}
    green = world.pull_request("green", api=github.url)
    red = world.pull_request("red", lost, api=github.url)
    scenarios = [
        real(world, green, "test_devices.py", "sub/*"),
        real(world, red, "test_outcomes.py", "test_outcomes_too.py"),
    ]
    return run_scenarios(scenarios, tmp_path_factory.mktemp("builds"))


def real(world: World, scenario: Scenario, *files: str) -> Scenario:
    """The same with this very toolkit, which plans all tests of some files on two legs."""
    scripts = str(Path(sys.executable).parent)
    here = world.folder / "here"
    if not here.exists():
        here.mkdir()
        git(here, "init", "--quiet")
        git(here, "fetch", "--quiet", str(ROOT), "HEAD:refs/heads/main")
    toolkit = {"url": str(here), "commit": "origin/main", "credentials": ""}
    scenario.resources = {**scenario.resources, "site.json": json.dumps({"toolkit": toolkit})}
    scenario.environ = {
        **world.environ,
        "PATH": os.pathsep.join([str(world.folder / "bin"), scripts, os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "REAL_TREE": str(world.folder / "tree"),
        "NOX_DEFAULT_VENV_BACKEND": "none",
        "SPYRE_CI__DEVICE__NAME": "cpu",
        "SPYRE_CI__PYTORCH__FILES": json.dumps(files),
        "SPYRE_CI__STAGES": json.dumps({str(number): {"percent": 100, "cards": 2} for number in range(1, 6)}),
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
    assert green.result == "SUCCESS"
    assert codes(green, "plan") == [0]
    assert codes(green, "shards") == [0, 0]
    assert codes(green, "report") == [0]
    assert summary(green)["planned"] == summary(green)["verdicts"]["passed"] == 11
    assert {"toolkit/runs/ci/report.html", "toolkit/runs/ci/junit/0.xml"} <= green.archived()


def test_failing_tests_are_reported_beside_those_that_a_lost_leg_never_ran(
    builds: dict[str, Recorded],
) -> None:
    red = builds["red"]
    assert red.result == "FAILURE"
    # The leg that is left says 1 for its failures; the report says 3, as not everything ran.
    assert (codes(red, "shards"), codes(red, "report")) == ([1], [3])
    verdicts = summary(red)["verdicts"]
    assert (verdicts["failed"], verdicts["not_run"]) == (4, 9)
    assert sum(verdicts.values()) == summary(red)["planned"] == 18
    (retry,) = red.of("retry")
    assert "offline" in retry["because"]
    assert "toolkit/runs/ci/report.html" in red.archived()


def test_each_build_tells_its_pull_request_what_came_of_it(
    builds: dict[str, Recorded], github: GitHubApi, world: World
) -> None:
    assert [one.result for one in builds.values()] == ["SUCCESS", "FAILURE"]
    told = github.repositories["example/demo"].statuses[world.head]
    # The newest first: each build says that it runs, and how it ended.
    states = [one["state"] for one in reversed(told)]
    assert states == ["pending", "success", "pending", "failure"]
    assert {one["context"] for one in told} == {"spyre-ci/jenkins"}
    assert {one["target_url"] for one in told} == {URL}
