"""What a CI's jobs call around the tests (changes, plan, legs, gate), and the files that call it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.oracle.conftest import ROOT, Desk, make_desk
from tests.repositories import git

SETTINGS = """\
stage: 1
stages: {1: {cards: 3}}
package: {tests: {emulated: true}}
matrix: {runner_cards: [0, 1]}
report: {endpoint: none}
"""
BEFORE: dict[str, str] = {
    "a.py": "1\n",
    "old.py": "x = 1\n" * 30,
    "README.md": "# it\n",
    "spyre-ci.yaml": SETTINGS,
    ".gitignore": "runs/\n.spyre-ci/\nout.json\nevent.json\noutput\nsummary.md\n",
}
TESTED = ("unit", "emulated", "package", "device")


def commit(desk: Desk, changes: Mapping[str, str | None]) -> str:
    """Write files, take those away whose text is None, and commit."""
    for name, text in changes.items():
        if text is None:
            (desk.folder / name).unlink()
        else:
            desk.write(name, text)
    git(desk.folder, "add", "--all")
    git(desk.folder, "commit", "--quiet", "--allow-empty", "--message", "change")
    return git(desk.folder, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Desk:
    """A repository with code, a document and settings, on main."""
    desk = make_desk(tmp_path, stand_in=True)
    git(desk.folder, "init", "--quiet", "--initial-branch=main")
    commit(desk, BEFORE)
    return desk


def in_github(desk: Desk, event: str, payload: Any) -> dict[str, str]:
    """The environment of a GitHub job of an event."""
    return {
        "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(desk.write("event.json", payload)),
        "GITHUB_OUTPUT": str(desk.folder / "output"),
        "GITHUB_STEP_SUMMARY": str(desk.folder / "summary.md"),
        "GITHUB_RUN_ID": "42", "GITHUB_RUN_ATTEMPT": "1",
    }  # fmt: skip


def merged(desk: Desk, changes: Mapping[str, str | None]) -> tuple[str, str]:
    """Check out GitHub's merge of a change into a main that went on; the change's head and base."""
    git(desk.folder, "checkout", "--quiet", "-b", "change")
    head = commit(desk, changes)
    git(desk.folder, "checkout", "--quiet", "main")
    base = commit(desk, {"meanwhile.py": "2\n"})
    git(desk.folder, "checkout", "--quiet", "--detach", base)
    git(desk.folder, "merge", "--quiet", "--no-ff", "--no-edit", head)
    return head, base


def pull_request(head: str, base: str, labels: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "pull_request": {
            "head": {"sha": head, "repo": {"id": 1}},
            "base": {"sha": base, "repo": {"id": 1}},
            "labels": [{"name": one} for one in labels],
        }
    }


def outputs(desk: Desk) -> dict[str, str]:
    """What a job gives GitHub."""
    lines = (desk.folder / "output").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


Row = tuple[Mapping[str, str | None], tuple[str, ...], dict[str, Any]]
MOVED = {"old.py": None, "docs/old.py": "x = 1\n" * 30}
CHANGES: dict[str, Row] = {
    "documents": ({"README.md": "# more\n", "docs/a.md": "a\n"}, (), {"unit": False, "pytorch": False}),
    "code": ({"README.md": "# more\n", "a.py": "2\n"}, (), {"unit": True, "pytorch": False}),
    "code moved to the documents": (MOVED, (), {"unit": True}),
    # Its own, as it may change the workflow as well; a merge queue goes by those of its base.
    "settings": ({"spyre-ci.yaml": "stage: 5\n"}, (), {"stage": 5, "pytorch": True}),
    "documents, and a label": ({"README.md": "b\n"}, ("ciflow/spyre",), {"unit": False, "pytorch": True}),
    "a label with a stage": ({"a.py": "2\n"}, ("ciflow/spyre-stage-2",), {"pytorch": True, "stage": 2}),
    "a file that wants to be an output": ({"docs/a\nstage=5.md": "1\n"}, (), {"unit": False, "stage": 1}),
}  # fmt: skip


@pytest.mark.gate
@pytest.mark.parametrize("name", CHANGES)
def test_what_a_pull_request_runs_is_decided_by_what_it_touches(checkout: Desk, name: str) -> None:
    changes, labels, expected = CHANGES[name]
    head, base = merged(checkout, changes)
    environ = in_github(checkout, "pull_request", pull_request(head, base, labels))
    checkout.call("pipeline", "changes", "--out", "out.json", code=0, **environ)
    found = checkout.read("out.json")
    assert {key: found[key] for key in expected} == expected
    assert found["lint"] is True
    assert {found[job] for job in TESTED} == {expected["unit"]} if "unit" in expected else True
    told = outputs(checkout)
    assert {key: json.loads(told[key]) for key in (*TESTED, "lint", "pytorch", "stage")} == {
        key: found[key] for key in (*TESTED, "lint", "pytorch", "stage")
    }
    assert "unit" in (checkout.folder / "summary.md").read_text()


@pytest.mark.gate
def test_a_merge_queue_is_judged_by_the_settings_of_its_base(checkout: Desk) -> None:
    before = git(checkout.folder, "rev-parse", "HEAD")
    after = commit(checkout, {"spyre-ci.yaml": "stage: 5\n"})
    group = {"merge_group": {"base_sha": before, "head_sha": after}}
    environ = in_github(checkout, "merge_group", group)
    checkout.call("pipeline", "changes", "--out", "out.json", code=0, **environ)
    assert checkout.read("out.json")["stage"] == 1


@pytest.mark.gate
def test_other_events_run_what_they_should(checkout: Desk) -> None:
    before = git(checkout.folder, "rev-parse", "HEAD")
    after = commit(checkout, {"README.md": "more\n"})
    group = {"merge_group": {"base_sha": before, "head_sha": after}}
    rows: list[tuple[str, Any, bool]] = [
        ("push", {"before": before, "after": after}, False),
        ("push", {"before": "0" * 40, "after": after}, True),
        ("merge_group", group, True),
        ("workflow_dispatch", {}, True),
    ]
    for event, payload, everything in rows:
        environ = in_github(checkout, event, payload)
        checkout.call("pipeline", "changes", "--out", "out.json", code=0, **environ)
        found = checkout.read("out.json")
        assert {found[job] for job in TESTED} == {everything}, event
    for event, payload in (("pull_request", "{"), ("merge_group", {})):
        checkout.call("pipeline", "changes", code=2, **in_github(checkout, event, payload))


def planned(desk: Desk, tree: Path, *words: str) -> dict[str, Any]:
    """The outputs of a plan for a CI's jobs."""
    given = ("--pytorch-src", tree, "--files", "test_outcomes.py", "--out", "out.json")
    desk.call("pipeline", "plan", *given, *words, SPYRE_CI_IMAGE=f"quay.io/o/i@sha256:{'1' * 64}")
    found: dict[str, Any] = desk.read("out.json")
    return found


