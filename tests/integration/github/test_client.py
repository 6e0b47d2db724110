from __future__ import annotations

import io
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, SettingsError, UsageError
from ci.core.github.client import Client, Effects, connect, find_token, in_repository
from ci.core.github.errors import (
    GitHubAwayError,
    GitHubDeniedError,
    GitHubError,
    GitHubMissingError,
    GitHubRefusedError,
)
from tests.github_api import TOKEN, GitHubApi, artifact, pull
from tests.stand_in import Answer

COMMENTS = in_repository("o/r", "issues", 7, "comments")
HOOKS = in_repository("o/r", "hooks")
HOOK = {"name": "web", "events": ["push"], "config": {"url": "https://ci.example.com/h", "secret": "s3cret"}}


@dataclass
class Waited:
    """A clock that only waiting moves."""

    now: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def effects(self) -> Effects:
        return Effects(monotonic=lambda: self.now, now=lambda: self.now, sleep=self.sleep, rng=lambda: 0.5)


def client(api: GitHubApi, waited: Waited | None = None, *, token: str = TOKEN, timeout_s: int = 5) -> Client:
    return Client(api=api.url, token=token, effects=(waited or Waited()).effects(), timeout_s=timeout_s)


def test_what_is_there_is_read_written_changed_and_deleted(api: GitHubApi) -> None:
    asked = client(api)
    made = asked.send("POST", COMMENTS, {"body": "hello"})
    assert made["user"]["login"] == "github-actions[bot]"
    path = in_repository("o/r", "issues", "comments", made["id"])
    asked.send("PATCH", path, {"body": "changed"})
    assert asked.get(path)["body"] == "changed"
    assert asked.send("DELETE", path) is None
    with pytest.raises(GitHubMissingError):
        asked.get(path)


def test_the_token_and_a_name_are_shown_with_every_request(api: GitHubApi) -> None:
    client(api).get(in_repository("o/r", "pulls"))
    headers = api.seen[-1].headers
    assert headers["authorization"].endswith(TOKEN)
    assert headers["user-agent"] == "spyre-ci"


def test_a_list_is_read_to_its_last_page_and_no_further_than_wanted(api: GitHubApi) -> None:
    rows = api.repositories["o/r"].pulls
    rows.update({number: pull(number) for number in range(1, 251)})
    asked = client(api)
    path = in_repository("o/r", "pulls")
    assert [one["number"] for one in asked.pages(path, {"state": "all"})] == list(range(250, 0, -1))
    assert len(api.asked("GET", "/pulls")) == 3
    assert len(asked.pages(path, most=120)) == 120
    assert len(api.asked("GET", "/pulls")) == 5


@pytest.mark.parametrize(("token", "kind"), [("ghs_other", GitHubDeniedError), (TOKEN, GitHubMissingError)])
def test_a_refusal_is_told_at_once_and_without_the_token(
    api: GitHubApi, token: str, kind: type[GitHubError]
) -> None:
    with pytest.raises(kind) as caught:
        client(api, token=token).get("/repos/o/other/pulls/1")
    assert token not in str(caught.value)
    assert len(api.seen) == 1


@pytest.mark.parametrize("kind", ["primary", "secondary"])
def test_a_short_limit_is_waited_for(api: GitHubApi, kind: str) -> None:
    waited = Waited()
    if kind == "primary":
        api.fail("primary", reset=1_020, times=2)
    else:
        api.fail("secondary", retry_after=21, times=2)
    client(api, waited).send("POST", COMMENTS, {"body": "x"})
    assert waited.waits == ([21, 1] if kind == "primary" else [21, 21])
    assert len(api.repositories["o/r"].comments) == 1


def test_a_long_limit_ends_as_incomplete_and_says_how_long(api: GitHubApi) -> None:
    waited = Waited()
    api.fail("primary", reset=4_600)
    with pytest.raises(GitHubAwayError, match="limit is reached, for 3601 s more") as caught:
        client(api, waited).get(COMMENTS)
    assert (caught.value.exit_code, caught.value.retry_s) == (EXIT_INCOMPLETE, 3601)
    assert waited.waits == []


