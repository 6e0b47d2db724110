"""Jenkinsfiles and the steps of their library hold no logic, and a line of shell that calls nox (law 8)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
JENKINS = ROOT / "jenkins"
PIPELINES = sorted(JENKINS.glob("Jenkinsfile.*"))
STEPS = sorted((JENKINS / "vars").glob("*.groovy"))
GROOVY = [*PIPELINES, *STEPS, *sorted((JENKINS / "jobs").glob("*.groovy"))]


def test_two_lines_of_shell_are_all_there_is_and_nothing_is_put_into_them() -> None:
    calls = {
        path.stem: re.findall(r"\b(?:sh|bat|powershell)\b *\(.*", path.read_text("utf-8")) for path in GROOVY
    }
    assert [name for name, found in calls.items() if found] == ["spyreArchive", "spyreNox"]
    # No session removes the links: the container could have written another noxfile.
    assert calls["spyreArchive"] == ["sh(label: 'no links', script: 'find -P . -type l -delete')"]
    text = (JENKINS / "vars" / "spyreNox.groovy").read_text(encoding="utf-8")
    # Groovy puts values into double-quoted texts only; these reach the shell by their names.
    (script,) = re.findall(r"script: '''(.*?)'''", text, re.DOTALL)
    assert script.splitlines()[-1].strip() == 'exec nox -s "$SPYRE_NOX_SESSION" -- "${words[@]}"'


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.name)
def test_a_pipeline_takes_its_steps_from_the_library_and_runs_on_no_agent_of_its_own(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "@Library('spyre-ci') _" in text
    assert re.findall(r"^\s*agent .*", text, re.MULTILINE) == ["    agent none"]
    assert "skipDefaultCheckout()" in text


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.name)
def test_no_time_out_stands_around_what_is_said_at_the_end(path: Path) -> None:
    # Of the whole pipeline it would cut `post` as well; spyreNode has one for all that runs and for waiting.
    assert not re.search(r"^ {0,8}timeout\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert (JENKINS / "vars" / "spyreNode.groovy").read_text(encoding="utf-8").count("timeout(time:") == 2


@pytest.mark.parametrize("path", [*PIPELINES, *STEPS], ids=lambda path: path.name)
def test_nothing_is_written_that_jenkins_cannot_suspend(path: Path) -> None:
    # Jenkins' compiler refuses `list*.call()`, and with it the library; plain Groovy, in tests, takes it.
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"[\w)\]}]\*\.\w", re.sub(r"'[^'\n]*'|\"[^\"\n]*\"|//.*", "''", text))


def test_what_a_container_could_write_to_is_handed_on_by_the_step_that_removes_links() -> None:
    # The others are of nodes on which no image of a build ran.
    found = {path.name for path in [*PIPELINES, *STEPS] if re.search(r"\bstash\(", path.read_text("utf-8"))}
    assert found == {"Jenkinsfile.release", "spyreArchive.groovy", "spyreSources.groovy"}


def test_who_stops_a_build_has_it_stopped_before_anything_else_is_tried() -> None:
    text = (JENKINS / "Jenkinsfile.pr").read_text(encoding="utf-8")
    report = (JENKINS / "vars" / "spyreReport.groovy").read_text(encoding="utf-8")
    for call in re.findall(r"catchError\([^)]*\)", text + report):
        assert "catchInterruptions: false" in call


def test_every_session_that_is_named_is_one_of_the_noxfile() -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    known = set(re.findall(r"@nox\.session[^\n]*\ndef (\w+)", noxfile))
    named = {
        name for path in GROOVY for name in re.findall(r"session: '(\w+)'", path.read_text(encoding="utf-8"))
    }
    assert {"image", "plan", "shards", "report", "pipeline", "release", "publish"} <= named <= known


def test_every_credential_is_named_in_the_document() -> None:
    document = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in [*GROOVY, JENKINS / "resources" / "site.json"]]
    found = {one for text in texts for one in re.findall(r"['\"](spyre-ci-[\w-]+)['\"]", text)}
    assert "spyre-ci-hud" in found
    assert [one for one in found if f"`{one}`" not in document] == []


@pytest.mark.parametrize("folder", ["jenkins", "docs", "changelog.d"])
def test_nobody_says_that_it_was_tested_on_jenkins(folder: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert not any(re.search(r"tested (on|in|with) (a )?Jenkins", text, re.IGNORECASE) for text in texts)
