"""The workflow of a pull request, executed by act on this machine; each time the gate's verdict is seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.heavy import demo_project
from tests.heavy.act import Ended, Scratch, make_scratch
from tests.heavy.payloads import pull_request

WORKFLOW = "pull-request.yml"
# Executed in the first test; in the others a job that ends well stands for each, which saves minutes.
ELSEWHERE = {"build": "success", "package": "success", "device": "success"}
CHANGED = {"demo/__init__.py": demo_project.MODULE + "MORE = 1\n"}


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return make_scratch(tmp_path, demo_project.files())


def opened(
    scratch: Scratch, files: Mapping[str, str | None], *, fork: bool = False, **stand_for: str
) -> Ended:
    """What a pull request with these files comes to."""
    payload = scratch.pull_request(files, pull_request("opened", fork=fork))
    return scratch.run("pull_request", payload, WORKFLOW, stand_for={**ELSEWHERE, **stand_for})


def test_a_change_that_is_fine_opens_the_gate(scratch: Scratch) -> None:
    payload = scratch.pull_request(CHANGED, pull_request("opened"))
    ended = scratch.run("pull_request", payload, WORKFLOW)
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert ended.jobs["gate"] == "success"
    # What was built once is what was tested.
    (wheel,) = scratch.artifacts.glob("dist/dist/*.whl")
    assert wheel.name in ended.log["test the wheel"]


def test_a_failing_test_shuts_the_gate(scratch: Scratch) -> None:
    ended = opened(scratch, {"demo/__init__.py": demo_project.MODULE.replace("42", "41")})
    assert ended.jobs.pop("unit") == ended.jobs.pop("gate") == "failure"
    assert set(ended.jobs.values()) == {"success"}
    assert "unit failed" in ended.log["gate"]
    # Its results are handed on all the same.
    assert (scratch.artifacts / "unit-1" / "unit.xml").is_file()


def test_failing_lint_shuts_the_gate(scratch: Scratch) -> None:
    ended = opened(scratch, {"demo/__init__.py": "import os\n" + demo_project.MODULE})
    assert ended.jobs.pop("lint") == ended.jobs.pop("gate") == "failure"
    assert set(ended.jobs.values()) == {"success"}
    assert "lint failed" in ended.log["gate"]


def test_a_change_of_documents_only_leaves_jobs_out_and_opens_the_gate(scratch: Scratch) -> None:
    ended = opened(scratch, {"README.md": "# Other words\n"})
    assert ended.jobs == {"changes": "success", "lint": "success", "gate": "success"}
    assert "was left out by what changed" in ended.log["gate"]


def test_device_tests_that_fail_shut_the_gate_from_stage_1_on(scratch: Scratch) -> None:
    ended = opened(scratch, CHANGED, device="failure", lint="success", unit="success")
    assert ended.jobs["gate"] == "failure"
    assert "device failed" in ended.log["gate"]
