"""`spyre-ci webhooks apply` against a stand-in of GitHub's API, over real HTTP."""

from __future__ import annotations

import sys
import time

import pytest

from tests.github_api import GitHubApi, Repository
from tests.integration.webhooks.conftest import HOOK, OLD, URL, Desk


def test_what_is_right_is_left_alone_whether_a_value_is_a_number_or_a_text(desk: Desk) -> None:
    desk.add(5, insecure_ssl=0)
    said = desk.apply("--prune")
    assert (said.code, said.out, desk.writes) == (0, f"here:o/r: = keep 5 {URL}\n", [])


def test_check_says_what_would_be_done_and_changes_nothing_even_without_a_secret(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPYRE_CI_WEBHOOK_SECRET")
    desk.add(4, url=OLD)
    said = desk.apply("--check", "--prune")
    assert (said.code, desk.writes) == (1, [])
    assert said.out.splitlines()[:2] == [
        f"here:o/r: + create {URL}",
        f"here:o/r: - delete 4 {OLD}: not listed",
    ]
    desk.hooks.clear()
    desk.add(5)
    said = desk.apply("--check")
    assert said.code == 0
    assert "not checked: whether a secret is the one that Jenkins checks" in said.out.splitlines()[-1]
    desk.add(6)
    said = desk.apply("--check")
    assert said.code == 1
    assert f"! extra 6 {URL}: a duplicate of hook 5: each event is delivered again (--prune" in said.out
    assert desk.writes == []


def test_a_repository_that_wants_none_loses_ours_by_prune(desk: Desk) -> None:
    desk.write(repositories=[{"repository": "o/r", "host": "here", "hooks": []}])
    desk.add(1)
    desk.add(2, url="https://chat.example.com/x")
    assert desk.apply("--prune").code == 0
    assert set(desk.hooks) == {2}
    assert desk.apply().out == "here:o/r: no webhook, and none is listed\n"


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("SPYRE_CI_WEBHOOK_SECRET", None, "SPYRE_CI_WEBHOOK_SECRET: there is no secret of the webhook"),
        ("SPYRE_CI_WEBHOOK_SECRET", "short-of-it", "SPYRE_CI_WEBHOOK_SECRET: the webhook's secret has fewer"),
        ("SPYRE_CI_GITHUB_TOKEN", None, "SPYRE_CI_GITHUB_TOKEN: there is no token for here"),
        ("SPYRE_CI_GITHUB_TOKEN", "ghs_wrong", "with 401: Bad credentials"),
        ("SPYRE_CI_TRUSTED_HOSTS", None, "SPYRE_CI_TRUSTED_HOSTS: the token is not sent to"),
    ],
)
def test_what_is_wrong_with_a_secret_a_token_or_a_host_is_told_and_nothing_is_begun(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None, told: str
) -> None:
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
        desk.hidden.add(value)
    said = desk.apply()
    assert (said.code, desk.writes) == (2, [])
    assert f"here:o/r: FAILED: {told}" in said.out or told in said.out
    assert "    remedy: " in said.out
    if variable == "SPYRE_CI_TRUSTED_HOSTS":
        assert desk.api.seen == []
    if value == "ghs_wrong":
        assert "set SPYRE_CI_GITHUB_TOKEN to a valid token of an administrator of here" in said.out


def test_a_hook_is_made_with_its_secret_and_rotated_when_that_is_asked_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.apply().code == 0
    (made,) = desk.hooks.values()
    assert made["config"]["url"] == HOOK["url"]
    monkeypatch.setenv("SPYRE_CI_WEBHOOK_SECRET", "another-one-that-is-as-long")
    desk.hidden.add("another-one-that-is-as-long")
    assert (desk.apply().code, desk.writes) == (0, ["POST"])
    assert (desk.apply("--rotate").code, desk.writes) == (0, ["POST", "PATCH"])
    assert made["config"]["secret"] == "another-one-that-is-as-long"


