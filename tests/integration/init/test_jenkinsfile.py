"""The Jenkinsfile that `spyre-ci init` writes, under the recording DSL: the project is the job's source."""

from __future__ import annotations

import pytest

from ci.cli.app import run
from tests.jenkins_dsl import Recorded, Scenario, run_scenarios
from tests.jenkins_world import World, git, make_world

IMAGE = "registry.example/runtime@sha256:0123"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = make_world(tmp_path_factory.mktemp("jenkins"))
    head = git(made.toolkit, "rev-parse", "HEAD")
    assert run(["init", str(made.project), "--write", "--toolkit-ref", head]) == 0
    return made


@pytest.fixture(scope="module")
def build(world: World, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = world.project / "Jenkinsfile"
    text = path.read_text(encoding="utf-8")
    address = "https://github.com/torch-spyre/spyre-ci.git"
    assert address in text
    path.write_text(text.replace(address, str(world.toolkit)), encoding="utf-8")
    # Outside of jenkins/, so it is named by its path.
    scenario = Scenario(
        name="green", jenkinsfile=str(path), params={}, scm=world.project, environ=world.environ
    )
    return run_scenarios([scenario], tmp_path_factory.mktemp("builds"))["green"]


def test_it_is_green_and_calls_the_sessions(build: Recorded) -> None:
    assert build.result == "SUCCESS"
    assert build.sessions() == [
        "lint ../project",
        "unit ../project",
        "package ../project",
        "pytorch --config",
    ]
    (words,) = [one["words"] for one in build.of("sh", session="pytorch")]
    assert words == ["--config", "../project/spyre-ci.yaml"]


def test_the_toolkit_is_its_commit_and_the_project_the_jobs_source(build: Recorded, world: World) -> None:
    found = {one["scm"]: one["commit"] for one in build.of("checkout")}
    assert found == {
        "git": git(world.toolkit, "rev-parse", "HEAD"),
        "scm": git(world.project, "rev-parse", "HEAD"),
    }


def test_without_an_image_no_card_is_taken(build: Recorded) -> None:
    assert build.of("lock") == []
    assert {one["label"] for one in build.of("node")} == {"linux && spyre_pf_x0"}


def test_what_it_built_is_archived(build: Recorded) -> None:
    assert "project/dist/demo-1.whl" in build.archived()
