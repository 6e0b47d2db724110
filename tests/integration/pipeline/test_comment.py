"""The comment on a pull request, over HTTP, from what runs hand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


@pytest.fixture(autouse=True)
def workflow(job: Path) -> None:
    """The checkout has the workflow whose runs are commented on."""
    path = job / ".github" / "workflows" / "pull-request.yml"
    path.parent.mkdir(parents=True)
    path.touch()


def hand_on(
    api: GitHubApi,
    tmp_path: Path,
    run: dict[str, Any],
    outcomes: Mapping[str, str],
    name: str = "results",
    *,
    pytorch: str = "2.13.0",
    known: Sequence[str] | bytes = (),
) -> None:
    """Let a run have ended with these outcomes, handed on as an artifact."""
    repository = api.repositories["o/r"]
    number = next(api.ids)
    repository.runs[run["id"]] = run
    folder = report_folder(tmp_path / f"run-{number}", outcomes, pytorch=pytorch)
    if isinstance(known, bytes):
        (folder / "catalog.jsonl.gz").write_bytes(known)
    elif known:
        add_catalog(folder, known)
    data = zipped(folder)
    repository.artifacts[number] = artifact(number, name, run=run["id"], size=len(data))
    repository.blobs[number] = data


def ended(number: int = 50, **content: Any) -> dict[str, Any]:
    return workflow_run(number, head="fork/r", conclusion="failure", **content)


def bodies(api: GitHubApi, login: str = BOT) -> list[str]:
    rows = api.repositories["o/r"].comments.values()
    return [row["body"] for row in rows if row["user"]["login"] == login]


def test_what_changed_against_main_is_said_test_by_test(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    main = workflow_run(40, event="push", branch="main", sha="c" * 40)
    hand_on(api, tmp_path, main, THEN)
    # A fork's branch may be called main as well.
    hand_on(api, tmp_path, workflow_run(45, event="push", branch="main", head="fork/r"), NOW)
    hand_on(api, tmp_path, ended(50), NOW)
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert "Against `main at cccccccccccc`" in body
    assert "**1 newly failing**\n  - `t.py::A::test_bad`" in body
    assert "**1 still failing**\n  - `t.py::B::test_old`" in body


def test_tests_that_a_change_adds_and_takes_away_are_said_where_both_runs_have_catalogs(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    main = workflow_run(40, event="push", branch="main", sha="c" * 40)
    hand_on(api, tmp_path, main, THEN, known=[*THEN, "t.py::A::test_gone"])
    hand_on(
        api, tmp_path, ended(50), NOW | {"t.py::A::test_new": "failed"}, known=[*NOW, "t.py::A::test_new"]
    )
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert "**1 new and failing**\n  - `t.py::A::test_new`" in body
    assert "**1 vanished: there is no such test here**\n  - `t.py::A::test_gone`" in body
    # What a stranger broke costs only what it would have told.
    hand_on(api, tmp_path, ended(51), NOW, known=b"no catalog")
    event("workflow_run", {"workflow_run": ended(51)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert "**1 newly failing**" in body
    assert "vanished:" not in body


def test_where_main_has_no_such_results_those_of_a_night_with_the_same_pytorch_are_compared(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    night: dict[str, Any] = {"event": "schedule", "branch": "main", "path": ".github/workflows/nightly.yml"}
    hand_on(api, tmp_path, workflow_run(40, sha="c" * 40, **night), THEN, "results-pinned")
    later = workflow_run(41, sha="d" * 40, **night)
    hand_on(api, tmp_path, later, THEN, "results-main", pytorch="2.14.0a0")
    hand_on(api, tmp_path, ended(50), NOW)
    hand_on(api, tmp_path, ended(50), NOW, "device.1")
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert body.count("Against `main at cccccccccccc`") == 1
    assert "Not compared with main: `no run of main has such results`" in body


def test_other_names_have_comments_of_their_own(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    hand_on(api, tmp_path, ended(50), NOW)
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == spyre("comment", "--name", "nightly") == spyre("comment") == 0
    assert len(bodies(api)) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"sha": "d" * 40},
        {"ref": "another"},
        {"head": "someone/r"},
        {"state": "closed"},
    ],
)
def test_a_run_whose_pull_request_moved_on_is_not_commented_on(
    api: GitHubApi, event: Event, spyre: Spyre, other: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    api.repositories["o/r"].pulls = {7: pull(7, **({"head": "fork/r"} | other))}
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    assert bodies(api) == []
    assert "no open pull request" in capsys.readouterr().out


def test_what_a_run_says_of_its_own_pull_requests_counts_for_nothing(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    api.repositories["o/r"].pulls[8] = pull(8, sha="e" * 40, ref="other")
    hand_on(api, tmp_path, ended(50), NOW)
    event("workflow_run", {"workflow_run": ended(50) | {"pull_requests": [{"number": 8}]}})
    assert spyre("comment") == 0
    assert [row["issue"] for row in api.repositories["o/r"].comments.values()] == [7]


def test_jobs_that_were_lost_or_failed_are_named_without_any_results(
    api: GitHubApi, event: Event, spyre: Spyre
) -> None:
    api.repositories["o/r"].jobs[50] = [
        {"name": "lint", "conclusion": "failure", "html_url": "https://github.com/o/r/actions/runs/50/job/1"},
        {"name": "leg `1` @all", "conclusion": "cancelled", "html_url": "javascript:alert(1)"},
        {"name": "unit", "conclusion": "success"},
        {"name": "going on", "conclusion": None},
    ]
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert "- `lint`: `failure` ([log](https://github.com/o/r/actions/runs/50/job/1))" in body
    assert "cancelled" in body
    assert "javascript" not in body
    assert "@all" not in body
    assert "`unit`" not in body
    assert "going on" not in body


def test_an_archive_that_cannot_be_used_is_told_and_the_comment_still_comes(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    repository = api.repositories["o/r"]
    hand_on(api, tmp_path, ended(50), NOW)
    folder = report_folder(tmp_path / "hostile", NOW)
    blobs = {
        901: zipped(folder, extra={"../../evil": b"x"}),
        902: b"no zip at all",
        903: zipped(folder)[:-30],
    }
    for number, data in blobs.items():
        repository.artifacts[number] = artifact(number, f"results-{number}x", run=50, size=len(data))
        repository.blobs[number] = data
    repository.artifacts[904] = artifact(904, "results-big", run=50, size=10**12)
    repository.artifacts[905] = artifact(905, "results-gone", run=50, expired=True)
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert body.count("no results") == 4
    assert "leads elsewhere" in body
    assert "2 of 3 tests failed" in body
    assert not (tmp_path / "evil").exists()


def test_the_newest_attempt_of_an_artifact_is_taken(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    hand_on(api, tmp_path, ended(50), NOW, "device.1")
    hand_on(api, tmp_path, ended(50), dict.fromkeys(NOW, "passed"), "device.2")
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert "**`device`**: 3 passed" in body
    assert "not green, though no test failed" in body


def test_a_run_of_a_push_is_not_commented_on(
    api: GitHubApi, event: Event, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    event("workflow_run", {"workflow_run": workflow_run(50, event="push")})
    assert spyre("comment") == 0
    assert "of no pull request" in capsys.readouterr().out
    assert api.seen == []


def test_a_comment_that_was_not_written_ends_as_incomplete(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_on(api, tmp_path, ended(50), NOW)
    event("workflow_run", {"workflow_run": ended(50)})
    api.fail("status", method="POST", path="comments", status=502)
    assert spyre("comment") == 3
    assert "502" in capsys.readouterr().err
    api.repositories["o/r"].writers = set()
    assert spyre("comment") == 2
    assert "under `permissions`" in capsys.readouterr().err


def test_a_folder_of_this_job_is_commented_on_beside_main_s(
    api: GitHubApi, job: Path, event: Event, spyre: Spyre
) -> None:
    report_folder(job / "runs" / "ci", NOW)
    report_folder(job / "runs" / "main", THEN)
    event("pull_request", {"pull_request": {"number": 7, "head": {"sha": "a" * 40}}})
    assert spyre("comment", "ci", "--base", "runs/main") == 0
    (body,) = bodies(api)
    assert "commit `aaaaaaaaaaaa`" in body
    assert "[run 55](https://github.com/o/r/actions/runs/55)" in body
    assert "**1 newly failing**" in body


def test_an_event_without_a_run_is_refused(
    event: Event, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    event("workflow_run", {"workflow_run": {"id": "x"}})
    assert spyre("comment") == 2
    assert "the event tells of no run" in capsys.readouterr().err


def test_of_another_ci_s_run_nobody_is_told_to_ask_github_for_it_again(
    api: GitHubApi, job: Path, spyre: Spyre, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS")
    for name, value in {
        "JENKINS_URL": "https://ci",
        "BUILD_NUMBER": "12",
        "BUILD_URL": "https://ci/j/12/",
    }.items():
        monkeypatch.setenv(name, value)
    report_folder(job / "runs" / "ci", NOW)
    assert spyre("comment", "ci", "--pull-request", "7", "--name", "jenkins/pr") == 0
    (body,) = bodies(api)
    assert "[run 12](https://ci/j/12/)" in body
    assert "start its jobs again from the run's page" in body


def test_a_folder_without_results_or_a_pull_request_is_refused(
    job: Path, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    (job / "runs" / "ci").mkdir(parents=True)
    assert spyre("comment", "runs/ci", "--pull-request", "7") == 2
    assert "there is no summary.json" in capsys.readouterr().err
    report_folder(job / "runs" / "ci", NOW)
    assert spyre("comment", "runs/ci") == 2
    assert "no pull request is named" in capsys.readouterr().err
    assert spyre("comment") == 2
    assert "there is no event of GitHub's" in capsys.readouterr().err


def test_results_of_calls_that_are_named_by_a_number_are_no_attempts_of_each_other(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre
) -> None:
    hand_on(api, tmp_path, ended(50), NOW, "results")
    hand_on(api, tmp_path, ended(50), dict.fromkeys(NOW, "passed"), "results-2")
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert "2 of 6 tests failed" in body


def test_a_list_that_is_longer_than_agreed_is_an_error_and_no_shorter_list(
    api: GitHubApi,
    event: Event,
    spyre: Spyre,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("ci.pipeline.github_runs.MAX_LISTED", 2)
    rows = {number: artifact(number, f"results-{number}", run=50) for number in (1, 2, 3)}
    api.repositories["o/r"].artifacts = rows
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 2
    assert "there are more than 2 artifacts of the run" in capsys.readouterr().err
    assert bodies(api) == []


@pytest.mark.parametrize(
    "path", [".github/workflows/theirs.yml", ".github/workflows/../../x.yml", "/etc/hostname", ""]
)
def test_a_workflow_that_a_pull_request_brings_is_not_commented_on_whatever_its_name(  # noqa: PLR0917  # fixtures
    api: GitHubApi,
    tmp_path: Path,
    event: Event,
    spyre: Spyre,
    capsys: pytest.CaptureFixture[str],
    path: str,
) -> None:
    run = ended(50, path=path, name="pull request")
    hand_on(api, tmp_path, run, NOW)
    event("workflow_run", {"workflow_run": run})
    assert spyre("comment") == 0
    assert bodies(api) == []
    assert "which is no workflow of this branch" in capsys.readouterr().out


def test_two_jobs_that_write_at_the_same_moment_leave_one_comment(
    api: GitHubApi, tmp_path: Path, event: Event, spyre: Spyre, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_on(api, tmp_path, ended(50), NOW)
    event("workflow_run", {"workflow_run": ended(50)})
    assert spyre("comment") == 0
    hand_on(api, tmp_path, ended(51), dict.fromkeys(NOW, "passed"))
    event("workflow_run", {"workflow_run": workflow_run(51, head="fork/r")})
    # This one looked before the other had written.
    seen: list[bool] = []

    def blind(*words: Any) -> Any:
        seen.append(True)
        return None if len(seen) == 1 else find(*words)

    monkeypatch.setattr(comment, "find", blind)
    assert spyre("comment") == 0
    (body,) = bodies(api)
    assert "nothing failed" in body
