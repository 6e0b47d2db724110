"""`spyre-ci webhooks poll` between stand-ins of GitHub and Jenkins, over real HTTP."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from ci.webhooks.hub import Hubs
from ci.webhooks.model import read_webhooks
from ci.webhooks.poll_state import StateFile
from ci.webhooks.polling import Passed, Polling, one_pass
from tests.github_api import GitHubApi, Repository, pull
from tests.integration.webhooks.desk import JOB, Desk
from tests.jenkins_api import JenkinsApi, Job
from tests.stand_in import Answer

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.core.github.client.FIRST_WAIT_S", 0.01)


@pytest.fixture
def pulls(api: GitHubApi) -> dict[int, dict[str, Any]]:
    return api.repositories["o/r"].pulls


@pytest.fixture
def polled(desk: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]) -> Desk:
    """A repository whose first pass is over, with one pull request that is known."""
    desk.polls(jenkins)
    pulls[1] = pull(1, sha=A)
    assert desk.call("poll").code == 0
    assert jenkins.jobs[JOB].starts == []
    return desk


def test_a_first_pass_notes_what_is_there_and_says_so(
    desk: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    desk.polls(jenkins)
    pulls[1] = pull(1, sha=A)
    said = desk.call("poll")
    assert (said.code, jenkins.seen) == (0, [])
    assert (
        "here:o/r: first pass with this state: pull requests noted that are there (1), none started"
        in said.out
    )
    assert desk.known() == {A: "seen"}


def test_a_first_pass_with_all_starts_what_is_there(
    desk: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    desk.polls(jenkins)
    pulls.update({2: pull(2, sha=B), 1: pull(1, sha=A)})
    said = desk.call("poll", "--all")
    assert said.code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{A}", f"here:o/r#{B}"]
    assert said.out.splitlines()[-1] == "2 started"
    assert desk.call("poll", "--all").out.splitlines() == ["0 started"]


def test_a_new_head_is_started_once_with_what_the_job_declares(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B)
    said = polled.call("poll")
    assert said.code == 0
    assert f"here:o/r: pull request 7: {B[:12]} started: spyre/pr ({jenkins.url}/queue/item/1/)" in said.out
    assert jenkins.jobs[JOB].starts == [
        {
            "REPOSITORY": "o/r", "HEAD_SHA": B, "PULL_REQUEST": "7", "BRANCH": "main",
            "IDEMPOTENCY_KEY": f"here:o/r#{B}",
        }
    ]  # fmt: skip
    assert polled.call("poll").out.splitlines() == ["0 started"]
    assert polled.known() == {A: "seen", B: "started"}


def test_a_pull_request_that_was_closed_before_jenkins_came_back_is_not_started(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B)
    pulls[8] = pull(8, sha=C)
    jenkins.fail(path="buildWithParameters")
    assert polled.call("poll").code == 3
    pulls[7]["state"] = "closed"
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{C}"]
    # Opened again it is what it was: a head that nothing was started for.
    pulls[7]["state"] = "open"
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{C}", f"here:o/r#{B}"]


def test_what_did_not_change_is_asked_for_by_its_etag_and_the_state_left_alone(
    polled: Desk, api: GitHubApi
) -> None:
    before = polled.state.stat()
    api.seen.clear()
    assert polled.call("poll").code == 0
    (asked,) = api.seen
    etag = json.loads(polled.state.read_text(encoding="utf-8"))["repositories"]["here:o/r"]["pages"]
    assert asked.headers["if-none-match"] == next(iter(etag.values()))["etag"]
    assert polled.state.stat().st_mtime_ns == before.st_mtime_ns
    assert polled.state.stat().st_ino == before.st_ino


def test_more_than_a_hundred_pull_requests_are_all_found_with_an_etag_a_page(
    desk: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]], api: GitHubApi
) -> None:
    desk.polls(jenkins)
    pulls.update({number: pull(number, sha=f"{number:040x}") for number in range(1, 251)})
    assert desk.call("poll").code == 0
    assert len(desk.known()) == 250
    pulls[251] = pull(251, sha=B)
    pulls[3]["head"]["sha"] = C
    assert desk.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{C}", f"here:o/r#{B}"]
    api.seen.clear()
    assert desk.call("poll").code == 0
    assert [("if-none-match" in one.headers, one.query["page"]) for one in api.seen] == [
        (True, "1"), (True, "2"), (True, "3"),
    ]  # fmt: skip


def test_a_page_that_follows_one_that_was_the_last_is_found_although_that_did_not_change(
    desk: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    desk.polls(jenkins)
    pulls.update({number: pull(number, sha=f"{number:040x}") for number in range(1, 101)})
    assert desk.call("poll").code == 0
    # The list is the oldest first: the first page stays to the letter what it was.
    pulls[101] = pull(101, sha=B)
    assert desk.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"]


def test_strangers_are_told_once_and_not_started(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[9] = pull(9, sha=B, head="stranger/r", association="NONE")
    said = polled.call("poll")
    assert (said.code, jenkins.jobs[JOB].starts) == (0, [])
    assert "here:o/r: pull request 9 is a stranger's and not started (NONE)" in said.out
    assert polled.call("poll").out.splitlines() == ["0 started"]
    pulls[9]["author_association"] = "CONTRIBUTOR"
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"]


def test_branches_are_started_by_their_names(desk: Desk, jenkins: JenkinsApi, api: GitHubApi) -> None:
    branches = api.repositories["o/r"].branches
    desk.polls(jenkins, branches={"job": JOB, "names": ["main", "release/*"]})
    branches.update({"main": A, "release/1": A, "other": A, "main-2": A})
    assert desk.call("poll").code == 0
    branches.update({"main": B, "other": C, "main-2": C, "release/2": D})
    assert desk.call("poll").code == 0
    assert [one["BRANCH"] for one in jenkins.jobs[JOB].starts] == ["main", "release/2"]
    assert {one["PULL_REQUEST"] for one in jenkins.jobs[JOB].starts} == {""}
    assert [one.path.rpartition("/")[2] for one in api.seen[:2]] == ["main", "release%2F"]


def test_jenkins_away_keeps_heads_for_the_next_pass(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls.update({7: pull(7, sha=B), 8: pull(8, sha=C)})
    jenkins.fail(path="buildWithParameters", status=503)
    said = polled.call("poll")
    assert said.code == 3
    assert "Jenkins answers 503: Jenkins is getting ready to work" in said.err
    assert said.out.splitlines() == ["0 started, 2 kept for the next pass"]
    # It was asked once: what is away for one head is away for all.
    assert len(jenkins.asked("buildWithParameters")) == 1
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}", f"here:o/r#{C}"]


@pytest.mark.parametrize("kind", ["hang", "cut", "drop", "status"])
def test_a_start_whose_answer_is_lost_is_not_started_twice(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]], kind: Any
) -> None:
    pulls[7] = pull(7, sha=B)
    jenkins.fail(kind, path="buildWithParameters", taken=True, seconds=0.2, status=502)
    assert polled.call("poll").code == 3
    assert polled.known()[B] == "starting"
    said = polled.call("poll")
    assert said.code == 0
    assert "had been started before" in said.out
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"]
    assert polled.known()[B] == "started"


@pytest.mark.parametrize("kind", ["hang", "cut", "drop", "status"])
def test_a_start_that_jenkins_never_got_is_not_lost(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]], kind: Any
) -> None:
    pulls[7] = pull(7, sha=B)
    jenkins.fail(kind, path="buildWithParameters", seconds=0.2, status=502)
    assert polled.call("poll").code == 3
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"]


def test_a_start_that_has_become_a_build_is_found_as_well(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B)
    jenkins.fail("drop", path="buildWithParameters", taken=True)
    assert polled.call("poll").code == 3
    job = jenkins.jobs[JOB]
    job.builds, job.queued = job.queued, []
    assert polled.call("poll").code == 0
    assert job.keys() == [f"here:o/r#{B}"]


def test_where_nobody_may_look_it_is_started_again_with_the_same_key(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B)
    jenkins.readable = False
    jenkins.fail("drop", path="buildWithParameters", taken=True)
    assert polled.call("poll").code == 3
    said = polled.call("poll")
    assert said.code == 0
    assert "it was started again with the same IDEMPOTENCY_KEY" in said.out
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"] * 2


def test_a_server_that_hangs_is_left_in_time(
    desk: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    desk.polls(jenkins)
    pulls[1] = pull(1, sha=A)
    jenkins.fail("hang", path="buildWithParameters", seconds=20)
    begin = time.monotonic()
    passed = made(desk, everything=True, timeout_s=0.5)
    assert time.monotonic() - begin < 10
    assert (passed.exit_code, passed.waiting) == (3, 1)


def made(desk: Desk, **more: Any) -> Passed:
    """A pass without the command."""
    found = read_webhooks(Path("jenkins/webhooks.yaml"))
    polling = Polling(
        found=found, repositories=found.repositories, environ=os.environ, say=print,
        hubs=lambda: Hubs(found, os.environ, patience_s=1, timeout_s=1), **{"clock": time.time, **more},
    )  # fmt: skip
    return one_pass(polling, StateFile(desk.state))


def test_a_wrong_user_is_told_and_the_heads_are_kept(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls[7] = pull(7, sha=B)
    token = os.environ["SPYRE_CI_JENKINS_TOKEN"]
    monkeypatch.setenv("SPYRE_CI_JENKINS_TOKEN", "wrong-token")
    polled.hidden.add("wrong-token")
    said = polled.call("poll")
    assert said.code == 2
    assert "Jenkins answers 401: Error 401 Unauthorized" in said.err
    assert "remedy: give a user and an API token" in said.err
    monkeypatch.setenv("SPYRE_CI_JENKINS_TOKEN", token)
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"]


def test_a_token_is_not_sent_to_a_jenkins_that_only_the_file_names(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls[7] = pull(7, sha=B)
    monkeypatch.setenv("SPYRE_CI_TRUSTED_HOSTS", polled.api.host)
    said = polled.call("poll")
    assert (said.code, jenkins.seen) == (2, [])
    assert f"SPYRE_CI_TRUSTED_HOSTS={jenkins.host}" in said.err


@pytest.mark.parametrize(
    ("answer", "code"),
    [((302, "login"), 2), ((302, "elsewhere"), 2), ((200, ""), 3), ((303, "queue/item/9/"), 0)],
)
def test_only_a_place_in_the_queue_is_a_start(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]], answer: tuple[int, str], code: int
) -> None:
    status, leads_to = answer
    # The page of a proxy where people log in answers with 200, and a redirect may lead anywhere.
    pulls[7] = pull(7, sha=B)
    where = f"{jenkins.url}/{leads_to}" if leads_to else ""
    jenkins.fail(path="buildWithParameters", status=status, text="<html>log in</html>", location=where)
    said = polled.call("poll")
    assert (said.code, polled.known()[B]) == (code, "starting" if code else "started")
    assert jenkins.asked(leads_to or "log in") == []


@pytest.mark.parametrize(
    ("job", "ends"),
    [
        (None, (2, "Jenkins answers 404")),
        (Job(parameters=()), (2, "Jenkins answers 400: This job is not parameterized")),
        (Job(disabled=True), (3, "Jenkins answers 409: is not buildable")),
    ],
)
def test_a_job_that_cannot_be_started_is_told(
    polled: Desk,
    jenkins: JenkinsApi,
    pulls: dict[int, dict[str, Any]],
    job: Job | None,
    ends: tuple[int, str],
) -> None:
    pulls[7] = pull(7, sha=B)
    before = jenkins.jobs.pop(JOB)
    if job is not None:
        jenkins.jobs[JOB] = job
    said = polled.call("poll")
    assert said.code == ends[0]
    assert ends[1] in said.err
    jenkins.jobs[JOB] = before
    assert polled.call("poll").code == 0
    assert before.keys() == [f"here:o/r#{B}"]


def test_a_crumb_is_shown_where_jenkins_wants_one_and_asked_for_anew_when_it_is_over(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    jenkins.crumbs = True
    pulls.update({7: pull(7, sha=B), 8: pull(8, sha=C)})
    jenkins.fail(path="buildWithParameters", status=403, text="<html>No valid crumb was included</html>")
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}", f"here:o/r#{C}"]
    assert len(jenkins.asked("crumbIssuer")) == 2


def test_a_crumb_that_is_never_right_ends_the_pass(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B)
    jenkins.fail(path="buildWithParameters", status=403, text="No valid crumb was included", times=9)
    assert polled.call("poll").code == 2
    assert len(jenkins.asked("buildWithParameters")) == 2


def test_what_is_sent_is_a_form_and_no_name_of_a_fork_is_in_it(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B, ref="$(touch /tmp/x)", head="evil/r", association="MEMBER")
    assert polled.call("poll").code == 0
    (asked,) = jenkins.asked("buildWithParameters")
    form = parse_qs(asked.body.decode(), keep_blank_values=True)
    assert asked.query == {}
    assert set(form) == {"REPOSITORY", "HEAD_SHA", "PULL_REQUEST", "BRANCH", "IDEMPOTENCY_KEY"}
    assert "touch" not in asked.body.decode()


def test_one_repository_that_fails_stops_no_other(desk: Desk, jenkins: JenkinsApi, api: GitHubApi) -> None:
    for name in ("o/a", "o/z"):
        api.repositories[name] = Repository(pulls={1: pull(1, sha=A if name == "o/a" else B, head=name)})
    desk.polls(jenkins, "o/a", "o/r", "o/z")
    api.fail(status=500, path="/o/r/", times=9)
    said = desk.call("poll", "--all")
    assert said.code == 3
    assert "here:o/r: FAILED: GitHub answers GET /repos/o/r/pulls with 500" in said.err
    assert jenkins.jobs[JOB].keys() == [f"here:o/a#{A}", f"here:o/z#{B}"]


def test_a_limit_ends_the_questions_to_that_host(desk: Desk, jenkins: JenkinsApi, api: GitHubApi) -> None:
    api.repositories["o/z"] = Repository()
    desk.polls(jenkins, "o/r", "o/z")
    api.fail("primary", times=9, reset=int(time.time()) + 1800)
    said = desk.call("poll")
    assert said.code == 3
    assert "GitHub's limit is reached, for 1" in said.err
    assert api.asked("GET", "/o/z/") == []
    passed = made(desk)
    assert 1700 < passed.retry_s <= 1801


def test_an_answer_that_is_no_list_starts_nothing_and_forgets_nothing(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    before = polled.state.read_bytes()
    pulls[7] = pull(7, sha="HEAD; rm -rf ~")
    said = polled.call("poll")
    assert said.code == 3
    assert "GitHub's list of heads holds something else (not understood: sha)" in said.err
    assert (jenkins.seen, polled.state.read_bytes()) == ([], before)


def test_a_proxys_page_in_place_of_github_is_told(polled: Desk, jenkins: JenkinsApi) -> None:
    for body, told in ((b"<html>log in</html>", "is no JSON"), (b'{"message": "hello"}', "is no list")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GitHubApi, "answer", lambda *_, body=body: Answer(body=body))
            said = polled.call("poll")
        assert said.code == 3
        assert told in said.err
    assert jenkins.seen == []


def test_a_list_without_an_end_is_told(polled: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.webhooks.polling.MAX_PAGES", 2)
    polled.api.repositories["o/r"].pulls.update(
        {number: pull(number, sha=f"{number:040x}") for number in range(1, 202)}
    )
    said = polled.call("poll")
    assert said.code == 3
    assert "the list /repos/o/r/pulls has more than 2 pages" in said.err


def test_what_answers_and_is_no_jenkins_is_told(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B)
    jenkins.fail(path="crumbIssuer", status=200, text="<html>log in</html>")
    said = polled.call("poll")
    assert said.code == 3
    assert "what answers is no Jenkins: its answer is no JSON" in said.err
    assert polled.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"]


def test_a_dry_run_starts_and_notes_nothing(
    polled: Desk, jenkins: JenkinsApi, pulls: dict[int, dict[str, Any]]
) -> None:
    pulls[7] = pull(7, sha=B)
    before = polled.state.read_bytes()
    said = polled.call("poll", "--dry-run")
    assert said.code == 0
    assert f"here:o/r: pull request 7: {B[:12]} would be started: spyre/pr" in said.out
    assert (jenkins.seen, polled.state.read_bytes()) == ([], before)


def test_a_file_that_polls_nothing_is_told(desk: Desk) -> None:
    said = desk.call("poll")
    assert (said.code, "nothing of it is polled" in said.err) == (2, True)
