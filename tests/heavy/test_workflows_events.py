"""Workflows that other events begin, executed by act on this machine: comments, releases, nights, PyTorch.

GitHub's API, the package index and the HUD are servers on loopback.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.github_api import TOKEN as GITHUB_TOKEN
from tests.github_api import GitHubApi, Repository, artifact, pull, workflow_run
from tests.heavy import demo_project
from tests.heavy.act import LOST, PROJECT, Ended, Scratch, git, make_scratch
from tests.heavy.payloads import example
from tests.integration.package.publish.releases import TOKEN as INDEX_TOKEN
from tests.integration.package.publish.releases import USER
from tests.integration.package.publish.servers import pypiserver
from tests.pipeline_runs import report_folder, zipped

TINY = """\
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize


class TestTiny(TestCase):
    # As many as a small stage takes some of.
    @parametrize("number", range(10_000))
    def test_sum(self, device, number):
        self.assertEqual((torch.ones(1, device=device) + number).item(), number + 1)


instantiate_device_type_tests(TestTiny, globals(), only_for=("spyre", "privateuse1"))
"""

SECRETS = {"INDEX_TOKEN": INDEX_TOKEN}


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return make_scratch(tmp_path, demo_project.files())


@pytest.fixture
def api(scratch: Scratch) -> Iterator[GitHubApi]:
    head = scratch.git("rev-parse", "HEAD")
    with GitHubApi() as server:
        server.repositories[PROJECT] = Repository(pulls={7: pull(7, sha=head, head=PROJECT, base=PROJECT)})
        yield server


def with_api(api: GitHubApi) -> dict[str, Any]:
    return {"environ": {"GITHUB_API_URL": api.url}}


def test_the_comment_of_a_pull_request_tells_its_newest_run(
    scratch: Scratch, api: GitHubApi, tmp_path: Path
) -> None:
    repository = api.repositories[PROJECT]
    sha = repository.pulls[7]["head"]["sha"]
    # A run is commented on whose workflow the default branch has.
    workflow = scratch.work / ".github" / "workflows" / "pull-request.yml"
    workflow.parent.mkdir(parents=True, exist_ok=True)
    workflow.write_text("name: pull request\n", encoding="utf-8")
    scratch.git("add", "--force", ".github/workflows/pull-request.yml")
    scratch.git("commit", "--quiet", "--message", "a workflow")
    results = report_folder(tmp_path / "reported", {"t.py::T::a": "passed", "t.py::T::b": "failed"})
    run = workflow_run(11, conclusion="failure", sha=sha, head=PROJECT)
    data = zipped(results)
    repository.runs, repository.blobs = {11: run}, {5: data}
    repository.artifacts = {5: artifact(5, "results", run=11, size=len(data))}
    payload = example("workflow_run", "completed")
    payload["workflow_run"] = run
    ended = scratch.run(
        "workflow_run", payload, "pr-comment.yml", secrets={"GITHUB_TOKEN": GITHUB_TOKEN}, **with_api(api)
    )
    assert ended.jobs == {"comment": "success"}, ended.told
    (comment,) = repository.comments.values()
    assert "t.py::T::b" in comment["body"]


@contextmanager
def index(folder: Path) -> Iterator[dict[str, str]]:
    """A package index of the name `stage`, as the environment says it."""
    with pypiserver(folder / "index") as address:
        prefix = "SPYRE_CI__PACKAGE__INDEXES__STAGE__"
        yield {
            f"{prefix}UPLOAD": f"{address}/",
            f"{prefix}SIMPLE": f"{address}/simple/",
            f"{prefix}USER": USER,
            f"{prefix}GATE": "merge",
        }


def published(folder: Path) -> list[str]:
    return sorted(one.name for one in (folder / "index" / "packages").iterdir())


def merged(scratch: Scratch, environ: dict[str, str], **how: Any) -> Ended:
    """What becomes of a push to main."""
    payload = example("push")
    payload.update(ref="refs/heads/main", after=scratch.git("rev-parse", "HEAD"))
    words = ("--var", "SPYRE_CI_PREVIEW_INDEX=stage")
    return scratch.run("push", payload, "release.yml", *words, environ=environ, secrets=SECRETS, **how)


def test_what_is_merged_is_published_as_a_preview(scratch: Scratch, tmp_path: Path) -> None:
    with index(tmp_path) as environ:
        ended = merged(scratch, environ)
    jobs = (
        "changes/changes", "release checks/lint", "release checks/unit", "package/build", "package/verify",
        "publish preview",
    )  # fmt: skip
    assert ended.jobs == dict.fromkeys(jobs, "success"), ended.told
    names = [re.match(r"demo-1\.0\.dev1\+g[0-9a-f]+(.+)", one) for one in published(tmp_path)]
    assert [one and one[1] for one in names] == ["-py3-none-any.whl", ".tar.gz"]


# A test that leaves records of other steps wherever a later job might look for them.
PLANTS = """\
import json
import subprocess
from pathlib import Path


