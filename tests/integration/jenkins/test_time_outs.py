"""Time-outs of the recording DSL strike where Jenkins' would, on a clock of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jenkins_dsl import Recorded, Scenario, run_scenarios

HANGS = {"step": "node", "kind": "hang", "times": 1}
LATE = {"step": "lock", "kind": "wait", "minutes": 30, "times": 1}
PIPELINES: dict[str, tuple[str, dict[str, Any]]] = {
    "around everything": (
        """pipeline { agent none
        options { timeout(time: 1, unit: 'HOURS') }
        stages { stage('a') { steps { node('x') { sh 'true' } } } }
        post { always { node('y') { sh 'true' } }
               cleanup { mail(to: 'a@b', subject: 's', body: 'b') } } }""",
        HANGS,
    ),
    "around a stage": (
        """pipeline { agent none
        stages { stage('a') { options { timeout(time: 1, unit: 'HOURS') }
                              steps { node('x') { sh 'true' } } } }
        post { always { node('y') { sh 'true' } } } }""",
        HANGS,
    ),
    "nowhere": (
        "pipeline { agent none\n stages { stage('a') { steps { node('x') { sh 'true' } } } } }",
        HANGS,
    ),
    "around waiting": (
        """pipeline { agent none
        stages { stage('a') { steps { node('x') { timeout(time: 20) {
            lock(resource: 'card') { sh 'true' } } } } } } }""",
        LATE,
    ),
    "behind waiting": (
        """pipeline { agent none
        stages { stage('a') { steps { node('x') { lock(resource: 'card') {
            timeout(time: 20) { sh 'true' } } } } } } }""",
        LATE,
    ),
    "side by side": (
        """pipeline { agent none
        stages { stage('a') { steps { timeout(time: 40) { script {
            Closure one = { node('x') { lock(resource: 'card') { sh 'true' } } }
            parallel(b: one, c: one) } } } } } }""",
        LATE | {"times": 2},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    folder = tmp_path_factory.mktemp("pipelines")
    scenarios = []
    for number, (name, (text, fault)) in enumerate(PIPELINES.items()):
        path = folder / f"Jenkinsfile.{number}"
        path.write_text(text, encoding="utf-8")
        environ = {"PATH": "/usr/bin:/bin"}
        scenarios.append(
            Scenario(name=name, jenkinsfile=str(path), params={}, scm=folder, environ=environ, faults=[fault])
        )
    return run_scenarios(scenarios, tmp_path_factory.mktemp("builds"))


@pytest.mark.nightly
def test_a_time_out_around_everything_cuts_what_comes_at_the_end(builds: dict[str, Recorded]) -> None:
    build = builds["around everything"]
    assert build.result == "ABORTED"
    assert build.of("sh", "mail") == []


def test_what_comes_at_the_end_outlives_a_stages_time_out(builds: dict[str, Recorded]) -> None:
    build = builds["around a stage"]
    assert build.result == "ABORTED"
    assert [one["agent"] for one in build.of("node", state="begin")] == ["agent-1"]
    assert len(build.of("sh")) == 1


def test_what_could_hang_for_ever_is_refused(builds: dict[str, Recorded]) -> None:
    last = builds["nowhere"].events[-1]
    assert (last["step"], last["message"]) == (
        "refused",
        "node would take for ever: there is no time-out around it",
    )


def test_waiting_counts_where_a_time_out_is_around_it_and_only_base(builds: dict[str, Recorded]) -> None:
    assert (builds["around waiting"].result, builds["behind waiting"].result) == ("ABORTED", "SUCCESS")


def test_branches_wait_at_the_same_time(builds: dict[str, Recorded]) -> None:
    assert builds["side by side"].result == "SUCCESS"