def ids_of(plan: dict[str, Any], *shards: int) -> list[str]:
    chosen = [one for one in plan["shards"] if not shards or one["index"] in shards]
    return sorted(one for shard in chosen for group in shard["groups"] for one in group["ids"])


@pytest.mark.gate
def test_a_plan_is_dealt_run_in_legs_and_reported_once(checkout: Desk, tree: Path) -> None:
    made = planned(checkout, tree, "--percent", "100", "--shards", "2")
    plan = checkout.read("runs/ci/plan.json")
    assert (made["kind"], made["legs"], made["tests"], made["fingerprint"]) == (
        "legs", 2, len(ids_of(plan)), plan["fingerprint"],
    )  # fmt: skip
    # Where no code of the change's ran, the same legs are made of the settings in force.
    checkout.call("pipeline", "legs", "--for", "github", "--percent", "100", "--out", "legs.json")
    legs = checkout.read("legs.json")["matrix"]["include"]
    assert (
        [row["shards"] for row in legs] == [row["shards"] for row in made["matrix"]["include"]] == ["0", "1"]
    )
    checkout.call("pipeline", "legs", "--for", "jenkins", "--percent", "100", "--out", "legs.json")
    assert [one["shards"] for one in checkout.read("legs.json")["matrix"].values()] == ["0", "1"]
    # The first leg runs, the second is lost.
    checkout.call("run", "--run-dir", "runs/ci", "--shard", "0", "--cards", "1", code=None)
    checkout.call("report", "--run-dir", "runs/ci", code=3)
    summary = checkout.read("runs/ci/summary.json")
    assert summary["verdicts"]["not_run"] == len(ids_of(plan, 1))
    assert summary["missing_shards"] == [1]
    checkout.call("run", "--run-dir", "runs/ci", "--shard", "1", "--cards", "1", code=None)
    checkout.call("report", "--run-dir", "runs/ci", code=1)
    rows = [one for one in checkout.read("runs/ci/results.jsonl.gz") if "id" in one]
    assert sorted(one["id"] for one in rows) == ids_of(plan)
    assert checkout.read("runs/ci/summary.json")["verdicts"]["not_run"] == 0


@pytest.mark.gate
def test_a_plan_that_wants_more_than_its_stage_has_is_not_dealt(checkout: Desk, tree: Path) -> None:
    planned(checkout, tree, "--percent", "100", "--shards", "3")
    checkout.write("spyre-ci.yaml", SETTINGS.replace("cards: 3", "cards: 1"))
    said = checkout.call("pipeline", "legs", "--for", "github", "--out", "legs.json", code=None)
    assert said.code in {1, 2}
    assert not (checkout.folder / "legs.json").exists()
    nothing = planned(checkout, tree, "--stage", "0", "--run-dir", "runs/none")
    assert (nothing["kind"], nothing["tests"], nothing["matrix"]) == ("none", 0, {"include": []})