def test_limits_without_end_are_not_waited_for_for_ever(api: GitHubApi) -> None:
    waited = Waited()
    api.fail("secondary", retry_after=40, times=1_000)
    with pytest.raises(GitHubAwayError, match="limit"):
        client(api, waited).get(COMMENTS)
    assert waited.waits == [40, 40]


@pytest.mark.parametrize("kind", ["status", "cut", "drop"])
def test_a_fault_of_the_server_is_tried_again_a_few_times(api: GitHubApi, kind: str) -> None:
    waited = Waited()
    api.fail(kind, times=2)  # type: ignore[arg-type]  # a kind
    assert client(api, waited).get(COMMENTS) == []
    assert waited.waits == [1, 2]
    api.fail(kind, times=1_000)  # type: ignore[arg-type]  # a kind
    with pytest.raises(GitHubAwayError) as caught:
        client(api, waited).get(COMMENTS)
    assert (caught.value.exit_code, caught.value.retry_s) == (EXIT_INCOMPLETE, None)
    assert "may have been done" not in caught.value.what
    assert len(api.seen) == 3 + 4


@pytest.mark.parametrize("kind", ["status", "cut", "drop"])
def test_what_may_have_been_done_is_not_sent_again(api: GitHubApi, kind: str) -> None:
    api.fail(kind, method="POST", taken=True)  # type: ignore[arg-type]  # a kind
    with pytest.raises(GitHubAwayError):
        client(api).send("POST", COMMENTS, {"body": "x"})
    assert len(api.repositories["o/r"].comments) == 1
    api.fail(kind, method="PATCH", taken=True)  # type: ignore[arg-type]  # a kind
    number = next(iter(api.repositories["o/r"].comments))
    client(api).send("PATCH", in_repository("o/r", "issues", "comments", number), {"body": "y"})
    assert len(api.asked("PATCH", "comments")) == 2


def test_a_server_that_hangs_costs_the_time_out_and_no_more(api: GitHubApi) -> None:
    api.fail("hang", times=1_000, seconds=30)
    began = time.monotonic()
    with pytest.raises(GitHubAwayError, match="does not answer"):
        client(api, timeout_s=1).send("POST", COMMENTS, {"body": "x"})
    assert time.monotonic() - began < 10


def test_nobody_there_is_told_and_a_post_is_tried_again_as_nothing_was_taken() -> None:
    waited = Waited()
    with GitHubApi() as api:
        asked = client(api, waited)
    with pytest.raises(GitHubAwayError, match="does not answer: POST"):
        asked.send("POST", COMMENTS, {"body": "x"})
    assert len(waited.waits) == 3


def test_a_jobs_own_token_is_the_bot_of_actions_and_others_say_who_they_are(api: GitHubApi) -> None:
    api.tokens["ghp_other"] = "builder"
    assert client(api).login() == "github-actions[bot]"
    assert client(api, token="ghp_other").login() == "builder"
    with pytest.raises(GitHubDeniedError):
        client(api, token="ghp_unknown").login()


