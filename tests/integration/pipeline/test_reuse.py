"""A merge queue's run takes a pull request's results: with real repositories, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run as spyre_ci
from ci.pipeline.plan_identity import write_parts
from ci.pipeline.reuse import MAX_LOOKED_AT
from ci.report.results import read_summary
from test_selection.plan import read_plan
from tests.github_api import GitHubApi, artifact, pull, workflow_run
from tests.pipeline_runs import IMAGE, plan_folder, run_journals, zipped
from tests.repositories import commit, git

Spyre = Callable[..., int]
Event = Callable[[str, Any], None]
IDS = [f"test_a.py::A::test_{number}" for number in range(4)]
GREEN = dict.fromkeys(IDS, "passed")
WORKFLOW = ".github/workflows/pull-request.yml"


@dataclass
class Queue:
    """A repository with a pull request in its merge queue, and the checkout of the queue's commit."""

    api: GitHubApi
    upstream: Path
    base: str
    head: str
    group: str
    tmp_path: Path
    run_dir: Path
    event: Event

    @property
    def parts(self) -> dict[str, str]:
        tree = git(self.upstream, "rev-parse", f"{self.group}^{{tree}}")
        return {
            "tree": tree,
            "image": IMAGE,
            "tests": "7e575",
            "torch": "2.13.0 0123",
            "back_end": "emulated 1",
            "settings": "5e77",
        }

    def begin(self, **changed: str) -> None:
        """The merge queue's run is planned, and its event is there."""
        write_parts(self.run_dir, self.parts | changed)
        ref = f"refs/heads/gh-readonly-queue/main/pr-7-{self.base}"
        group = {
            "head_sha": self.group,
            "head_ref": ref,
            "base_sha": self.base,
            "base_ref": "refs/heads/main",
        }
        self.event("merge_group", {"merge_group": group})

    def ran(
        self,
        number: int = 50,
        *,
        outcomes: dict[str, str] | None = None,
        parts: dict[str, str] | None = None,
        name: str = "results",
        image: str = IMAGE,
        ids: Sequence[str] = IDS,
        shards: int = 2,
        plan: str | None = None,
        **run: Any,
    ) -> None:
        """The pull request's run, and what it handed on."""
        repository = self.api.repositories["o/r"]
        repository.runs[number] = workflow_run(number, **({"sha": self.head, "head": "fork/r"} | run))
        folder = self.tmp_path / f"theirs-{number}"
        planned = plan_folder(folder, ids, shards=shards)
        if plan is not None:
            (folder / "plan.json").write_text(plan)
        run_journals(folder, planned, GREEN if outcomes is None else outcomes, image=image)
        write_parts(folder, self.parts if parts is None else self.parts | parts)
        data = zipped(folder)
        repository.artifacts[number] = artifact(number, name, run=number, size=len(data))
        repository.blobs[number] = data


@pytest.fixture
def queue(api: GitHubApi, job: Path, tmp_path: Path, event: Event, monkeypatch: pytest.MonkeyPatch) -> Queue:
    upstream = tmp_path / "upstream"
    upstream.mkdir()
    git(upstream, "init", "-q", "-b", "main")
    commit(upstream, {"a.txt": "one\n"})
    git(upstream, "checkout", "-q", "-b", "feature")
    head = commit(upstream, {"b.txt": "two\n"})
    git(upstream, "update-ref", "refs/pull/7/head", head)
    git(upstream, "checkout", "-q", "main")
    base = commit(upstream, {"c.txt": "three\n"})
    git(upstream, "merge", "-q", "--squash", "feature")
    git(upstream, "commit", "-q", "-m", "feature (#7)")
    group = git(upstream, "rev-parse", "HEAD")
    git(upstream, "branch", "-q", "queue")
    git(upstream, "reset", "-q", "--hard", base)
    git(upstream, "branch", "-q", "-D", "feature")
    # As the job's checkout has it: the queue's branch, and no other.
    job.rmdir()
    git(tmp_path, "clone", "-q", "--single-branch", "--branch", "queue", f"file://{upstream}", str(job))
    monkeypatch.chdir(job)
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", f"o/r/{WORKFLOW}@refs/heads/gh-readonly-queue/main/pr-7-{base}")
    monkeypatch.setenv("SPYRE_CI__REPORT__ENDPOINT", "none")
    monkeypatch.setenv("SPYRE_CI__STATE", str(tmp_path / "state"))
    api.repositories["o/r"].pulls = {7: pull(7, sha=head, head="fork/r")}
    run_dir = job / "runs" / "ci"
    plan_folder(run_dir, IDS)
    return Queue(
        api=api, upstream=upstream, base=base, head=head, group=group, tmp_path=tmp_path, run_dir=run_dir,
        event=event,
    )  # fmt: skip