def needs(outs: Mapping[str, str] | None = None, changes: str = "success", **jobs: str) -> str:
    rows = {name: {"result": result, "outputs": {}} for name, result in jobs.items()}
    return json.dumps({"changes": {"result": changes, "outputs": outs or {}}, **rows})


GATES: dict[str, tuple[str, int]] = {
    "all succeeded": (needs(lint="success", unit="success"), 0),
    "one failed": (needs(lint="success", unit="failure"), 1),
    "one was cancelled": (needs(lint="success", unit="cancelled"), 1),
    "one is a word that GitHub does not say": (needs(lint="success", unit="fine"), 1),
    "one vanished": (needs(lint="success"), 1),
    "one was skipped": (needs(lint="success", unit="skipped"), 1),
    "one was skipped as the change has it": (needs({"unit": "false"}, lint="success", unit="skipped"), 0),
    "one was skipped though it was to run": (needs({"unit": "true"}, lint="success", unit="skipped"), 1),
    "all skipped, as nobody said what changed": (
        needs({"unit": "false"}, "failure", lint="success", unit="skipped"),
        1,
    ),
    "one failed that does not block": (needs({"unit_blocking": "false"}, lint="success", unit="failure"), 0),
    "one that nobody expects was skipped": (
        needs({"unit": "true"}, lint="success", unit="success", more="skipped"),
        0,
    ),
    "one that nobody expects failed": (needs(lint="success", unit="success", more="failure"), 1),
    "nothing at all": ("", 2),
    "no JSON": ("{", 2),
    "a job that is there twice": ('{"lint": {"result": "failure"}, "lint": {"result": "success"}}', 2),
}


@pytest.mark.gate
@pytest.mark.parametrize("name", GATES)
def test_the_gate_is_open_only_where_every_job_is_known_to_be_enough(desk: Desk, name: str) -> None:
    text, code = GATES[name]
    said = desk.call("pipeline", "gate", "--expect", "lint,unit", code=code, NEEDS=text)
    assert code == 2 or "unit" in said.out + said.err


# --- the files that call it all

SESSION = re.compile(r"nox -f \.\./toolkit/noxfile\.py -s (\w+)(?: -- (.*))?$")
IN_GROOVY = re.compile(r"session: '(\w+)'")
PIPELINE_IN_GROOVY = re.compile(r"session: '(pipeline|image|webhooks)'[^']*arguments: \[\s*'([a-z]+)'")


def commands_of_workflows() -> Iterator[tuple[str, str, list[str]]]:
    """Where each step of a workflow stands, the session it calls, and its words."""
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name, job in content["jobs"].items():
            for step in job.get("steps", []):
                if (
                    step.get("run", "true") != "true"
                ):  # a job whose result alone counts has a step that does nothing
                    found = SESSION.fullmatch(step["run"].strip())
                    assert found is not None, f"{path.name}, {name}: {step['run']}"
                    yield f"{path.name}, {name}", found[1], (found[2] or "").split()


@cache
def sessions() -> set[str]:
    """The sessions of the noxfile."""
    command = [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "-l"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return set(re.findall(r"^[*-] (\w+)", done.stdout, re.MULTILINE))


def test_every_session_that_a_pipeline_calls_is_there() -> None:
    called = {session for _, session, _ in commands_of_workflows()}
    assert len(called) > 10
    for path in (ROOT / "jenkins").rglob("*"):
        if path.suffix == ".groovy" or path.name.startswith("Jenkinsfile"):
            called |= set(IN_GROOVY.findall(path.read_text(encoding="utf-8")))
    assert called - sessions() == set()


@pytest.mark.gate
def test_every_verb_and_flag_that_a_pipeline_calls_is_there(desk: Desk) -> None:
    # Sessions that are called as the verb; of the others the first word behind is one.
    verbs = {"shards": "run", "plan": "pipeline plan", "report": "report"}
    wide = replace(desk, environ=desk.environ | {"COLUMNS": "300"})
    asked: dict[str, set[str]] = {}
    for _, session, words in commands_of_workflows():
        verb = verbs.get(
            session, f"{session} {words[0]}" if session in {"pipeline", "job", "image", "hud"} else ""
        )
        if verb:
            asked.setdefault(verb, set()).update(word for word in words if word.startswith("--"))
    for path in (ROOT / "jenkins").rglob("*.groovy"):
        for session, verb in PIPELINE_IN_GROOVY.findall(path.read_text(encoding="utf-8")):
            asked.setdefault(f"{session} {verb}", set())
    assert {"pipeline changes", "pipeline gate", "pipeline comment", "pipeline reuse", "run"} <= set(asked)
    groups = {verb.split()[0] for verb, flags in asked.items() if " " in verb and not flags}
    shown = {group: wide.call(group, "--help").out for group in groups}
    for verb, flags in asked.items():
        group, _, name = verb.partition(" ")
        if flags or not name:
            told = wide.call(*verb.split(), "--help").out
            assert [flag for flag in sorted(flags) if flag not in told] == [], verb
        else:
            assert re.search(rf"\b{name}\b", shown[group]), verb