def test_that_plants_records() -> None:
    state = next(one for one in Path(__file__).resolve().parents if one.name == ".spyre-ci")
    words = ["git", "-C", str(state.parent), "rev-parse", "HEAD"]
    commit = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    content = {"project": "demo", "commit": commit, "dirty": [], "passed": True}
    for step in ("lint", "verify", "device"):
        said = json.dumps({"schema": f"spyre-ci/package-{step}/1", **content})
        for folder in (state / "records", state / "records" / f"record-{step}"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{step}.json").write_text(said)
"""


def test_a_record_that_a_test_plants_opens_no_gate(scratch: Scratch, tmp_path: Path) -> None:
    scratch.commit({"tests/unit/test_plants.py": PLANTS})
    with index(tmp_path) as environ:
        # A job that ends well without a word of what it looked at.
        ended = merged(scratch, environ, stand_for={"release-checks.yml:lint": "success"})
        assert ended.jobs["release checks/unit"] == "success", ended.told
        assert ended.jobs["publish preview"] == "failure", ended.told
        assert "lint: was not run" in ended.log["publish preview"]
        handed_on = {one.name for one in (scratch.artifacts / "record-unit").iterdir()}
        assert handed_on == {"unit.json"}
        assert published(tmp_path) == []


def test_a_release_is_published_once_its_gate_is_open(scratch: Scratch, tmp_path: Path) -> None:
    scratch.git("tag", "v1.0")
    payload = example("release", "published")
    payload["release"].update(tag_name="v1.0", prerelease=False, draft=False)
    words = ("--var", "SPYRE_CI_RELEASE_INDEX=stage")
    with index(tmp_path) as environ:
        ended = scratch.run("release", payload, "release.yml", *words, environ=environ, secrets=SECRETS)
        jobs = {"release checks/lint", "release checks/unit", "package/verify", "prove", "publish release"}
        assert jobs <= ended.jobs.keys(), ended.told
        assert set(ended.jobs.values()) == {"success"}, ended.told
        assert published(tmp_path) == ["demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz"]
        # The full gate wants the device tests on cards, and these ran on none.
        names = ("lint", "unit", "package", "device", "pytorch")
        before = {f"release-checks.yml:{name}": "success" for name in names}
        full = {**environ, "SPYRE_CI__PACKAGE__INDEXES__STAGE__GATE": "full"}
        again = scratch.run(
            "release", payload, "release.yml", *words, environ=full, secrets=SECRETS, stand_for=before
        )
    assert again.jobs["prove"] == "failure"
    assert "device: ran on the emulated device" in again.log["prove"]
    assert "publish release" not in again.jobs


@contextmanager
def hud(folder: Path, **settings: int) -> Iterator[tuple[str, str]]:
    """The embedded HUD server, which knows of the dispatch; its address and its token."""
    folder.mkdir()
    content = {"report": {"repository": PROJECT}, "hud": settings}
    (folder / "spyre-ci.yaml").write_text(json.dumps(content), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "ci.cli", "hud", "serve", "--port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.match(r"HUD on (http://\S+)/ ", process.stdout.readline())
        assert found is not None
        token = (folder / ".spyre-ci" / "hud-token").read_text(encoding="utf-8").strip()
        known = requests.post(
            f"{found[1]}/api/dispatch",
            json={"delivery_id": "d-1"},
            headers={"Authorization": f"Bearer {token}"},
            timeout=20,
        )
        assert known.ok, known.text
        yield found[1], token
    finally:
        process.kill()
        process.communicate(timeout=30)


def pytorch_repository(scratch: Scratch) -> str:
    """A repository that stands for PyTorch's, and is found at its address; its commit."""
    folder = scratch.folder / "github.com" / "pytorch" / "pytorch"
    if folder.exists():
        return git(folder, "rev-parse", "HEAD")
    (folder / "test").mkdir(parents=True)
    (folder / "test" / "test_op_suite.py").write_text(TINY, encoding="utf-8")
    (folder / "version.txt").write_text("2.13.0\n", encoding="utf-8")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "add", "--all")
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    git(folder, *who, "commit", "--quiet", "--message", "tiny")
    (scratch.folder / "home" / ".gitconfig").write_text(
        f'[url "file://{scratch.folder}/github.com/"]\n\tinsteadOf = https://github.com/\n', encoding="utf-8"
    )
    return git(folder, "rev-parse", "HEAD")