def outputs(tmp_path: Path) -> dict[str, str]:
    rows = (tmp_path / "output").read_text().splitlines()
    return dict(row.split("=", 1) for row in rows)


def test_the_very_same_work_is_taken_reported_and_marked(queue: Queue, spyre: Spyre, tmp_path: Path) -> None:
    queue.begin()
    queue.ran()
    assert spyre("reuse", "runs/ci") == 0
    told = outputs(tmp_path)
    assert told["reused"] == "true"
    assert told["reused_run"] == "50"
    summary = read_summary(queue.run_dir / "summary.json")
    assert (summary.exit_code, summary.planned) == (0, 4)
    assert "nothing ran here: these are the results of run 50" in summary.notes[0]
    assert "nothing ran here" in (queue.run_dir / "summary.md").read_text()
    assert "nothing ran here" in (queue.run_dir / "report.html").read_text()
    # What another run took is that run's to remember.
    assert not (tmp_path / "state" / "history.sqlite").exists()
    assert spyre_ci(["report", "runs/ci"]) == 0
    assert read_summary(queue.run_dir / "summary.json").notes == summary.notes


# What is wrong with the pull request's run, and what is said of it.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"conclusion": "failure"}, "run 50 ended as failure"),
    ({"sha": "e" * 40}, "no run of"),
    ({"ids": IDS[:3]}, "run 50 planned other tests than it says"),
    ({"plan": "{"}, "run 50 has no plan that can be read"),
    ({"image": ""}, "did not run all of its tests in the required image, or does not record its image"),
    ({"image": f"quay.io/o/i@sha256:{'2' * 64}"}, "did not run all of its tests in the required image"),
    ({"outcomes": GREEN | {IDS[1]: "failed"}}, "does not pass here: 1 test failed"),
    ({"outcomes": GREEN | {IDS[3]: "not_run"}}, "does not pass here"),
    ({"outcomes": GREEN | {IDS[2]: "hardware"}}, "does not pass here"),
]


