"""The comment on a pull request, over HTTP, from what runs hand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ci.pipeline import comment
from ci.pipeline.comment import find
from tests.github_api import GitHubApi, artifact, pull, workflow_run
from tests.pipeline_runs import report_folder, zipped
from tests.unit.report.compare.making import add_catalog

Spyre = Callable[..., int]
Event = Callable[[str, Any], None]
BOT = "github-actions[bot]"
NOW = {"t.py::A::test_ok": "passed", "t.py::A::test_bad": "failed", "t.py::B::test_old": "failed"}
THEN = {"t.py::A::test_ok": "passed", "t.py::A::test_bad": "passed", "t.py::B::test_old": "failed"}
GREEN = dict.fromkeys(NOW, "passed")


def ended(number: int = 50, **content: Any) -> dict[str, Any]:
    """A run of a fork's pull request."""
    return workflow_run(number, **{"head": "fork/r", "conclusion": "failure", **content})


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A job that workflow_run began, and GitHub."""

    api: GitHubApi
    folder: Path
    event: Event
    spyre: Spyre
    capsys: pytest.CaptureFixture[str]

    def ran(
        self,
        outcomes: Mapping[str, str],
        run: dict[str, Any] | None = None,
        name: str = "results",
        *,
        pytorch: str = "2.13.0",
        known: Sequence[str] | bytes = (),
    ) -> None:
        """Let a run have ended with these outcomes, handed on as an artifact."""
        run, number = run or ended(), next(self.api.ids)
        self.api.repositories["o/r"].runs[run["id"]] = run
        folder = report_folder(self.folder / f"run-{number}", outcomes, pytorch=pytorch)
        if isinstance(known, bytes):
            (folder / "catalog.jsonl.gz").write_bytes(known)
        elif known:
            add_catalog(folder, known)
        self.hand_on(number, name, run["id"], zipped(folder))

    def hand_on(self, number: int, name: str, run: int, data: bytes) -> None:
        self.api.repositories["o/r"].artifacts[number] = artifact(number, name, run=run, size=len(data))
        self.api.repositories["o/r"].blobs[number] = data

    @property
    def bodies(self) -> list[str]:
        rows = self.api.repositories["o/r"].comments.values()
        return [row["body"] for row in rows if row["user"]["login"] == BOT]

    def comment(self, run: dict[str, Any] | None = None, *words: str, code: int = 0) -> str:
        """What is said of a run; empty where nothing is."""
        self.event("workflow_run", {"workflow_run": run or ended()})
        assert self.spyre("comment", *words) == code
        return (self.bodies or [""])[-1]

    def said(self) -> str:
        told = self.capsys.readouterr()
        return told.out + told.err


@pytest.fixture
def desk(  # noqa: PLR0917  # fixtures
    api: GitHubApi, job: Path, tmp_path: Path, event: Event, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> Desk:
    # The checkout has the workflow whose runs are commented on.
    path = job / ".github" / "workflows" / "pull-request.yml"
    path.parent.mkdir(parents=True)
    path.touch()
    return Desk(api=api, folder=tmp_path, event=event, spyre=spyre, capsys=capsys)


def test_what_changed_against_main_is_said_test_by_test(desk: Desk) -> None:
    desk.ran(THEN, workflow_run(40, event="push", branch="main", sha="c" * 40))
    # A fork's branch may be called main as well.
    desk.ran(NOW, workflow_run(45, event="push", branch="main", head="fork/r"))
    desk.ran(NOW)
    body = desk.comment()
    assert "Compared with `main at cccccccccccc`" in body
    assert "**1 newly failing**\n  - `t.py::A::test_bad`" in body
    assert "**1 still failing**\n  - `t.py::B::test_old`" in body


def test_tests_that_a_change_adds_and_takes_away_are_said_where_both_runs_have_catalogs(desk: Desk) -> None:
    main = workflow_run(40, event="push", branch="main", sha="c" * 40)
    desk.ran(THEN, main, known=[*THEN, "t.py::A::test_gone"])
    desk.ran(NOW | {"t.py::A::test_new": "failed"}, known=[*NOW, "t.py::A::test_new"])
    body = desk.comment()
    assert "**1 new and failing**\n  - `t.py::A::test_new`" in body
    assert "**1 removed: in base only**\n  - `t.py::A::test_gone`" in body
    # What a stranger broke costs only what it would have told.
    desk.ran(NOW, ended(51), known=b"no catalog")
    body = desk.comment(ended(51))
    assert "**1 newly failing**" in body
    assert "vanished:" not in body
    assert "its catalog is not used" in desk.said()


def test_where_main_has_no_such_results_those_of_a_night_with_the_same_pytorch_are_compared(
    desk: Desk,
) -> None:
    night: dict[str, Any] = {"event": "schedule", "branch": "main", "path": ".github/workflows/nightly.yml"}
    desk.ran(THEN, workflow_run(40, sha="c" * 40, **night), "results-pinned")
    desk.ran(THEN, workflow_run(41, sha="d" * 40, **night), "results-main", pytorch="2.14.0a0")
    desk.ran(NOW)
    desk.ran(NOW, name="device.1")
    body = desk.comment()
    assert body.count("Compared with `main at cccccccccccc`") == 1
    assert "Not compared with main: `no run of main has results to compare with`" in body


def test_other_names_have_comments_of_their_own(desk: Desk) -> None:
    desk.ran(NOW)
    for words in ((), ("--name", "nightly"), ()):
        desk.comment(None, *words)
    assert len(desk.bodies) == 2


@pytest.mark.parametrize(
    "other", [{"sha": "d" * 40}, {"ref": "another"}, {"head": "someone/r"}, {"state": "closed"}]
)
def test_a_run_whose_pull_request_moved_on_is_not_commented_on(desk: Desk, other: dict[str, Any]) -> None:
    desk.api.repositories["o/r"].pulls = {7: pull(7, **({"head": "fork/r"} | other))}
    assert desk.comment() == ""
    assert "no open pull request" in desk.said()


def test_what_a_run_says_of_its_own_pull_requests_counts_for_nothing(desk: Desk) -> None:
    desk.api.repositories["o/r"].pulls[8] = pull(8, sha="e" * 40, ref="other")
    desk.ran(NOW)
    desk.comment(ended() | {"pull_requests": [{"number": 8}]})
    assert [row["issue"] for row in desk.api.repositories["o/r"].comments.values()] == [7]


def test_jobs_that_were_lost_or_failed_are_named_without_any_results(desk: Desk) -> None:
    desk.api.repositories["o/r"].jobs[50] = [
        {"name": "lint", "conclusion": "failure", "html_url": "https://github.com/o/r/actions/runs/50/job/1"},
        {"name": "leg `1` @all", "conclusion": "cancelled", "html_url": "javascript:alert(1)"},
        {"name": "unit", "conclusion": "success"},
        {"name": "going on", "conclusion": None},
    ]
    body = desk.comment()
    assert "- `lint`: `failure` ([log](https://github.com/o/r/actions/runs/50/job/1))" in body
    assert "cancelled" in body
    assert [one for one in ("javascript", "@all", "`unit`", "going on") if one in body] == []


def test_an_archive_that_cannot_be_used_is_told_and_the_comment_still_comes(desk: Desk) -> None:
    desk.ran(NOW)
    folder = report_folder(desk.folder / "hostile", NOW)
    blobs = [zipped(folder, extra={"../../evil": b"x"}), b"no zip at all", zipped(folder)[:-30]]
    for number, data in enumerate(blobs, start=901):
        desk.hand_on(number, f"results-{number}x", 50, data)
    rows = desk.api.repositories["o/r"].artifacts
    rows[904] = artifact(904, "results-big", run=50, size=10**12)
    rows[905] = artifact(905, "results-gone", run=50, expired=True)
    body = desk.comment()
    assert body.count("no results") == 4
    assert "leads outside" in body
    assert "2 of 3 tests failed" in body
    assert not (desk.folder / "evil").exists()


def test_the_newest_attempt_of_an_artifact_is_taken_and_a_number_in_a_name_is_none(desk: Desk) -> None:
    desk.ran(NOW, name="device.1")
    desk.ran(GREEN, name="device.2")
    body = desk.comment()
    assert "**`device`**: 3 passed" in body
    assert "not green, though no test failed" in body
    desk.ran(NOW, ended(51), "results")
    desk.ran(GREEN, ended(51), "results-2")
    assert "2 of 6 tests failed" in desk.comment(ended(51))


def test_a_run_of_a_push_is_not_commented_on(desk: Desk) -> None:
    assert desk.comment(workflow_run(50, event="push")) == ""
    assert "the run does not belong to a pull request" in desk.said()
    assert desk.api.seen == []


def test_a_run_that_was_skipped_takes_no_comment_s_place(desk: Desk) -> None:
    desk.ran(NOW)
    before = desk.comment()
    # As GitHub ends ciflow.yml for a label that asks for nothing.
    assert desk.comment(ended(51, conclusion="skipped")) == before
    assert "the run was skipped" in desk.said()


def test_folders_of_any_ci_are_commented_on_beside_main_s(
    desk: Desk, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS")
    told = {"JENKINS_URL": "https://ci", "BUILD_NUMBER": "12", "BUILD_URL": "https://ci/j/12/"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    report_folder(job / "runs" / "ci", NOW)
    report_folder(job / "runs" / "main", THEN)
    words = ("runs/ci", "--base", "runs/main", "--pull-request", "7", "--name", "jenkins/pr")
    assert desk.spyre("comment", *words) == 0
    (body,) = desk.bodies
    assert "[run 12](https://ci/j/12/)" in body
    assert "**1 newly failing**" in body
    assert "rerun its jobs on the run's page" in body


def test_a_folder_without_results_a_pull_request_or_an_event_is_refused(desk: Desk, job: Path) -> None:
    (job / "runs" / "ci").mkdir(parents=True)
    assert desk.spyre("comment", "runs/ci", "--pull-request", "7") == 2
    assert "there is no summary.json" in desk.said()
    assert desk.spyre("comment", "runs/ci") == 2
    assert "no pull request is named" in desk.said()
    assert desk.spyre("comment") == 2
    assert "there is no GitHub event" in desk.said()
    for words in (("--pull-request", "8"), ("--base", "runs/ci")):
        assert desk.spyre("comment", *words) == 2
        assert f"{words[0]}: needs a run folder" in desk.said()
    desk.comment({"id": "x"}, code=2)
    assert "the event names no run" in desk.said()


def test_a_list_that_is_longer_than_agreed_is_an_error_and_no_shorter_list(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.pipeline.github_runs.MAX_LISTED", 2)
    rows = {number: artifact(number, f"results-{number}", run=50) for number in (1, 2, 3)}
    desk.api.repositories["o/r"].artifacts = rows
    assert desk.comment(code=2) == ""
    assert "there are more than 2 artifacts of the run" in desk.said()


@pytest.mark.parametrize(
    "path", [".github/workflows/theirs.yml", ".github/workflows/../../x.yml", "/etc/hostname", ""]
)
def test_a_workflow_that_a_pull_request_brings_is_not_commented_on_whatever_its_name(
    desk: Desk, path: str
) -> None:
    run = ended(50, path=path, name="pull request")
    desk.ran(NOW, run)
    assert desk.comment(run) == ""
    assert "not a workflow of this branch" in desk.said()


def test_two_jobs_that_write_at_the_same_moment_leave_one_comment_and_an_older_run_changes_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.ran(NOW)
    desk.comment()
    desk.ran(GREEN, ended(51))
    # This one looked before the other had written.
    seen: list[bool] = []

    def blind(*words: Any) -> Any:
        seen.append(True)
        return None if len(seen) == 1 else find(*words)

    monkeypatch.setattr(comment, "find", blind)
    assert "nothing failed" in desk.comment(ended(51, conclusion="success"))
    assert len(desk.bodies) == 1
    assert "nothing failed" in desk.comment(ended(50))
    assert "the comment is about a later run, so it stays" in desk.said()
