"""What the recording DSL refuses, and what the library's steps do: what Jenkins would not take is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jenkins_dsl import Recorded, Scenario, run_scenarios


def in_stage(text: str) -> str:
    return "pipeline { agent none\n stages { stage('a') { steps { " + text + " } } } }"


def in_node(text: str) -> str:
    return in_stage("node('x') { " + text + " }")


# By name: what is written, and what is said to it.
REFUSED = {
    "syntax": ("pipeline { agent none", "expecting '}'"),
    "directive": (
        "pipeline { agent none\n stage('a') { } }",
        "pipeline has no directive stage; known: agent,",
    ),
    "directive of a stage": (
        "pipeline { agent none\n stages { stage('a') { step { echo 'x' } } } }",
        "stage('a') has no directive step;",
    ),
    "never reached": (
        """pipeline { agent none
        stages {
            stage('a') { steps { error 'x' } }
            stage('b') { steps { echo 'x' }
            posts { always { echo 'x' } } }
        } }""",
        "stage('b') has no directive posts;",
    ),
    "condition": (
        "pipeline { agent none\n stages { stage('a') { steps { sh 1 } } }\n post { ever { echo 'x' } } }",
        "post has no directive ever;",
    ),
    "option": (
        "pipeline { agent none\n options { timeouts(1) }\n stages { stage('a') { steps { echo 1 } } } }",
        "options has no directive timeouts;",
    ),
    "no agent": ("pipeline { stages { stage('a') { steps { echo 'x' } } } }", "pipeline has no agent"),
    "no steps": (
        "pipeline { agent none\n stages { stage('a') { } } }",
        "wants one of steps, stages and parallel",
    ),
    "step": (in_stage("ech 'x'"), "No such DSL method 'ech'"),
    "parameter": (
        in_stage("timeout(minutes: 3) { echo 'x' }"),
        "timeout has no parameter minutes; known:",
    ),
    "missing parameter": (in_node("stash(includes: '*')"), "stash wants name"),
    "unit": (in_stage("timeout(time: 3, unit: 'MINUTE') { echo 'x' }"), "timeout(time: 3, unit: MINUTE)"),
    "no body": (in_stage("timeout(time: 3)"), "timeout wants body"),
    "sh without an agent": (in_stage("sh 'true'"), "sh: there is no workspace here"),
    "every card": (
        in_stage("lock(label: 'cards') { echo 'x' }"),
        "without a quantity locks all there are",
    ),
    "parameter of the build": (in_stage("echo params.NOBODY"), "params.NOBODY: the job declares no such"),
    "field of the script": (in_stage("script { counter = 1 }"), "counter = 1: a variable without `def`"),
    "spread call": (in_stage("script { ['a']*.trim() }"), "*.trim is not rewritten by Jenkins"),
    "spread property": (in_stage("script { [[a: 1]]*.a }"), "*.a is not rewritten by Jenkins"),
    "spread arguments": (in_stage("script { echo(*['a']) }"), "arguments by * are not rewritten"),
    "matcher": (in_stage("script { def m = 'a' =~ /a/ }"), "=~ gives a Matcher"),
    "step in an iteration": (
        in_stage("script { ['a'].each { one -> echo(one) } }"),
        "echo in a closure of each: suspended there",
    ),
    "step deep in an iteration": (
        in_stage("script { ['a'].collect { one -> if (one) { node('x') { echo(one) } } } }"),
        "node in a closure of collect",
    ),
    "step of the library in an iteration": (
        in_stage("script { [a: 1].each { k, v -> spyreNotify(to: k) } }"),
        "spyreNotify in a closure of each",
    ),
    "closure of a text": (
        in_stage("script { 'ab'.replaceAll('a') { it } }"),
        "replaceAll with a closure is not rewritten",
    ),
    "constructor": (in_stage("script { new File('x') }"), "new File: it would be made on the controller"),
    "pointer": (in_stage("script { def f = this.&call }"), ".& is not rewritten"),
    "synchronized": (
        in_stage("script { synchronized (this) { echo 'x' } }"),
        "synchronized is not rewritten",
    ),
    "in a method": (
        "void f() { ['a'].each { one -> echo(one) } }\n" + in_stage("echo 'x'"),
        "echo in a closure of each",
    ),
    "objects of readJSON": (
        in_node("readJSON(text: '{}')"),
        "readJSON without returnPojo",
    ),
}
# What a step of the library says to a caller's mistake; the build fails with it.
FAILED = {
    "unknown argument": (
        in_stage("spyreNotify(too: 'a@b')"),
        "spyreNotify: unknown argument too; known: to",
    ),
    "missing argument": (
        in_stage("spyreNode(label: 'x') { echo 'y' }"),
        "spyreNode: missing argument minutes; known: label, minutes, cards, sources, junit, files",
    ),
    "lines in an argument": (
        in_node("spyreNox(session: 'lint', arguments: ['a\\nb'])"),
        "spyreNox: an argument of lint is empty or has more than one line",
    ),
    "credentials that are not there": (
        in_node("spyreNox(session: 'lint', secrets: [A: 'nobodys'])"),
        "Could not find credentials entry with ID 'nobodys'",
    ),
}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    folder = tmp_path_factory.mktemp("refused")
    scenarios = []
    for number, (name, (text, _)) in enumerate((REFUSED | FAILED).items()):
        path = folder / f"Jenkinsfile.{number}"
        path.write_text(text, encoding="utf-8")
        scenarios.append(
            Scenario(
                name=name, jenkinsfile=str(path), params={}, scm=folder, environ={"PATH": "/usr/bin:/bin"}
            )
        )
    return run_scenarios(scenarios, tmp_path_factory.mktemp("builds"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_jenkins_does_not_know_is_refused_by_name(builds: dict[str, Recorded], name: str) -> None:
    last = builds[name].events[-1]
    assert last["step"] == "refused"
    assert REFUSED[name][1] in last["message"]


def test_a_pipeline_is_read_whole_before_any_step_runs(builds: dict[str, Recorded]) -> None:
    assert [one["step"] for one in builds["never reached"].events] == ["refused"]


@pytest.mark.parametrize("name", FAILED)
def test_a_step_of_the_library_names_what_it_cannot_take(builds: dict[str, Recorded], name: str) -> None:
    build = builds[name]
    assert build.result == "FAILURE"
    assert FAILED[name][1] in build.of("trouble")[0]["message"]


def test_every_step_of_the_library_has_its_text() -> None:
    folder = Path(__file__).parents[3] / "jenkins" / "vars"
    steps = {path.stem for path in folder.glob("*.groovy")}
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}
    assert steps == texts.keys()
    for name, text in texts.items():
        assert text.startswith(f"{name}(")
