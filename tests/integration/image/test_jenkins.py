"""What a Jenkinsfile says of images, by a real engine: built with a change, pushed, tested, released."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci.core.registry import find_digest
from tests.jenkins_dsl import ROOT, Scenario, run_scenarios
from tests.jenkins_world import GIT_ENVIRON

from .conftest import World

pytestmark = pytest.mark.nightly

# The steps of Jenkinsfile.pr and Jenkinsfile.release that want an engine.
PIPELINE = """
pipeline {
    agent none
    stages {
        stage('image') {
            steps {
                spyreSources(label: 'builder', url: params.CLONE_URL, commit: 'refs/heads/change',
                    refspec: '+refs/heads/change:refs/heads/change')
                script {
                    env.SPYRE_IMAGE = spyreImage(label: 'builder', with: ['flex=../project'])
                }
            }
        }
        stage('release') {
            steps {
                script {
                    env.SPYRE_TESTED = spyreImage(label: 'builder')
                    env.SPYRE_RELEASE = spyreImage(label: 'builder', version: '1.2.3')
                }
            }
        }
    }
}
"""


def test_a_change_is_built_tested_pushed_and_released_as_it_was_tested(world: World, tmp_path: Path) -> None:
    good = '<testsuite><testcase classname="flex" name="works"/></testsuite>'
    world.git("switch", "--quiet", "--create", "change")
    world.commit({"flex.txt": "changed\n"})
    world.git("switch", "--quiet", "main")
    tests = ["grep -Eqx 'one|changed' flex.txt", 'echo "$PARAM_RESULT" > "$JUNIT_DIR/unit.xml"']
    world.flex(test=tests, args={"GREETING": "hello", "RESULT": good})
    jenkinsfile = tmp_path / "Jenkinsfile"
    jenkinsfile.write_text(PIPELINE, encoding="utf-8")
    environ = {
        **{name: value for name, value in world.environ.items() if not name.startswith("GITHUB_")},
        **GIT_ENVIRON,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NOX_DEFAULT_VENV_BACKEND": "none",
    }
    scenario = Scenario(
        name="image",
        jenkinsfile=str(jenkinsfile),
        params={"CLONE_URL": str(world.repository)},
        scm=ROOT,
        environ=environ,
    )
    build = run_scenarios([scenario], tmp_path / "builds")["image"]
    assert build.result == "SUCCESS", build.of("sh")[-1]
    told = {one["name"]: one["value"] for one in build.of("env")}
    name, _, digest = told["SPYRE_IMAGE"].partition("@")
    assert find_digest(name) == digest
    # What was tested is what gets the version, and it has no pull request in it.
    assert told["SPYRE_RELEASE"] == told["SPYRE_TESTED"] != told["SPYRE_IMAGE"]
    assert world.digest("1.2.3") == told["SPYRE_RELEASE"].partition("@")[2]
    assert "results/flex/build/junit/unit.xml" in build.archived()
