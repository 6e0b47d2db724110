"""The workflow of a pull request, executed by act on this machine; each time the gate's verdict is seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.github_api import TOKEN as GITHUB_TOKEN
from tests.github_api import GitHubApi, Repository, artifact, pull, workflow_run
from tests.heavy import demo_project
from tests.heavy.act import PROJECT, ROOT, Ended, Scratch, git, make_scratch
from tests.heavy.payloads import example, pull_request
from tests.pipeline_runs import zipped

WORKFLOW = "pull-request.yml"
# Executed in the first test; in the others a job that ends well stands for each, which saves minutes.
ELSEWHERE = {"package": "success", "device": "success"}
CHANGED = {"demo/__init__.py": demo_project.MODULE + "MORE = 1\n"}
CALLER = """\
name: checks
on: [pull_request]
permissions: {}
jobs:
  checks:
    permissions: {actions: read, contents: read, id-token: write, pull-requests: read}
    uses: torch-spyre/spyre-ci/.github/workflows/pull-request.yml@v1
    with: {stage: "2"}
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return make_scratch(tmp_path, demo_project.files())


def opened(
    scratch: Scratch, files: Mapping[str, str | None], *, fork: bool = False, **stand_for: str
) -> Ended:
    """What a pull request with these files comes to."""
    payload = scratch.pull_request(files, pull_request("opened", fork=fork))
    return scratch.run("pull_request", payload, WORKFLOW, stand_for={**ELSEWHERE, **stand_for})


@pytest.mark.gate
def test_a_change_that_is_fine_opens_the_gate(scratch: Scratch) -> None:
    payload = scratch.pull_request(CHANGED, pull_request("opened"))
    ended = scratch.run("pull_request", payload, WORKFLOW)
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert ended.jobs["gate"] == "success"
    # What was built once is what was tested.
    (wheel,) = scratch.artifacts.glob("dist/dist/*.whl")
    assert wheel.name in ended.log["package/verify"]


@pytest.mark.gate
def test_a_failing_test_shuts_the_gate(scratch: Scratch) -> None:
    ended = opened(scratch, {"demo/__init__.py": demo_project.MODULE.replace("42", "41")})
    assert ended.jobs.pop("unit") == ended.jobs.pop("gate") == "failure"
    assert set(ended.jobs.values()) == {"success"}
    assert "unit failed" in ended.log["gate"]
    # Its results are handed on all the same.
    assert (scratch.artifacts / "unit.1" / "unit.xml").is_file()


def test_the_same_tests_run_beside_an_emulated_device_where_a_project_asks_for_it(tmp_path: Path) -> None:
    tests = {"emulated": True, "requirements": ["pytest", "numpy", "torch"]}
    scratch = make_scratch(tmp_path, demo_project.files(package={"tests": tests}))
    changed = {"tests/unit/test_on_card.py": demo_project.ON_CARD}
    ended = opened(scratch, changed, lint="success", unit="success")
    assert ended.jobs["emulated device"] == ended.jobs["gate"] == "success", ended.told
    assert "test_a_sum_on_the_card" in (scratch.artifacts / "emulated.1" / "unit.xml").read_text()


def test_failing_lint_shuts_the_gate(scratch: Scratch) -> None:
    ended = opened(scratch, {"demo/__init__.py": "import os\n" + demo_project.MODULE})
    assert ended.jobs.pop("lint") == ended.jobs.pop("gate") == "failure"
    assert set(ended.jobs.values()) == {"success"}
    assert "lint failed" in ended.log["gate"]


def test_a_change_of_documents_only_leaves_jobs_out_and_opens_the_gate(scratch: Scratch) -> None:
    ended = opened(scratch, {"README.md": "# Other words\n"})
    assert ended.jobs == {"changes/changes": "success", "lint": "success", "gate": "success"}
    assert "was not needed for what changed" in ended.log["gate"]


@pytest.mark.parametrize(
    ("stage", "verdict"), [("ciflow/spyre-stage-1", "failure"), ("ciflow/spyre-stage-5", "success")]
)
def test_pytorchs_tests_that_are_red_shut_the_gate_where_their_stage_blocks(
    scratch: Scratch, stage: str, verdict: str
) -> None:
    payload = scratch.pull_request(CHANGED, pull_request("synchronize", stage))
    others = dict.fromkeys(("lint", "unit", *ELSEWHERE), "success")
    # As pytorch-tests.yml ends where a leg was lost, which is executed by itself.
    ended = scratch.run("pull_request", payload, WORKFLOW, stand_for={**others, "pytorch": "failure"})
    assert ended.jobs["gate"] == verdict, ended.told
    assert "pytorch" in ended.log["gate"]


@pytest.mark.gate
def test_a_fork_reaches_no_card_before_a_label_asks_for_it_and_the_gate_does_not_wait(tmp_path: Path) -> None:
    pipeline = {**demo_project.SETTINGS["pipeline"], "forks": "label", "pull_request_stage": 1}
    scratch = make_scratch(tmp_path, demo_project.files(pipeline=pipeline))
    ended = opened(scratch, CHANGED, fork=True, device="failure", pytorch="failure")
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert {"lint", "unit", "gate"} <= ended.jobs.keys()
    assert not {"device tests", "PyTorch tests"} & ended.jobs.keys()


def test_another_repository_calls_the_workflow_by_its_tag(scratch: Scratch) -> None:
    payload = scratch.pull_request({"README.md": "# Other words\n"}, pull_request("opened"))
    ended = scratch.run("pull_request", payload, "ci.yml", caller=CALLER)
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert {name.rpartition("/")[2] for name in ended.jobs} == {"changes", "lint", "gate"}


