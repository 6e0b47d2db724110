"""`spyre-ci webhooks` against a stand-in of GitHub's API, over real HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.webhooks.hub import Hubs
from ci.webhooks.model import read_webhooks
from ci.webhooks.setting_up import NotAsWishedError, SetUp, apply, compare
from tests.github_api import GitHubApi, Repository
from tests.integration.webhooks.desk import HOOK, OLD, URL, Desk, environment
from tests.stand_in import Answer, Seen

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.core.github.client.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("ci.webhooks.setting_up.PING_PAUSE_S", 0.01)


def _lies(answer: Callable[[GitHubApi, Seen], Answer]) -> Callable[[GitHubApi, Seen], Answer]:
    return lambda api, seen: Answer(body={}) if seen.method == "PATCH" else answer(api, seen)


def several(desk: Desk, *names: str) -> None:
    """A file with several repositories, all there."""
    desk.write(repositories=[{"repository": name, "host": "here", "hooks": ["jenkins"]} for name in names])
    for name in names:
        desk.api.repositories.setdefault(name, Repository())


def test_what_is_right_is_left_alone_whether_a_value_is_a_number_or_a_text(desk: Desk) -> None:
    desk.add(5, insecure_ssl=0)
    assert desk.call("apply", "--prune", "--ping").code == 0
    assert desk.writes == []


def test_a_dry_run_says_it_and_changes_nothing_even_without_a_secret(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPYRE_CI_WEBHOOK_SECRET")
    desk.add(4, url=OLD)
    said = desk.call("apply", "--dry-run", "--prune")
    assert said.code == 0
    assert f"+ create {URL}" in said.out
    assert f"- delete 4 {OLD}" in said.out
    assert desk.writes == []


def test_check_ends_with_1_where_something_differs_and_changes_nothing(desk: Desk) -> None:
    assert desk.call("check").code == 1
    desk.add(5)
    said = desk.call("check")
    assert said.code == 0
    assert said.out.splitlines()[-1] == (
        "not seen from here: whether a secret is the one Jenkins has, and whether Jenkins checks signatures"
    )
    assert "not seen" not in desk.call("check", "--json").out
    desk.add(6)
    said = desk.call("check")
    assert said.code == 1
    assert f"! not in the file 6 {URL}: a duplicate of hook 5" in said.out
    assert "--prune deletes it" in said.out
    assert desk.writes == []


def test_show_says_what_is_there_and_needs_no_secret(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPYRE_CI_WEBHOOK_SECRET")
    desk.add(5)
    del desk.add(6, url="https://chat.example.com/x?token=theirs", insecure_ssl="1")["config"]["secret"]
    said = desk.call("show")
    assert said.code == 0
    right = "json, active, certificate checked, with a secret; last event: 200 active"
    wrong = "json, active, CERTIFICATE NOT CHECKED, WITHOUT A SECRET; last event: 200 active"
    assert said.out.splitlines() == [
        "here:o/r: 2 webhooks",
        f"  5 {URL}: pull_request, push; {right}",
        f"  6 https://chat.example.com/x?***: pull_request, push; {wrong}",
    ]


def test_a_repository_that_wants_none_loses_ours_by_prune(desk: Desk) -> None:
    desk.write(repositories=[{"repository": "o/r", "host": "here", "hooks": []}])
    desk.add(1)
    desk.add(2, url="https://chat.example.com/x")
    assert desk.call("apply", "--prune").code == 0
    assert set(desk.hooks) == {2}


def test_without_a_secret_nothing_is_begun(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPYRE_CI_WEBHOOK_SECRET")
    said = desk.call("apply")
    assert said.code == 2
    assert "here:o/r: FAILED: SPYRE_CI_WEBHOOK_SECRET: there is no secret of the webhook" in said.out
    assert desk.writes == []


def test_a_token_in_the_url_finds_jenkins_job_and_is_never_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "jobs-own-token-of-jenkins"
    desk.hidden.add(token)
    desk.write(hooks={"jenkins": {**HOOK, "token": "SPYRE_CI_WEBHOOK_TOKEN"}})
    assert desk.call("check").code == 2
    monkeypatch.setenv("SPYRE_CI_WEBHOOK_TOKEN", token)
    said = desk.call("apply")
    assert said.code == 0
    assert f"created {URL}?***" in said.out
    (hook,) = desk.hooks.values()
    assert hook["config"]["url"] == f"{URL}?token={token}"
    for verb in ("show", "check"):
        assert desk.call(verb).code == 0
        assert desk.call(verb, "--json").code == 0
    monkeypatch.setenv("SPYRE_CI_WEBHOOK_TOKEN", "new-" + token)
    said = desk.call("apply")
    assert said.code == 0
    assert f"  ~ update {next(iter(desk.hooks))} {URL}?***: token: another -> set" in said.out.splitlines()
    # The one with the old token is the one that was changed: Jenkins would hear every event twice.
    assert [one["config"]["url"] for one in desk.hooks.values()] == [f"{URL}?token=new-{token}"]


@pytest.mark.parametrize(("code", "ends"), [(200, 0), (403, 1)])
def test_a_ping_says_what_jenkins_answered(desk: Desk, code: int, ends: int) -> None:
    desk.add(5, content_type="form")["answers"] = code
    said = desk.call("apply", "--ping")
    assert said.code == ends
    assert f"here:o/r: ping of hook 5: {code} " in said.out
    assert "(ping, 2026-11-22T12:00:01Z)" in said.out
    # Jenkins answers so to whatever it is sent, unless it is told to check signatures.
    proved = ": the URL and its token are right, and the signature if Jenkins checks it"
    assert (proved in said.out) == (code == 200)


def test_a_ping_that_github_tells_nothing_of_is_no_success(desk: Desk) -> None:
    desk.add(5, content_type="form")["quiet"] = True
    said = desk.call("apply", "--ping")
    assert said.code == 1
    assert "GitHub does not say what became of it" in said.out


def test_more_than_a_hundred_hooks_are_all_read(desk: Desk) -> None:
    for number in range(1, 251):
        desk.add(number, url=f"{OLD}?token={number}")
    desk.add(251)
    said = desk.call("check")
    assert "here:o/r: 1 as it is to be, 250 not in the file" in said.out
    assert [one.query["page"] for one in desk.api.asked("GET", "/hooks$")] == ["1", "2", "3"]
    assert desk.call("apply", "--prune").code == 0
    assert set(desk.hooks) == {251}


def test_one_repository_that_fails_stops_no_other(desk: Desk) -> None:
    several(desk, "o/a", "o/r", "o/z")
    del desk.api.repositories["o/r"]
    said = desk.call("apply")
    assert said.code == 2
    assert (
        "here:o/r: FAILED: its webhooks are not shown: GitHub answers GET /repos/o/r/hooks with 404"
        in said.out
    )
    assert "a token without admin rights" in said.out
    assert [len(desk.api.repositories[name].hooks) for name in ("o/a", "o/z")] == [1, 1]


def test_a_token_that_is_none_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_CI_GITHUB_TOKEN", "ghs_wrong")
    desk.hidden.add("ghs_wrong")
    said = desk.call("check")
    assert said.code == 2
    assert "with 401: Bad credentials" in said.out
    assert "remedy: give a token of here in SPYRE_CI_GITHUB_TOKEN that is valid" in said.out


def test_each_host_has_its_own_token_and_is_shown_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GitHubApi(prefix="/api/v3") as enterprise:
        enterprise.repositories["e/r"] = Repository()
        enterprise.token = "ghe_made_up"
        enterprise.tokens = {enterprise.token: "admin"}
        desk.hidden.add(enterprise.token)
        monkeypatch.setenv("SPYRE_CI_GITHUB_TOKEN_GHE", enterprise.token)
        monkeypatch.setenv("SPYRE_CI_TRUSTED_HOSTS", f"{desk.api.host},{enterprise.host}")
        desk.write(
            hosts={
                "here": {"api": desk.api.url},
                "ghe": {"api": enterprise.url + "/", "token": "SPYRE_CI_GITHUB_TOKEN_GHE"},
            },
            repositories=[
                {"repository": "o/r", "host": "here", "hooks": ["jenkins"]},
                {"repository": "e/r", "host": "ghe", "hooks": ["jenkins"]},
            ],
        )
        assert desk.call("apply").code == 0
        for server, token in ((desk.api, desk.api.token), (enterprise, enterprise.token)):
            assert {one.headers["authorization"] for one in server.seen} == {f"token {token}"}
            assert server.asked("POST", "/hooks$")
        monkeypatch.delenv("SPYRE_CI_GITHUB_TOKEN_GHE")
        said = desk.call("check")
    assert (said.code, said.out.splitlines()[0]) == (2, "here:o/r: 1 as it is to be")
    assert "ghe:e/r: FAILED: SPYRE_CI_GITHUB_TOKEN_GHE: there is no token for ghe" in said.out


def test_no_token_is_told_by_its_variable(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPYRE_CI_GITHUB_TOKEN")
    said = desk.call("check")
    assert (said.code, desk.api.seen) == (2, [])
    assert "SPYRE_CI_GITHUB_TOKEN: there is no token for here" in said.out


def test_a_token_is_not_sent_where_only_the_file_says(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPYRE_CI_TRUSTED_HOSTS")
    said = desk.call("check")
    assert (said.code, desk.api.seen) == (2, [])
    assert f"SPYRE_CI_TRUSTED_HOSTS={desk.api.host}" in said.out


def test_what_github_does_not_take_is_told_with_its_words_and_nothing_else_is_done(desk: Desk) -> None:
    desk.api.fail(status=422, method="POST", message="Validation Failed: event is not valid")
    desk.add(3, url=OLD)
    said = desk.call("apply", "--prune")
    assert said.code == 2
    assert "with 422: Validation Failed: event is not valid" in said.out
    assert set(desk.hooks) == {3}


def test_a_server_error_is_tried_again_and_then_told(desk: Desk) -> None:
    desk.api.fail(status=502, method="GET", times=2)
    assert desk.call("check").code == 1
    several(desk, "o/a", "o/r")
    desk.api.fail(status=500, path="/o/a/", times=9)
    said = desk.call("check")
    assert said.code == 3
    assert "here:o/a: FAILED: GitHub answers GET /repos/o/a/hooks with 500" in said.out
    assert "here:o/r: 1 to create" in said.out


def test_a_limit_that_is_long_is_told_and_the_host_asked_no_more(desk: Desk) -> None:
    several(desk, "o/a", "o/b", "o/c")
    desk.api.fail("primary", path="/o/b/", times=9, reset=int(time.time()) + 1800)
    said = desk.call("check")
    assert said.code == 3
    assert "here:o/a: 1 to create" in said.out
    for name in ("o/b", "o/c"):
        assert f"here:{name}: FAILED: GitHub's limit is reached, for 1" in said.out
    assert desk.api.asked("GET", "/o/c/") == []


def test_a_hook_that_was_made_although_no_answer_came_is_not_made_twice(desk: Desk) -> None:
    desk.api.fail("drop", method="POST", taken=True)
    said = desk.call("apply")
    assert said.code == 3
    assert "it may have been done all the same" in said.out
    assert desk.call("apply").code == 0
    assert len(desk.hooks) == 1


def test_a_hook_that_somebody_else_deletes_meanwhile_is_as_it_was_to_be(desk: Desk) -> None:
    desk.add(2)
    desk.add(3, url=OLD)
    desk.api.fail(status=404, method="DELETE", message="Not Found", taken=True)
    assert desk.call("apply", "--prune").code == 0


def test_what_github_says_it_did_and_did_not_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.add(5, content_type="form")
    found = read_webhooks(Path("jenkins/webhooks.yaml"))
    task = SetUp(found=found, hubs=Hubs(found, os.environ), environ=os.environ, sleep=time.sleep)
    compared = compare(task, found.repositories)
    # It answers every change with 200 and does none.
    monkeypatch.setattr("tests.github_api.GitHubApi.answer", _lies(GitHubApi.answer))
    apply(task, compared, say=lambda _: None)
    error = compared[0].error
    assert isinstance(error, NotAsWishedError)
    assert (error.exit_code, compared[0].done) == (1, [])
    assert "the webhooks still differ: content_type" in error.what


def test_a_list_that_holds_something_else_is_told(desk: Desk) -> None:
    desk.hooks[5] = {"id": "five", "name": "web", "config": {}, "events": []}
    said = desk.call("check")
    assert said.code == 3
    assert "the list of webhooks holds something else" in said.out


def test_machines_get_one_document(desk: Desk) -> None:
    desk.add(5, content_type="form")
    several(desk, "o/r", "o/gone")
    del desk.api.repositories["o/gone"]
    said = desk.call("apply", "--json")
    assert said.code == 2
    first, second = json.loads(said.out)["repositories"]
    assert [(one["deed"], one["differs"], one["done"]) for one in first["changes"]] == [
        ("update", ["content_type"], True)
    ]
    assert (first["error"], second["exit_code"]) == (None, 2)
    assert "404" in second["error"]


def test_one_repository_may_be_named(desk: Desk) -> None:
    several(desk, "o/a", "o/r")
    assert desk.call("apply", "--only", "here:o/r").code == 0
    assert (len(desk.hooks), len(desk.api.repositories["o/a"].hooks)) == (1, 0)
    assert desk.call("apply", "--only", "o/x").code == 2


def test_a_repository_that_is_only_polled_is_not_asked_for_its_hooks(desk: Desk) -> None:
    desk.write(
        jenkins={"url": "https://jenkins.example.com"},
        repositories=[{"repository": "o/r", "host": "here", "poll": {"pull_requests": {"job": "a"}}}],
    )
    said = desk.call("check")
    assert (said.code, desk.api.seen) == (2, [])
    assert "no repository of it has `hooks`" in said.err


@pytest.mark.parametrize("words", [["scripts/webhooks.py", "check"], ["scripts/poll.py", "--dry-run"]])
def test_the_scripts_call_it(desk: Desk, words: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / words[0]), *words[1:]],
        cwd=desk.folder, env=environment(desk), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "poll" in words[0]:
        assert (ended.returncode, "nothing of it is polled" in ended.stderr) == (2, True)
    else:
        assert (ended.returncode, ended.stdout.splitlines()[0]) == (1, "here:o/r: 1 to create")
