"""A pull request's own settings decide nothing of its gate: those of the branch it goes into do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.config import load_settings
from ci.pipeline.event import Event
from ci.pipeline.in_force import settings_in_force
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan

from .conftest import Call
from .repository import Repository

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
buckets: {pr: {test_s: 1}}
package: {tests: {emulated: false}}
pipeline: {docs: ["**"], forks: run, pull_request_stage: 0, runner: [theirs], timeouts: {unit: 9}}
matrix: {labels: [theirs], runner_cards: [1]}
report: {endpoint: none}
"""


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    (tmp_path / "origin").mkdir()
    made = Repository(tmp_path / "origin")
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit({"a.c": "1\n", "spyre-ci.yaml": BASE, ".gitignore": "runs/\n.spyre-ci/\n"})
    return made


def request(head: str, base: str, *, fork: bool = False) -> dict[str, Any]:
    return {
        "pull_request": {
            "head": {"sha": head, "repo": {"id": 1 + fork}},
            "base": {"sha": base, "repo": {"id": 1}},
        }
    }


def merged(origin: Repository, changes: dict[str, str | None]) -> tuple[str, str]:
    """A change, merged into main as GitHub does it: the change's commit, and main's."""
    base = origin.git("rev-parse", "main")
    origin.git("checkout", "--quiet", "-b", "change", base)
    head = origin.commit(changes)
    origin.merged(base, head)
    return head, base


