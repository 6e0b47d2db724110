"""PyTorch's tests by workflow, executed by act on this machine: planned, run on legs, reported once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.heavy import demo_project
from tests.heavy.act import LOST, Scratch, make_scratch
from tests.heavy.payloads import example, pull_request

WORKFLOW = "pytorch-tests.yml"
# Writes outputs as a test file could that is collected: it finds where in the environment of who collects.
FORGED = """\
#!/bin/sh
case "$*" in
  "pipeline plan "*) trap 'printf "tests=0\\nkind=none\\nmatrix={}\\n" >> "$GITHUB_OUTPUT"' EXIT ;;
esac
PATH=${PATH#*:} spyre-ci "$@"
"""
FEW_LEGS = "import test_selection.ci_jobs\n\ntest_selection.ci_jobs.GITHUB_LEGS = 1\n"


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return make_scratch(tmp_path, demo_project.files())


def dispatched(**inputs: str) -> dict[str, Any]:
    """Somebody starts the workflow by hand."""
    return {**example("workflow_dispatch"), "inputs": inputs}


def summary_of(scratch: Scratch) -> dict[str, Any]:
    """The summary that was handed on; its counts add up."""
    content = json.loads((scratch.artifacts / "results" / "summary.json").read_text(encoding="utf-8"))
    assert sum(content["verdicts"].values()) == content["planned"] > 0
    return dict(content)


def journals(scratch: Scratch) -> set[str]:
    """The names under which legs handed journals on."""
    return {one.name for one in scratch.artifacts.glob("journal*")}


def test_a_stage_is_planned_run_on_legs_and_reported_once(scratch: Scratch) -> None:
    ended = scratch.run("workflow_dispatch", dispatched(), WORKFLOW)
    assert ended.jobs == dict.fromkeys(
        ("plan/plan", "plan/deal", "leg 0-1", "leg 1-2", "report"), "success"
    ), ended.told
    summary = summary_of(scratch)
    assert (summary["exit_code"], summary["verdicts"]["passed"]) == (0, summary["planned"])
    plan = ended.outputs["plan/deal"]["fingerprint"]
    assert journals(scratch) == {f"journal.{plan}.0.1", f"journal.{plan}.1.1"}


def test_a_change_that_forges_what_was_planned_has_its_legs_run_all_the_same(scratch: Scratch) -> None:
    ended = scratch.run("workflow_dispatch", dispatched(), WORKFLOW, programs={"spyre-ci": FORGED})
    assert ended.outputs["plan/plan"]["tests"] == "0"
    assert ended.jobs == dict.fromkeys(
        ("plan/plan", "plan/deal", "leg 0-1", "leg 1-2", "report"), "success"
    ), ended.told
    assert int(ended.outputs["plan/deal"]["tests"]) == summary_of(scratch)["planned"]


def test_journals_of_another_plan_and_of_another_call_are_left_alone(scratch: Scratch) -> None:
    # As an earlier attempt handed on, whose plan was another, and the call of a night beside this one: of
    # shards that no leg here has, so that nothing is written over them.
    for call, plan, shard in (("", "f" * 64, 7), ("-pinned", "e" * 64, 8)):
        journal = scratch.artifacts / f"journal{call}.{plan}.{shard}.1" / "journal" / f"{shard}-1.jsonl"
        journal.parent.mkdir(parents=True)
        start = {"e": "shard_start", "shard": shard, "attempt": 1, "fingerprint": plan}
        journal.write_text(json.dumps(start) + "\n", encoding="utf-8")
    others = journals(scratch)
    ended = scratch.run("workflow_dispatch", dispatched(), WORKFLOW)
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert len(journals(scratch) - others) == 2
    summary = summary_of(scratch)
    assert (summary["exit_code"], summary["foreign_journals"]) == (0, [])


def test_a_leg_that_is_lost_is_reported_and_makes_the_run_red(scratch: Scratch) -> None:
    ended = scratch.run("workflow_dispatch", dispatched(), WORKFLOW, programs={"spyre-ci": LOST})
    assert ended.jobs.keys() == {"plan/plan", "plan/deal", "leg 0-1", "leg 1-2", "report"}, ended.told
    assert (ended.jobs["leg 1-2"], ended.jobs["report"]) == ("failure", "failure")
    # The others' results are there, and what the lost one had is told by name.
    summary = summary_of(scratch)
    assert summary["exit_code"] == 3
    assert summary["verdicts"]["not_run"] > 0 < summary["verdicts"]["passed"]
    assert journals(scratch) == {f"journal.{ended.outputs['plan/plan']['fingerprint']}.0.1"}


def test_a_leg_in_an_image_without_the_back_end_runs_nothing_on_an_emulated_device(tmp_path: Path) -> None:
    pipeline = {**demo_project.SETTINGS["pipeline"], "environment": "image"}
    scratch = make_scratch(tmp_path, demo_project.files(pipeline=pipeline))
    ended = scratch.run("workflow_dispatch", dispatched(), WORKFLOW)
    assert ended.outputs["plan/deal"]["environment"] == "image"
    assert {ended.jobs[one] for one in ("leg 0-1", "leg 1-2", "report")} == {"failure"}, ended.told
    assert "SPYRE_CI_EMULATE=0 rules the emulated device out" in ended.log["leg 0-1"]
    summary = summary_of(scratch)
    assert summary["verdicts"]["not_run"] == summary["planned"]


def test_a_stage_without_tests_runs_no_leg_and_is_green(scratch: Scratch) -> None:
    ended = scratch.run("workflow_dispatch", dispatched(stage="0"), WORKFLOW)
    assert ended.jobs == {"plan/plan": "success", "plan/deal": "success"}, ended.told
    assert ended.outputs["plan/deal"]["tests"] == "0"


def test_more_legs_than_a_matrix_holds_are_several_matrices(scratch: Scratch) -> None:
    (scratch.folder / "installed" / "sitecustomize.py").write_text(FEW_LEGS, encoding="utf-8")
    ended = scratch.run("workflow_dispatch", dispatched(), WORKFLOW)
    assert ended.outputs["plan/deal"]["kind"] == "matrices"
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert len(ended.jobs) == 5
    assert summary_of(scratch)["exit_code"] == 0


def test_a_label_asks_for_the_tests_of_a_stage(scratch: Scratch) -> None:
    payload = scratch.pull_request(
        {"README.md": "# Words\n"}, pull_request("labeled", "ciflow/spyre-stage-2")
    )
    payload["label"] = {"name": "ciflow/spyre-stage-2"}
    ended = scratch.run("pull_request", payload, "ciflow.yml")
    assert ended.outputs["changes/changes"]["stage"] == "2"
    assert set(ended.jobs.values()) == {"success"}, ended.told
    summary = summary_of(scratch)
    assert (summary["exit_code"], summary["identity"]["stage"]) == (0, 2)


def test_another_label_asks_for_nothing(scratch: Scratch) -> None:
    payload = scratch.pull_request({"README.md": "# Words\n"}, pull_request("labeled", "bug"))
    payload["label"] = {"name": "bug"}
    assert scratch.run("pull_request", payload, "ciflow.yml").jobs == {}