def test_no_line_commands_a_terminal_or_a_ci_or_shows_what_a_url_holds(desk: Desk) -> None:
    desk.add(4, url="https://me:hunter2@Jenkins.example.com/github-webhook")["events"] = [
        "x\n::error::y\r\x1b[2J##[group]"
    ]
    desk.hidden.add("hunter2")
    said = desk.apply("--check")
    assert said.code == 1
    assert not {"\x1b", "\r"} & set(said.out)
    assert not [line for line in said.out.splitlines() if line.lstrip().startswith(("::", "##["))]


def test_more_than_a_hundred_hooks_are_all_read(desk: Desk) -> None:
    for number in range(1, 251):
        desk.add(number, url=OLD)
    desk.add(251)
    assert desk.apply("--check").out.count("! extra") == 250
    assert [one.query["page"] for one in desk.api.asked("GET", "/hooks$")] == ["1", "2", "3"]
    assert desk.apply("--prune").code == 0
    assert set(desk.hooks) == {251}


def test_one_repository_that_fails_stops_no_other(desk: Desk) -> None:
    desk.write("o/a", "o/r", "o/z")
    del desk.api.repositories["o/r"]
    said = desk.apply()
    assert said.code == 2
    assert (
        "here:o/r: FAILED: cannot read its webhooks: GitHub answers GET /repos/o/r/hooks with 404" in said.out
    )
    assert "a token without admin rights" in said.out
    assert [len(desk.api.repositories[name].hooks) for name in ("o/a", "o/z")] == [1, 1]


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
        assert desk.apply().code == 0
        for server, token in ((desk.api, desk.api.token), (enterprise, enterprise.token)):
            assert {one.headers["authorization"] for one in server.seen} == {f"token {token}"}
            assert server.asked("POST", "/hooks$")


def test_what_github_does_not_take_is_told_with_its_words_and_nothing_else_is_done(desk: Desk) -> None:
    desk.api.fail(status=422, method="POST", message="Validation Failed: event is not valid")
    desk.add(3, url=OLD)
    said = desk.apply("--prune")
    assert said.code == 2
    assert "with 422: Validation Failed: event is not valid" in said.out
    assert set(desk.hooks) == {3}


def test_a_server_error_is_tried_again_and_then_told(desk: Desk) -> None:
    desk.api.fail(status=502, method="GET", times=2)
    assert desk.apply("--check").code == 1
    desk.write("o/a", "o/r")
    desk.api.fail(status=500, path="/o/a/", times=9)
    said = desk.apply("--check")
    assert said.code == 3
    assert "here:o/a: FAILED: GitHub answers GET /repos/o/a/hooks with 500" in said.out
    assert "here:o/r: + create" in said.out


def test_a_limit_that_is_long_is_told_and_the_host_asked_no_more(desk: Desk) -> None:
    desk.write("o/a", "o/b", "o/c")
    desk.api.fail("primary", path="/o/b/", times=9, reset=int(time.time()) + 1800)
    said = desk.apply("--check")
    assert said.code == 3
    assert "here:o/a: + create" in said.out
    for name in ("o/b", "o/c"):
        assert f"here:{name}: FAILED: GitHub's limit is reached, for 1" in said.out
    assert desk.api.asked("GET", "/o/c/") == []


def test_a_hook_that_was_made_although_no_answer_came_is_not_made_twice(desk: Desk) -> None:
    desk.api.fail("drop", method="POST", taken=True)
    said = desk.apply()
    assert said.code == 3
    assert "it may have been done all the same" in said.out
    assert desk.apply().code == 0
    assert len(desk.hooks) == 1


def test_a_hook_that_somebody_else_deletes_meanwhile_is_as_it_was_to_be(desk: Desk) -> None:
    desk.add(2)
    desk.add(3, url=OLD)
    desk.api.fail(status=404, method="DELETE", message="Not Found", taken=True)
    assert desk.apply("--prune").code == 0


def test_a_list_that_holds_something_else_is_told(desk: Desk) -> None:
    desk.hooks[5] = {"id": "five", "name": "web", "config": {}, "events": []}
    said = desk.apply("--check")
    assert said.code == 3
    assert "the list of webhooks has an unknown form" in said.out


def test_a_library_that_is_not_installed_is_told_with_its_extra(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "github", None)
    said = desk.apply()
    assert said.code == 2
    assert "pip install 'spyre-ci[github]'" in said.out