def asked_by_relay(scratch: Scratch, address: str, token: str, **how: Any) -> Ended:
    """What becomes of a dispatch of PyTorch's relay."""
    payload = example("repository_dispatch")
    payload["action"] = "pull_request"
    payload["client_payload"] = {
        "event_type": "pull_request",
        "delivery_id": "d-1",
        "payload": {
            "action": "synchronize",
            "pull_request": {"number": 7, "head": {"sha": pytorch_repository(scratch)}},
            "repository": {"full_name": "pytorch/pytorch"},
        },
    }
    environ = {"SPYRE_CI_HUD_TOKEN": token, **how.pop("environ", {})}
    words = ("--var", f"SPYRE_CI_HUD_ENDPOINT={address}")
    return scratch.run("repository_dispatch", payload, "upstream-pr.yml", *words, environ=environ, **how)


def reported(folder: Path) -> list[dict[str, Any]]:
    """The jobs in a server's store, by attempt."""
    with closing(sqlite3.connect(folder / ".spyre-ci" / "store.sqlite")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM crcr_workflow_job ORDER BY run_attempt")]


def test_pytorchs_relay_hears_once_that_tests_begin_and_once_that_they_ended(
    scratch: Scratch, tmp_path: Path
) -> None:
    with hud(tmp_path / "hud") as (address, token):
        ended = asked_by_relay(scratch, address, token)
        assert set(ended.jobs.values()) == {"success"}, ended.told
    # One job: both callbacks were about the same check run.
    (row,) = reported(tmp_path / "hud")
    assert (row["status"], row["conclusion"], row["delivery_id"]) == ("completed", "success", "d-1")
    assert row["started_at"] < row["completed_at"]
    assert row["job_name"].startswith("PyTorch tests (")
    assert row["artifact_url"] == "https://github.example/artifacts/results"
    assert row["passed_tests"] > 0
    assert "HUD: reported the run's start" in ended.log["plan/tell that it begins"]
    # It travelled with the plan: the job that reports told the end alone.
    assert "HUD: reported to" in ended.log["PyTorch tests/report"]
    assert "HUD: warning" not in ended.log["PyTorch tests/report"]


def test_what_was_cancelled_is_told_so_and_failed_jobs_run_again_are_an_attempt_of_their_own(
    scratch: Scratch, tmp_path: Path
) -> None:
    # Two reports of one job in a minute are one too many: the second waits it out.
    with hud(tmp_path / "hud", rate_limit=1) as (address, token):
        lost = {"spyre-ci": LOST}
        cancelled = {"pytorch-tests.yml:cancelled": "reached"}
        first = asked_by_relay(scratch, address, token, programs=lost, stand_for=cancelled)
        assert first.jobs["PyTorch tests/leg 1-2"] == "failure", first.told
        # What succeeded is not run again: the plan, and that the first attempt began, are as they were.
        kept = {f"plan.yml:{name}": "success" for name in ("plan", "begin")}
        (scratch.folder / "bin" / "spyre-ci").unlink()
        again = asked_by_relay(scratch, address, token, stand_for=kept, environ={"GITHUB_RUN_ATTEMPT": "2"})
        assert again.jobs["PyTorch tests/report"] == "success", again.told
    one, two = reported(tmp_path / "hud")
    assert (one["run_attempt"], one["status"], one["conclusion"]) == (1, "completed", "cancelled")
    # Of what was not started nothing is failed.
    assert (one["failed_tests"], one["total_tests"]) == (0, one["passed_tests"])
    assert (two["run_attempt"], two["status"], two["conclusion"]) == (2, "completed", "success")
    assert one["run_id"] == two["run_id"] == "4711"
    assert two["total_tests"] > one["total_tests"] > 0


def test_a_night_runs_the_stage_on_the_pinned_pytorch_and_on_main(scratch: Scratch) -> None:
    pytorch_repository(scratch)
    payload = {"schedule": "17 2 * * *", "repository": example("push")["repository"]}
    ended = scratch.run("schedule", payload, "nightly.yml")
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert ended.jobs["nightly gate"] == "success"
    assert {one.name for one in scratch.artifacts.glob("results-*")} == {"results-pinned", "results-main"}
    assert list(scratch.artifacts.glob("preview/*.whl"))


def test_what_is_no_report_is_not_handed_on_to_the_hud(scratch: Scratch) -> None:
    payload = {**example("workflow_dispatch"), "inputs": {"report": "{}"}}
    ended = scratch.run("workflow_dispatch", payload, "hud-report.yml")
    assert ended.jobs == {"forward": "failure"}, ended.told
    assert "remedy" in ended.log["forward"]
