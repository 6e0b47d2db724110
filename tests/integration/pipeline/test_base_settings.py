"""In a merge queue and on Jenkins the settings of what a change goes onto judge it, never its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.config import load_settings
from ci.pipeline.base_settings import judging_settings
from ci.pipeline.event import Event
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from tests.repositories import Repository

from .conftest import Call

BASE = """\
stage: 2
package: {tests: {emulated: true}}
pipeline: {forks: never, pull_request_stage: 2, runner: [small], device_runner: [cards]}
matrix: {labels: [cards], runner_cards: [1]}
report: {endpoint: none}
"""
LOOSE = """\
stage: 0
stages: {1: {percent: 0}, 2: {percent: 0, blocking: false}}
tiers: {pr: {test_s: 1}}
package: {tests: {emulated: false}}
pipeline: {docs: ["**"], forks: run, pull_request_stage: 0, runner: [theirs], timeouts: {unit: 9}}
matrix: {labels: [theirs], runner_cards: [1]}
report: {endpoint: https://elsewhere.example.com}
"""


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "origin")
    made.commit({"a.c": "1\n", "spyre-ci.yaml": BASE, ".gitignore": "runs/\n.spyre-ci/\n"})
    return made


def merged(origin: Repository, changes: dict[str, str | None]) -> dict[str, Any]:
    """A change, merged into main as a queue does it, with the queue's event."""
    base = origin.git("rev-parse", "main")
    origin.git("checkout", "--quiet", "-b", "change", base)
    head = origin.merged(base, origin.commit(changes))
    return {"merge_group": {"head_sha": head, "base_sha": base}}


def test_a_change_that_loosens_its_own_gate_is_held_to_the_one_that_is_there(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    payload = merged(origin, {"spyre-ci.yaml": LOOSE, "a.c": "2\n"})
    code, found, said = call(origin.shallow(tmp_path / "clone", 2), "merge_group", payload)
    assert code == 0
    assert found["unit"] and found["emulated"] and found["pytorch"]  # noqa: PT018  # of one decision
    assert (found["stage"], found["pytorch_blocking"], found["device_blocking"]) == (2, True, True)
    assert (found["runner"], found["device_runner"]) == (["small"], ["cards"])
    assert found["timeouts"]["unit"] == 60
    base = payload["merge_group"]["base_sha"][:12]
    keys = "stage, stages, tiers, matrix, pipeline, package.tests.emulated"
    assert f"settings from {base}, not from this change: {keys}" in said


def test_on_github_a_pull_request_is_judged_by_itself_as_its_workflow_is_its_own(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    payload = merged(origin, {"spyre-ci.yaml": LOOSE})
    code, found, said = call(origin.shallow(tmp_path / "clone", 2), "pull_request", payload)
    assert (code, found["stage"], found["runner"]) == (0, 0, ["theirs"])
    assert "not from this change" not in said


@pytest.mark.parametrize("text", ["no: such key\n", "- a\n", None, BASE], ids=["key", "list", "gone", "same"])
def test_settings_that_a_change_breaks_are_told_or_are_not_its_own(
    origin: Repository, tmp_path: Path, call: Call, text: str | None
) -> None:
    payload = merged(origin, {"spyre-ci.yaml": text, "a.c": "2\n"})
    code, found, said = call(origin.shallow(tmp_path / "clone", 2), "merge_group", payload)
    if text not in {None, BASE}:
        # They could not be used once they are merged.
        assert (code, found) == (2, {})
        return
    assert (code, found["stage"], found["runner"]) == (0, 2, ["small"])
    assert ("not from this change" in said) == (text is None)


def test_a_base_without_settings_has_the_defaults_and_what_a_workflow_sets_holds_for_both(
    origin: Repository, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.commit({"spyre-ci.yaml": None})
    payload = merged(origin, {"spyre-ci.yaml": LOOSE})
    clone = origin.shallow(tmp_path / "clone", 2)
    code, found, _ = call(clone, "merge_group", payload)
    assert (code, found["stage"], found["runner"]) == (0, 1, ["ubuntu-latest"])
    monkeypatch.setenv("SPYRE_CI__STAGE", "3")
    assert call(clone, "merge_group", payload)[1]["stage"] == 3


def test_what_a_change_goes_onto_has_to_be_in_the_clone(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    payload = merged(origin, {"a.c": "2\n"})
    code, found, said = call(origin.shallow(tmp_path / "clone", 1), "merge_group", payload)
    assert (code, found) == (2, {})
    assert "is not in this clone" in said
    assert "fetch-depth: 0" in said


def test_on_jenkins_it_is_the_target_branch_and_settings_from_elsewhere_hold_as_they_are(
    origin: Repository, tmp_path: Path
) -> None:
    merged(origin, {"spyre-ci.yaml": LOOSE})
    folder = origin.folder
    origin.git("update-ref", "refs/remotes/origin/main", "main")
    event = Event(name="pull_request", branch="main", by_base=True)
    settings = load_settings(path=folder / "spyre-ci.yaml", environ={}, flags={}, cwd=folder)
    judging, said = judging_settings(settings, event, {}, folder)
    assert (judging.model.stage, judging.model.pipeline.runner) == (2, ["small"])
    assert judging.model.report.endpoint == "https://elsewhere.example.com"
    assert said
    (tmp_path / "settings.yaml").write_text(LOOSE, encoding="utf-8")
    outside = load_settings(path=tmp_path / "settings.yaml", environ={}, flags={}, cwd=folder)
    assert judging_settings(outside, event, {}, folder) == (outside, "")


def test_legs_are_those_of_the_base(origin: Repository, tmp_path: Path, call: Call) -> None:
    payload = merged(origin, {"spyre-ci.yaml": LOOSE})
    clone = origin.shallow(tmp_path / "clone", 2)
    shards = (Shard(index=0, expected_s=60.0, groups=(Group(file="a.py", ids=("a",)),)),)
    plan = Plan(fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="cards", shards=shards)
    (clone.folder / "runs" / "ci").mkdir(parents=True)
    write_plan(clone.folder / "runs" / "ci" / "plan.json", plan)
    code, found, _ = call(clone, "merge_group", payload, "legs", "--for", "github")
    assert (code, found["tests"], found["matrix"]["include"][0]["runs_on"]) == (0, 1, ["cards"])