def test_an_artifact_comes_from_its_store_which_sees_no_token(api: GitHubApi, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", "hello")
    data = packed.getvalue()
    repository = api.repositories["o/r"]
    repository.artifacts[5] = artifact(5, "report", run=1, size=len(data))
    repository.blobs[5] = data
    path = in_repository("o/r", "actions", "artifacts", 5, "zip")
    assert client(api).download(path, tmp_path / "a.zip", most_bytes=10_000) == len(data)
    assert (tmp_path / "a.zip").read_bytes() == data
    with pytest.raises(GitHubRefusedError, match="more than 10 bytes"):
        client(api).download(path, tmp_path / "b.zip", most_bytes=10)
    assert not (tmp_path / "b.zip").exists()
    repository.artifacts[5]["expired"] = True
    with pytest.raises(GitHubMissingError, match="410"):
        client(api).download(path, tmp_path / "c.zip", most_bytes=10_000)


def test_a_download_goes_to_no_address_that_anybody_on_the_way_could_read(
    api: GitHubApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leads(where: str) -> None:
        away = Answer(status=302, headers={"location": where})
        monkeypatch.setattr(api, "answer", lambda _: away)

    for where in ("http://store.example/x?sig=s3cret", "ftp://h", ""):
        leads(where)
        with pytest.raises(GitHubAwayError, match="no address that can be trusted") as caught:
            client(api).download("/x", tmp_path / "a", most_bytes=10)
        assert "s3cret" not in str(caught.value)
    leads("https://[")
    with pytest.raises(GitHubAwayError, match="does not answer"):
        client(api).download("/x", tmp_path / "a", most_bytes=10)


def test_what_has_moved_is_told_and_not_taken_for_done(
    api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Answer(status=307, body={"message": "Moved"}, headers={"location": f"{api.url}/repositories/1"})
    monkeypatch.setattr(api, "answer", lambda _: moved)
    with pytest.raises(GitHubRefusedError, match="307: Moved"):
        client(api).send("POST", COMMENTS, {"body": "x"})
    away = Answer(status=301, headers={"location": "https://elsewhere.example/x"})
    monkeypatch.setattr(api, "answer", lambda _: away)
    with pytest.raises(GitHubAwayError, match="redirected"):
        client(api).get(COMMENTS)


def test_an_answer_that_is_no_list_is_told(api: GitHubApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "answer", lambda _: Answer(body={"message": "hello"}))
    with pytest.raises(GitHubAwayError, match="is no list"):
        client(api).pages("/x")
    with pytest.raises(GitHubAwayError, match="is no list"):
        client(api).pages("/x", key="message")


def test_a_download_that_breaks_off_is_tried_again_and_not_for_ever(api: GitHubApi, tmp_path: Path) -> None:
    repository = api.repositories["o/r"]
    repository.artifacts[5] = artifact(5, "report", run=1)
    repository.blobs[5] = b"x" * 1_000
    path = in_repository("o/r", "actions", "artifacts", 5, "zip")
    waited = Waited()
    api.fail("cut", path="_store")
    api.fail("status", path="_store", status=503)
    assert client(api, waited).download(path, tmp_path / "a.zip", most_bytes=10_000) == 1_000
    assert waited.waits == [1, 2]
    api.fail("cut", path="_store", times=1_000)
    with pytest.raises(GitHubAwayError, match="incomplete download"):
        client(api).download(path, tmp_path / "b.zip", most_bytes=10_000)
    assert not (tmp_path / "b.zip").exists()


def test_github_enterprise_has_its_api_under_a_path() -> None:
    with GitHubApi(prefix="/api/v3") as api:
        api.tokens[TOKEN] = "jenkins"
        assert client(api).login() == "jenkins"


def test_the_environment_says_where_and_with_which_token(api: GitHubApi) -> None:
    there = {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": TOKEN}
    assert connect(there).login() == "github-actions[bot]"
    assert connect(there | {"SPYRE_CI_GITHUB_LOGIN": "my-app[bot]"}).login() == "my-app[bot]"
    assert find_token({"GITHUB_TOKEN": "a", "SPYRE_CI_GITHUB_TOKEN": "b"}) == "b"


def test_a_token_that_is_missing_or_none_is_said_without_it() -> None:
    with pytest.raises(SettingsError, match="no token for GitHub") as caught:
        find_token({"GITHUB_TOKEN": " "})
    assert "github.token" in (caught.value.remedy or "")
    with pytest.raises(SettingsError) as caught:
        find_token({"GITHUB_TOKEN": "ghs abc"})
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        *((one, "no address") for one in ("", "api.github.com", "ftp://h", "https://", "https://u:pw@h")),
        ("https://h:x", "no address"),
        ("http://github.example.com/api/v3", "plain http"),
    ],
)
def test_a_token_goes_to_no_address_that_is_none_or_that_others_could_read(address: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        Client(api=address, token=TOKEN)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "o", "o/r/x", "o/", "/r", "../r", "o/.."])
def test_a_repository_is_an_owner_and_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="is no repository"):
        in_repository(name, "pulls")


def test_parts_of_a_path_stay_parts() -> None:
    assert in_repository("o/r", "branches", "a/b?c") == "/repos/o/r/branches/a%2Fb%3Fc"
    with pytest.raises(UsageError, match="nothing of a repository"):
        in_repository("o/r", "branches", "..")