@pytest.mark.parametrize(("run", "said"), REFUSED)
def test_a_run_that_is_not_the_same_or_not_green_is_not_taken(
    queue: Queue, spyre: Spyre, run: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.begin()
    queue.ran(**run)
    before = (queue.run_dir / "plan.json").read_bytes()
    assert spyre("reuse", "runs/ci") == 0
    assert outputs(queue.tmp_path)["reused"] == "false"
    assert said in " ".join(capsys.readouterr().out.split())
    assert (queue.run_dir / "plan.json").read_bytes() == before
    assert not (queue.run_dir / "journal").exists()


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_the_same_tests_are_the_same_work_however_they_were_dealt(
    queue: Queue, spyre: Spyre, tmp_path: Path, shards: int
) -> None:
    queue.begin()
    queue.ran(ids=IDS[::-1], shards=shards)
    assert spyre("reuse", "runs/ci") == 0
    assert outputs(tmp_path)["reused"] == "true"
    summary = read_summary(queue.run_dir / "summary.json")
    assert (summary.exit_code, summary.planned) == (0, len(IDS))
    assert len(read_plan(queue.run_dir / "plan.json").shards) == shards


def test_of_several_results_of_a_run_those_that_fit_are_taken(
    queue: Queue, spyre: Spyre, tmp_path: Path
) -> None:
    queue.begin()
    queue.ran(50, name="results-pinned")
    other = queue.tmp_path / "other"
    write_parts(other, queue.parts | {"torch": "another"})
    data = zipped(other)
    queue.api.repositories["o/r"].artifacts[49] = artifact(49, "results-main", run=50, size=len(data))
    queue.api.repositories["o/r"].blobs[49] = data
    assert spyre("reuse", "runs/ci") == 0
    assert outputs(tmp_path)["reused"] == "true"
    assert read_summary(queue.run_dir / "summary.json").planned == 4


def test_an_older_run_that_fits_is_taken_where_the_newest_does_not(
    queue: Queue, spyre: Spyre, tmp_path: Path
) -> None:
    queue.begin()
    queue.ran(50)
    queue.ran(51, outcomes=GREEN | {IDS[0]: "failed"})
    queue.ran(52, parts={"image": "another"})
    assert spyre("reuse", "runs/ci") == 0
    assert outputs(tmp_path)["reused_run"] == "50"


def test_no_more_runs_are_fetched_than_are_looked_at(queue: Queue, spyre: Spyre, tmp_path: Path) -> None:
    queue.begin()
    queue.ran(50)
    for number in range(51, 51 + MAX_LOOKED_AT):
        queue.ran(number, parts={"image": "another"})
    assert spyre("reuse", "runs/ci") == 0
    assert outputs(tmp_path)["reused_run"] == ""


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("d.txt", "gives another tree"),
        ("c.txt", "nothing is reused: the pull request's newest commit does not merge"),
    ],
    ids=["moved on", "no longer merges"],
)
def test_a_pull_request_that_is_no_more_what_the_group_has_gives_no_results(
    queue: Queue, spyre: Spyre, file: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.begin()
    git(queue.upstream, "checkout", "-q", "--detach", queue.head)
    moved = commit(queue.upstream, {file: "otherwise\n"})
    git(queue.upstream, "update-ref", "refs/pull/7/head", moved)
    queue.api.repositories["o/r"].pulls = {7: pull(7, sha=moved)}
    queue.ran(sha=moved)
    assert spyre("reuse", "runs/ci") == 0
    assert outputs(queue.tmp_path)["reused"] == "false"
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"image": ""}, "the plan does not record its image"),
        ({"tree": "another"}, "the plan is of another tree"),
    ],
)
def test_a_plan_that_does_not_know_what_it_is_of_takes_nothing(
    queue: Queue, spyre: Spyre, changed: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.begin(**changed)
    queue.ran(parts=changed)
    assert spyre("reuse", "runs/ci") == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_asked_or_read_leaves_everything_to_be_run(
    queue: Queue,
    spyre: Spyre,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue.begin()
    queue.ran()
    queue.api.fail(
        "status", path="actions/runs$", status=403, message="Resource not accessible by integration"
    )
    assert spyre("reuse", "runs/ci") == 0
    queue.api.repositories["o/r"].blobs[50] = b"no zip"
    assert spyre("reuse", "runs/ci") == 0
    queue.api.repositories["o/r"].artifacts[50]["expired"] = True
    assert spyre("reuse", "runs/ci") == 0
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", f"other/repo/{WORKFLOW}@main")
    assert spyre("reuse", "runs/ci") == 0
    monkeypatch.delenv("GITHUB_TOKEN")
    assert spyre("reuse", "runs/ci") == 0
    told = " ".join(capsys.readouterr().out.split())
    for said in (
        "not accessible",
        "cannot be used",
        "have expired",
        "not one of this repository",
        "no token",
    ):
        assert said in told
    assert set((tmp_path / "output").read_text().splitlines()) == {
        "reused=false",
        "reused_run=",
        "reused_url=",
    }


def test_a_commit_that_cannot_be_had_leaves_everything_to_be_run(
    queue: Queue, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.begin()
    git(queue.upstream, "update-ref", "-d", "refs/pull/7/head")
    queue.api.repositories["o/r"].pulls = {7: pull(7, sha="e" * 40)}
    assert spyre("reuse", "runs/ci") == 0
    assert "the commit eeeeeeeeeeee of pull request 7 cannot be fetched" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_note_of_reuse_that_is_broken_is_told(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    queue.ran()
    (queue.run_dir / "journal").mkdir()
    (queue.run_dir / "reused.json").write_text('{"schema": "spyre-ci/reused/1", "run_id": "x"}')
    assert spyre_ci(["report", "runs/ci"]) == 2
    assert "of the wrong kind" in capsys.readouterr().err


def test_what_is_checked_out_has_to_be_the_queue_s_commit(
    queue: Queue, spyre: Spyre, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.begin()
    queue.ran()
    commit(job, {"e.txt": "five\n"})
    assert spyre("reuse", "runs/ci") == 0
    assert "the commit that is checked out is not the merge queue's" in " ".join(
        capsys.readouterr().out.split()
    )


def test_an_event_of_no_queue_and_a_folder_without_a_plan(
    queue: Queue, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.event("merge_group", {"merge_group": {"head_sha": queue.group, "head_ref": "refs/heads/main"}})
    assert spyre("reuse", "runs/ci") == 0
    assert "does not name a pull request" in " ".join(capsys.readouterr().out.split())
    queue.event("push", {})
    assert spyre("reuse", "runs/ci") == 2
    assert spyre("reuse", "runs/other") == 2
    assert "plan first" in capsys.readouterr().err


def test_a_run_that_has_begun_takes_no_other_s_results(
    queue: Queue, spyre: Spyre, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.begin()
    queue.ran()
    (queue.run_dir / "journal").mkdir()
    assert spyre("reuse", "runs/ci") == 0
    assert outputs(tmp_path)["reused"] == "false"
    assert "the run has already started" in " ".join(capsys.readouterr().out.split())
    assert not (queue.run_dir / "reused.json").exists()
