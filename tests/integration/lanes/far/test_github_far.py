"""A lane's runs on a GitHub that stands in, over real HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.config.lanes_model import GitHubWorkflow
from ci.errors import BadFileError, SettingsError, SpyreCiError
from ci.github.client import Client, Effects
from ci.github.errors import GitHubAwayError, GitHubDeniedError, GitHubMissingError, GitHubRefusedError
from ci.lanes.github import GitHubFar
from ci.lanes.order import Order, Standing
from ci.lanes.remote import Remote
from ci.lanes.remote_errors import MovedError, NotFindableError, UnsettledError
from ci.report.history import export_durations
from tests.github_api import TOKEN, GitHubApi, Repository, artifact
from tests.pipeline_runs import report_folder, zipped
from tests.stand_in import Answer

ORDER = "nightly-1772366400-1"
Make = Callable[..., Remote]


@pytest.fixture
def clock() -> list[float]:
    return [1_772_366_400.0]


@pytest.fixture
def make(github: GitHubApi, tmp_path: Path, clock: list[float]) -> Make:
    """An executor of the lane; each call is a worker that began anew."""

    def opened(_: object, api: str) -> Client:
        effects = Effects(monotonic=lambda: 0.0, sleep=lambda _: None, rng=lambda: 0.5)
        return Client(api=api, token=TOKEN, effects=effects, timeout_s=2, patience_s=10)

    def made(*, wants_results: bool = False, workflow: str = "nightly.yml", **inputs: str) -> Remote:
        to = GitHubWorkflow(repository="o/r", workflow=workflow, api=github.url, inputs=inputs)
        far = GitHubFar(to, {}, clock=lambda: clock[0], open_client=opened)
        return Remote(
            far=far, clock=lambda: clock[0], wants_results=wants_results, history=tmp_path / "history.sqlite"
        )

    return made


@pytest.fixture
def repository(github: GitHubApi) -> Repository:
    return github.repositories["o/r"]


def only(repository: Repository) -> dict[str, Any]:
    (run,) = repository.runs.values()
    return run


def hand_on(repository: Repository, number: int, name: str, blob: bytes, *, expired: bool = False) -> None:
    run = only(repository)["id"]
    repository.artifacts[number] = artifact(number, name, run=run, size=len(blob), expired=expired)
    repository.blobs[number] = blob


def test_a_run_waits_runs_and_brings_its_results_into_the_history(
    make: Make, order: Order, repository: Repository, tmp_path: Path
) -> None:
    executor = make(wants_results=True, stage="1")
    assert executor.find(order) is None
    reference = executor.start(order)
    run = only(repository)
    assert (reference, run["display_title"]) == (f"run {run['id']}", f"nightly {ORDER}")
    assert executor.look(order, reference).standing is Standing.STARTING
    run.update(status="in_progress")
    seen = executor.look(order, reference)
    assert (seen.standing, seen.url) == (Standing.RUNNING, run["html_url"])
    run.update(status="completed", conclusion="failure")
    made = report_folder(tmp_path / "far", {"test_0.py::T::a": "passed", "test_1.py::T::b": "failed"})
    hand_on(repository, 1, "results-pinned", zipped(made))
    hand_on(repository, 2, "results-other", zipped(tmp_path / "lanes"))
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code, seen.said) == (Standing.FAILED, 1, "the run failed")
    executor.fetch(order, reference)
    assert export_durations(tmp_path / "history.sqlite").tests == {"test_0.py::T::a": 0.5}


@pytest.mark.parametrize(
    ("status", "standing"),
    [
        ("queued", Standing.STARTING),
        ("waiting", Standing.STARTING),
        ("requested", Standing.STARTING),
        ("pending", Standing.STARTING),
        ("in_progress", Standing.RUNNING),
        ("something_new", Standing.RUNNING),
    ],
)
def test_what_has_not_ended_goes_on(
    make: Make, order: Order, repository: Repository, status: str, standing: Standing
) -> None:
    executor = make()
    reference = executor.start(order)
    only(repository).update(status=status)
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (standing, None)


@pytest.mark.parametrize(
    ("conclusion", "standing", "code"),
    [
        ("success", Standing.PASSED, 0),
        ("neutral", Standing.PASSED, 0),
        ("failure", Standing.FAILED, 1),
        ("cancelled", Standing.CANCELLED, 130),
        ("timed_out", Standing.TIMED_OUT, 3),
        ("skipped", Standing.INCOMPLETE, 3),
        ("action_required", Standing.INCOMPLETE, 3),
        ("stale", Standing.INCOMPLETE, 3),
        ("startup_failure", Standing.INCOMPLETE, 3),
        ("something_new", Standing.INCOMPLETE, 3),
        (None, Standing.INCOMPLETE, 3),
    ],
)
def test_every_conclusion_is_an_end(
    make: Make, order: Order, repository: Repository, *, conclusion: str | None, standing: Standing, code: int
) -> None:
    executor = make()
    reference = executor.start(order)
    only(repository).update(status="completed", conclusion=conclusion)
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (standing, code)


def test_an_older_github_that_does_not_tell_the_run_is_asked_by_its_name(
    make: Make, order: Order, repository: Repository, github: GitHubApi, clock: list[float]
) -> None:
    github.tells_runs = False
    executor = make()
    reference = executor.start(order)
    assert reference == "started"
    run = only(repository)
    repository.unlisted.add(run["id"])
    seen = executor.look(order, reference)
    assert (seen.standing, seen.said) == (Standing.STARTING, "GitHub does not list its run yet")
    executor.cancel(order, reference)
    repository.unlisted.clear()
    run.update(status="in_progress")
    assert executor.look(order, reference).standing is Standing.RUNNING
    repository.unlisted.add(run["id"])
    clock[0] += 700
    assert executor.look(order, reference).standing is Standing.GONE
    assert len(github.asked("POST", "/dispatches")) == 2


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["drop", "cut", "hang"])
def test_a_start_whose_answer_is_lost_is_found_and_not_repeated(
    make: Make, order: Order, repository: Repository, github: GitHubApi, clock: list[float], *, kind: Any
) -> None:
    github.fail(kind, method="POST", path="/dispatches", taken=True, seconds=3)
    with pytest.raises(GitHubAwayError, match="it may have been done all the same"):
        make().start(order)
    run = only(repository)
    # It is not listed yet, and somebody is in a hurry.
    repository.unlisted.add(run["id"])
    clock[0] += 2
    with pytest.raises(UnsettledError, match="after 600 s it is started again"):
        make().start(order)
    repository.unlisted.clear()
    assert make().start(order) == f"run {run['id']}"
    assert len(repository.runs) == 1


def test_attempts_are_not_taken_for_each_other(
    make: Make, make_order: Callable[..., Order], repository: Repository
) -> None:
    first = make().start(make_order(attempt=10))
    assert make().find(make_order(attempt=1)) is None
    assert make().start(make_order(attempt=1)) != first
    assert len(repository.runs) == 2


def test_a_run_that_cannot_be_read_yet_is_not_gone(
    make: Make, order: Order, github: GitHubApi, clock: list[float]
) -> None:
    executor = make()
    reference = executor.start(order)
    github.fail(path="/actions/runs/", status=404, message="Not Found", times=1)
    clock[0] += 20
    seen = executor.look(order, reference)
    assert seen.standing is Standing.STARTING
    assert seen.said == f"GitHub does not show {reference} yet"
    assert executor.look(order, reference).standing is Standing.STARTING


def test_another_repository_in_the_settings_is_another_place(
    make: Make, order: Order, github: GitHubApi
) -> None:
    reference = make().start(order)
    executor = make()
    executor.far.place = f"{github.url} o/other"
    with pytest.raises(MovedError, match=r"o/r, and its lane is at another place now: .* o/other"):
        executor.look(order, reference)


def test_a_run_that_was_deleted_is_gone(
    make: Make, order: Order, repository: Repository, clock: list[float]
) -> None:
    executor = make()
    reference = executor.start(order)
    repository.runs.clear()
    clock[0] += 700
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (Standing.GONE, 3)
    assert "was deleted" in seen.said
    executor.cancel(order, reference)


def test_a_workflow_that_is_hidden_is_not_taken_for_a_deleted_run(
    make: Make, order: Order, repository: Repository
) -> None:
    executor = make()
    reference = executor.start(order)
    repository.runs.clear()
    repository.workflows.clear()
    with pytest.raises(GitHubMissingError):
        executor.look(order, reference)


def test_a_cancel_ends_a_run_and_one_that_ended_is_no_error(
    make: Make, order: Order, repository: Repository
) -> None:
    executor = make()
    reference = executor.start(order)
    executor.cancel(order, reference)
    assert only(repository)["conclusion"] == "cancelled"
    executor.cancel(order, reference)
    assert executor.look(order, reference).exit_code == 130


def test_a_cancel_that_is_refused_while_the_run_goes_on_is_told(
    make: Make, order: Order, github: GitHubApi
) -> None:
    executor = make()
    reference = executor.start(order)
    github.fail(method="POST", path="/cancel", status=409, message="Cannot cancel")
    with pytest.raises(GitHubRefusedError, match="with 409: Cannot cancel"):
        executor.cancel(order, reference)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("on: push\n", BadFileError, "it has no `workflow_dispatch`"),
        ("on: [push, schedule]\n", BadFileError, "it has no `workflow_dispatch`"),
        ("on: {workflow_dispatch: }\n", NotFindableError, "do not hold the input idempotency_key"),
        (
            "on: {workflow_dispatch: {inputs: {idempotency_key: {type: string}}}}\n",
            NotFindableError,
            "do not hold the input idempotency_key",
        ),
    ],
)
def test_a_workflow_that_cannot_be_started_and_found_again_is_refused(
    make: Make, order: Order, repository: Repository, *, text: str, kind: type[SpyreCiError], said: str
) -> None:
    repository.workflows["other.yml"] = text
    with pytest.raises(kind, match=said) as caught:
        make(workflow="other.yml").start(order)
    assert caught.value.exit_code == 2
    assert repository.runs == {}


@pytest.mark.parametrize("status", [403, 404])
def test_who_may_not_read_the_workflow_is_refused_by_github_itself(
    make: Make, make_order: Callable[..., Order], repository: Repository, github: GitHubApi, status: int
) -> None:
    github.fail(path="/contents/", status=status, message="Resource not accessible", times=3)
    assert make().start(make_order(1)).startswith("run ")
    repository.workflows["other.yml"] = "on: [workflow_dispatch]\n"
    with pytest.raises(GitHubRefusedError, match="Unexpected inputs provided"):
        make(workflow="other.yml").start(make_order(2))
    repository.workflows["other.yml"] = "on: push\n"
    with pytest.raises(GitHubRefusedError, match="does not have 'workflow_dispatch' trigger"):
        make(workflow="other.yml").start(make_order(3))


def test_a_github_whose_limit_is_reached_is_not_asked_before_that_is_over(
    make: Make, order: Order, github: GitHubApi, clock: list[float]
) -> None:
    executor = make()
    reference = executor.start(order)
    github.fail("secondary", retry_after=300)
    for _ in range(3):
        with pytest.raises(GitHubAwayError, match="GitHub's limit is reached, for 300 s more"):
            executor.look(order, reference)
    asked = len(github.seen)
    clock[0] += 301
    assert executor.look(order, reference).standing is Standing.STARTING
    assert len(github.seen) == asked + 1
    # A limit of before the clock was set back closes nothing.
    github.fail("secondary", retry_after=300)
    with pytest.raises(GitHubAwayError):
        executor.look(order, reference)
    clock[0] -= 86_400
    assert executor.look(order, reference).standing is Standing.STARTING


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, GitHubDeniedError, 2),
        (403, GitHubDeniedError, 2),
        (404, GitHubMissingError, 2),
        (409, GitHubRefusedError, 2),
        (422, GitHubRefusedError, 2),
        (429, GitHubAwayError, 3),
        (500, GitHubAwayError, 3),
        (502, GitHubAwayError, 3),
    ],
)
def test_what_is_refused_is_told_and_says_whether_another_time_may_do(
    make: Make, order: Order, github: GitHubApi, *, status: int, kind: type[SpyreCiError], code: int
) -> None:
    github.fail(method="POST", path="/dispatches", status=status, message="no", times=9)
    with pytest.raises(kind) as caught:
        make().start(order)
    assert caught.value.exit_code == code
    assert TOKEN not in str(caught.value)


def test_an_answer_that_is_no_run_or_no_json_is_another_time(
    make: Make, order: Order, github: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make()
    reference = executor.start(order)
    monkeypatch.setattr(github, "answer", lambda _: Answer(body="<html>Log in</html>"))
    with pytest.raises(GitHubAwayError, match="is no JSON"):
        executor.look(order, reference)
    monkeypatch.setattr(github, "answer", lambda _: Answer(body={"id": 1}))
    with pytest.raises(GitHubAwayError, match="the answer is no run"):
        executor.look(order, reference)


def test_a_workflow_whose_file_does_not_come_is_told(
    make: Make, order: Order, github: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = github.answer
    broken = Answer(body={"type": "file", "content": "abc"})
    monkeypatch.setattr(github, "answer", lambda seen: broken if "/contents/" in seen.path else answer(seen))
    with pytest.raises(SpyreCiError, match="GitHub does not give the workflow's file"):
        make().start(order)


def test_results_that_expired_are_none_and_the_runs_own_word_counts(
    make: Make, order: Order, repository: Repository, tmp_path: Path
) -> None:
    executor = make(wants_results=True)
    reference = executor.start(order)
    only(repository).update(status="completed", conclusion="failure")
    made = report_folder(tmp_path / "far", {"test_0.py::T::a": "failed"})
    hand_on(repository, 1, "results", zipped(made), expired=True)
    seen = executor.look(order, reference)
    assert (seen.exit_code, seen.said) == (3, "the run failed, and no results of it came back")


def test_results_that_are_no_archive_are_told(make: Make, order: Order, repository: Repository) -> None:
    executor = make()
    reference = executor.start(order)
    only(repository).update(status="completed", conclusion="success")
    hand_on(repository, 1, "results", b"no zip")
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (Standing.INCOMPLETE, 3)
    assert "results of results cannot be used: is no archive that can be read" in seen.said


def test_what_came_before_the_time_was_over_is_not_brought_again(
    make: Make, order: Order, repository: Repository, github: GitHubApi, tmp_path: Path
) -> None:
    executor = make(wants_results=True)
    reference = executor.start(order)
    only(repository).update(status="completed", conclusion="failure")
    for number in (1, 2):
        made = report_folder(tmp_path / f"far{number}", {f"test_{number}.py::T::a": "failed"})
        hand_on(repository, number, f"results-{number}", zipped(made))
    stop = "_stop"
    setattr(executor.far, stop, lambda: bool(github.asked("GET", "/zip")))
    with pytest.raises(GitHubAwayError, match=r"the results results-\d are left for another time"):
        executor.fetch(order, reference)
    setattr(executor.far, stop, lambda: False)
    executor.fetch(order, reference)
    assert len(github.asked("GET", "/artifacts/1/zip")) == len(github.asked("GET", "/artifacts/2/zip")) == 1
    assert executor.look(order, reference).exit_code == 1


def test_a_token_is_not_sent_to_a_host_that_only_the_settings_name(github: GitHubApi) -> None:
    to = GitHubWorkflow(repository="o/r", workflow="nightly.yml", api=github.url)
    with pytest.raises(SettingsError, match="token for GitHub is not sent to"):
        GitHubFar(to, {"GITHUB_TOKEN": TOKEN}, clock=lambda: 0.0)
    with pytest.raises(SettingsError, match="there is no token for GitHub"):
        GitHubFar(to, {"SPYRE_CI_TRUSTED_HOSTS": github.host}, clock=lambda: 0.0)
    GitHubFar(to, {"SPYRE_CI_TRUSTED_HOSTS": github.host, "GITHUB_TOKEN": TOKEN}, clock=lambda: 0.0)
    assert github.seen == []