def test_a_pull_request_that_loosens_its_own_gate_is_held_to_the_one_that_is_there(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    head, base = merged(origin, {"spyre-ci.yaml": LOOSE, "a.c": "2\n"})
    code, found, said = call(
        origin.shallow(tmp_path / "clone", 2), "pull_request", request(head, base, fork=True)
    )
    assert code == 0
    assert found["unit"]
    assert found["emulated"]
    assert (found["stage"], found["pytorch_blocking"], found["device_blocking"]) == (2, True, True)
    # It comes from a fork, and main lets none of these reach a card.
    assert not found["pytorch"]
    assert not found["device"]
    assert (found["runner"], found["device_runner"]) == (["small"], ["cards"])
    assert found["timeouts"]["unit"] == 60
    page = (tmp_path / "summary.md").read_text()
    for text in (said, page):
        assert "pipeline.forks" in text
        assert "stages.2.percent" in text
        assert "buckets.pr.test_s" in text
        assert "pipeline.timeouts.unit" in text
        assert "report.endpoint" not in text
    assert f"as {base[:12]} says, not as this change does" in said


def test_nothing_is_said_where_the_settings_stay_as_they_are(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    head, base = merged(origin, {"a.c": "2\n"})
    code, found, said = call(origin.shallow(tmp_path / "clone", 2), "pull_request", request(head, base))
    assert (code, found["stage"]) == (0, 2)
    assert "takes effect" not in said
    assert "once it is merged" not in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize("text", ["no: such key\n", "- a\n", None], ids=["unknown key", "a list", "gone"])
def test_settings_that_a_change_breaks_are_told_or_are_not_its_own(
    origin: Repository, tmp_path: Path, call: Call, text: str | None
) -> None:
    head, base = merged(origin, {"spyre-ci.yaml": text})
    code, found, said = call(origin.shallow(tmp_path / "clone", 2), "pull_request", request(head, base))
    if text is not None:
        # They could not be used once they are merged.
        assert (code, found) == (2, {})
        return
    assert (code, found["stage"], found["runner"]) == (0, 2, ["small"])
    assert "not as this change does" in said


def test_a_branch_without_settings_has_the_defaults(origin: Repository, tmp_path: Path, call: Call) -> None:
    origin.commit({"spyre-ci.yaml": None})
    head, base = merged(origin, {"spyre-ci.yaml": LOOSE})
    code, found, _ = call(origin.shallow(tmp_path / "clone", 2), "pull_request", request(head, base))
    assert (code, found["stage"], found["runner"]) == (0, 1, ["ubuntu-latest"])


def test_what_a_workflow_sets_holds_for_both(
    origin: Repository, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, base = merged(origin, {"spyre-ci.yaml": LOOSE})
    monkeypatch.setenv("SPYRE_CI__PIPELINE__PULL_REQUEST_STAGE", "1")
    _, found, said = call(origin.shallow(tmp_path / "clone", 2), "pull_request", request(head, base))
    assert found["stage"] == 1
    assert "pull_request_stage" not in said


def test_a_base_that_is_not_there_ends_the_job(origin: Repository, tmp_path: Path, call: Call) -> None:
    head, base = merged(origin, {"spyre-ci.yaml": LOOSE})
    code, found, said = call(origin.shallow(tmp_path / "clone", 1), "pull_request", request(head, base))
    assert (code, found) == (2, {})
    assert "which settings decide of a pull_request is not known" in said
    assert "fetch-depth: 2" in said


def test_a_base_whose_settings_cannot_be_read_ends_the_job(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    origin.commit({"spyre-ci.yaml": "stage: [\n"})
    head, base = merged(origin, {"spyre-ci.yaml": BASE})
    code, found, said = call(origin.shallow(tmp_path / "clone", 2), "pull_request", request(head, base))
    assert (code, found) == (2, {})
    assert f"{base[:12]}:spyre-ci.yaml" in said


def test_a_merge_queue_goes_by_what_its_base_says(origin: Repository, tmp_path: Path, call: Call) -> None:
    base = origin.git("rev-parse", "main")
    head = origin.commit({"spyre-ci.yaml": LOOSE})
    payload = {"merge_group": {"base_sha": base, "head_sha": head}}
    code, found, _ = call(origin, "merge_group", payload)
    assert (code, found["stage"], found["runner"]) == (0, 2, ["small"])
    code, _, said = call(origin.shallow(tmp_path / "clone", 1), "merge_group", payload)
    assert code == 2
    assert "fetch-depth: 0" in said


def test_settings_that_are_a_link_to_elsewhere_are_the_changes_own(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    base = origin.git("rev-parse", "main")
    origin.git("checkout", "--quiet", "-b", "change")
    (tmp_path / "elsewhere.yaml").write_text(LOOSE)
    (origin.folder / "spyre-ci.yaml").unlink()
    (origin.folder / "spyre-ci.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    head = origin.commit({})
    origin.merged(base, head)
    _, found, _ = call(origin, "pull_request", request(head, base))
    assert (found["stage"], found["runner"]) == (2, ["small"])


def test_settings_that_the_change_does_not_hold_are_in_force_as_they_are(
    origin: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.yaml").write_text(LOOSE)
    monkeypatch.chdir(origin.folder)
    settings = load_settings(path=tmp_path / "site.yaml", environ={}, flags={}, cwd=origin.folder)
    found = settings_in_force(settings, Event(name="pull_request"), {}, origin.folder)
    assert (found.model.stage, found.of) == (0, "")


def test_a_push_and_whoever_starts_a_run_by_hand_have_the_settings_of_the_commit(
    origin: Repository, call: Call
) -> None:
    before = origin.git("rev-parse", "main")
    after = origin.commit({"spyre-ci.yaml": LOOSE})
    for name, payload in (("push", {"before": before, "after": after}), ("workflow_dispatch", {})):
        _, found, _ = call(origin, name, payload)
        assert (found["stage"], found["runner"]) == (0, ["theirs"])


@pytest.mark.nightly
def test_a_plan_has_share_cards_and_labels_of_the_base(
    origin: Repository, tmp_path: Path, tree: Path, call: Call
) -> None:
    head, base = merged(origin, {"spyre-ci.yaml": LOOSE})
    words = ["plan", "--pytorch-src", str(tree), "--files", "test_outcomes.py"]
    clone = origin.shallow(tmp_path / "clone", 2)
    code, found, said = call(clone, "pull_request", request(head, base), *words)
    assert code == 0, said
    assert found["tests"] > 0
    assert {tuple(row["runs_on"]) for row in found["matrix"]["include"]} == {("cards",)}
    assert found["timeouts"]["unit"] == 60


def test_a_plan_made_by_a_changes_code_is_dealt_by_the_settings_of_the_base(
    origin: Repository, tmp_path: Path, call: Call
) -> None:
    head, base = merged(origin, {"spyre-ci.yaml": LOOSE})
    clone, event = origin.shallow(tmp_path / "clone", 2), request(head, base)
    words = ("legs", "--for", "github")
    # As handed on by a job that says, with the change, that there is nothing to do.
    code, found, said = call(clone, "pull_request", event, *words)
    assert (code, found) == (2, {})
    assert "plan.json" in said
    made = tuple(
        Shard(index=n, expected_s=60.0, groups=(Group(file="a.py", ids=(f"a.py::{n}",)),)) for n in range(2)
    )
    plan = Plan(fingerprint=fingerprint(made), bound_s=1.0, makespan_s=1.0, binds="balance", shards=made)
    write_plan(clone.folder / "runs" / "ci" / "plan.json", plan)
    code, found, said = call(clone, "pull_request", event, *words)
    assert code == 0, said
    assert (found["tests"], found["kind"], found["fingerprint"]) == (2, "legs", plan.fingerprint)
    assert {tuple(row["runs_on"]) for row in found["matrix"]["include"]} == {("cards",)}
    assert found["timeouts"]["unit"] == 60