def test_a_merge_queue_takes_the_results_of_the_pull_requests_run_and_says_so(tmp_path: Path) -> None:
    pipeline = {**demo_project.SETTINGS["pipeline"], "merge_group_stage": 1}
    scratch = make_scratch(tmp_path / "act", demo_project.files(pipeline=pipeline))
    payload = scratch.pull_request(CHANGED, pull_request("opened", "ciflow/spyre"))
    others = dict.fromkeys(("lint", "unit", *ELSEWHERE), "success")
    toolkit = {"PYTHONPATH": f"{committed(scratch)}{os.pathsep}{scratch.folder / 'installed'}"}
    image = ("--var", f"SPYRE_CI_IMAGE=registry.example/spyre@sha256:{'0' * 64}")
    # As the runner's pod says of itself.
    toolkit["SPYRE_CI_IMAGE"] = image[1].partition("=")[2]
    first = scratch.run("pull_request", payload, WORKFLOW, *image, environ=toolkit, stand_for=others)
    assert set(first.jobs.values()) == {"success"}, first.told
    data = zipped(scratch.artifacts / "results")
    scratch.artifacts.rename(tmp_path / "first")
    scratch.artifacts.mkdir()
    head = payload["pull_request"]["head"]["sha"]
    with GitHubApi() as api:
        api.repositories[PROJECT] = Repository(
            pulls={7: pull(7, sha=head, head=PROJECT)},
            runs={11: workflow_run(11, sha=head, head=PROJECT)},
            artifacts={5: artifact(5, "results", run=11, size=len(data))},
            blobs={5: data},
        )
        environ = {
            **toolkit,
            "GITHUB_API_URL": api.url,
            "GITHUB_WORKFLOW_REF": f"{PROJECT}/.github/workflows/{WORKFLOW}@refs/heads/main",
        }
        second = scratch.run(
            "merge_group", queued(scratch, head), WORKFLOW, *image,
            secrets={"GITHUB_TOKEN": GITHUB_TOKEN}, environ=environ,
            # act gives no result to a call whose own jobs were all skipped, but for those it calls itself.
            stand_for={**others, "pytorch-tests.yml:cancelled": "reached"},
        )  # fmt: skip
    assert second.outputs["plan/reuse"]["reused"] == "true", second.told
    assert second.jobs["gate"] == "success"
    assert not [one for one in second.jobs if "leg" in one or "report" in one]
    assert (scratch.artifacts / "results" / "reused.json").is_file()


NO_REUSE = """\
#!/bin/sh
case "$*" in
  "pipeline reuse "*) exit 70 ;;
esac
PATH=${PATH#*:} exec spyre-ci "$@"
"""


def test_a_merge_queue_that_cannot_look_for_results_runs_everything(tmp_path: Path) -> None:
    pipeline = {**demo_project.SETTINGS["pipeline"], "merge_group_stage": 1}
    scratch = make_scratch(tmp_path, demo_project.files(pipeline=pipeline))
    payload = scratch.pull_request(CHANGED, pull_request("opened"))
    head = payload["pull_request"]["head"]["sha"]
    others = dict.fromkeys(("lint", "unit", *ELSEWHERE), "success")
    ended = scratch.run(
        "merge_group", queued(scratch, head), WORKFLOW, stand_for=others, programs={"spyre-ci": NO_REUSE}
    )
    assert "failed with exit code 70" in ended.log["plan/reuse"], ended.told
    assert ended.jobs["PyTorch tests/report"] == "success", ended.told
    assert (scratch.artifacts / "results" / "summary.json").is_file()


def committed(scratch: Scratch) -> Path:
    """The toolkit as a commit of its own: one with changes is the same as no other, so nothing is reused."""
    folder = scratch.folder / "repositories" / "toolkit"
    for name in ("ci", "test_selection"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "code")
    return folder


def queued(scratch: Scratch, head: str) -> dict[str, Any]:
    """The event of a merge queue that merges a commit into main, which is checked out so."""
    base = scratch.git("rev-parse", "main")
    scratch.git("checkout", "--quiet", "--detach", "main")
    scratch.git("merge", "--quiet", "--no-ff", "--message", "queue", head)
    payload = example("merge_group", "checks_requested")
    payload["merge_group"].update(
        head_sha=scratch.git("rev-parse", "HEAD"),
        head_ref=f"refs/heads/gh-readonly-queue/main/pr-7-{base}",
        base_sha=base,
        base_ref="refs/heads/main",
    )
    return payload


def test_device_tests_that_fail_shut_the_gate_from_stage_1_on(scratch: Scratch) -> None:
    ended = opened(scratch, CHANGED, device="failure", lint="success", unit="success")
    assert ended.jobs["gate"] == "failure"
    assert "device failed" in ended.log["gate"]


def test_device_tests_are_of_the_wheel_that_the_same_run_built(scratch: Scratch) -> None:
    payload = scratch.pull_request(CHANGED, pull_request("opened"))
    others = dict.fromkeys(("lint", "unit", "package.yml:verify"), "success")
    ended = scratch.run("pull_request", payload, WORKFLOW, stand_for=others)
    assert ended.jobs["device tests/device"] == "success", ended.told
    # Put before the one that is installed, which is 1.0 as well, and gone afterwards.
    assert "Successfully installed demo" in ended.log["device tests/device"]
