"""A change's way to another repository, and its pull request, on a stand-in of GitHub."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from ci.core.errors import UsageError
from ci.core.github.client import Client
from ci.core.github.errors import GitHubAwayError, GitHubRefusedError
from ci.pins.branch import repository_at
from ci.pins.change import Change, make_change
from ci.pins.pull import MAX_BYTES, Pull, clipped, find_pull, open_pull
from ci.pins.push import PushError, Remote
from tests.github_api import GitHubApi, Repository, pull
from tests.integration.pins.checkout import NOW, Checkout, change_in, new_checkout

BRANCH = "pins/torch-2.10"


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository(
            branches={"main": "a" * 40, "next": "c" * 40, BRANCH: "b" * 40}
        )
        yield server


@pytest.fixture
def client(api: GitHubApi) -> Client:
    return Client(api=api.url, token=api.token)


@pytest.fixture
def change(tmp_path: Path) -> Change:
    return change_in(tmp_path)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """With a remote named origin beside it."""
    made = new_checkout(tmp_path / "checkout")
    made.commit()
    made.git("clone", "--quiet", "--bare", str(made.folder), str(tmp_path / "origin"))
    made.git("remote", "add", "origin", (tmp_path / "origin").as_uri())
    return made


def remote(checkout: Checkout, name: str = "origin") -> Remote:
    return Remote(repository_at(checkout.folder), name, api="https://api.github.com", token="t")


def test_a_pull_request_says_what_the_change_is(api: GitHubApi, client: Client, change: Change) -> None:
    opened = open_pull(client, "o/r", change, base="next")
    assert opened.state == "opened"
    made = api.repositories["o/r"].pulls[opened.number]
    assert (made["title"], made["body"], made["base"]["ref"]) == ("torch: 2.9 to 2.10", change.text, "next")
    assert find_pull(client, "o/r", BRANCH) == replace(opened, state="open")


def test_without_a_base_it_goes_into_the_repositorys_own_branch(
    api: GitHubApi, client: Client, change: Change
) -> None:
    api.repositories["o/r"].default_branch = "next"
    opened = open_pull(client, "o/r", change, base="")
    assert api.repositories["o/r"].pulls[opened.number]["base"]["ref"] == "next"


@pytest.mark.parametrize(
    ("more", "state"), [({}, "closed"), ({"merged_at": "2026-11-23T08:00:00Z"}, "merged")]
)
def test_one_that_people_closed_or_merged_is_found(
    api: GitHubApi, client: Client, more: dict[str, str], state: str
) -> None:
    url = "https://github.com/o/r/pull/7"
    api.repositories["o/r"].pulls[7] = pull(7, ref=BRANCH, state="closed") | {"html_url": url} | more
    assert find_pull(client, "o/r", BRANCH) == Pull(number=7, url=url, state=state, base="main")
    assert find_pull(client, "o/r", "pins/torch-2.11") is None


def test_one_that_came_meanwhile_is_found(api: GitHubApi, client: Client, change: Change) -> None:
    opened = open_pull(client, "o/r", change, base="main")
    assert open_pull(client, "o/r", change, base="main") == replace(opened, state="open")
    assert len(api.repositories["o/r"].pulls) == 1


def test_an_answer_that_is_no_pull_request_is_told(api: GitHubApi, client: Client) -> None:
    api.repositories["o/r"].pulls[7] = pull(7, ref=BRANCH)
    with pytest.raises(GitHubAwayError, match="the answer is no pull request"):
        find_pull(client, "o/r", BRANCH)


def test_a_base_that_is_not_there_is_told(client: Client, change: Change) -> None:
    with pytest.raises(GitHubRefusedError, match="base"):
        open_pull(client, "o/r", change, base="gone")


def test_a_text_that_is_too_long_is_cut_at_a_line_and_says_so() -> None:
    text = "- [ ] ä question\n" * 10_000
    cut = clipped(text)
    assert len(cut.encode()) <= MAX_BYTES
    assert cut.endswith("`spyre-ci pins checklist` prints it whole.\n")
    assert set(cut.splitlines()[:-3]) == {"- [ ] ä question"}
    assert clipped("short\n") == "short\n"


def test_a_branch_is_sent_once_and_a_fresh_clone_finds_it(checkout: Checkout, tmp_path: Path) -> None:
    change = change_in(checkout.folder)
    made = make_change(repository_at(checkout.folder), change, now=NOW.timestamp())
    for _ in range(2):
        remote(checkout).push(made.branch)
    # The next night's checkout has only the branch it was made for.
    night = Checkout(tmp_path / "night")
    origin = (tmp_path / "origin").as_uri()
    checkout.git("clone", "--quiet", "--depth=1", origin, str(night.folder))
    remote(night).fetch(BRANCH)
    again = make_change(repository_at(night.folder), change_in(night.folder), now=NOW.timestamp() + 86_400)
    assert (again.new, again.commit) == (False, made.commit)
    remote(night).push(BRANCH)
    assert night.git("rev-parse", "--is-shallow-repository") == "true"


def test_a_branch_that_is_nowhere_or_here_already_is_not_fetched(checkout: Checkout) -> None:
    remote(checkout).fetch(BRANCH)
    assert checkout.git("branch", "--list", "pins/*") == ""
    checkout.git("branch", BRANCH)
    remote(checkout).push(BRANCH)
    remote(checkout).fetch(BRANCH)


def test_another_branch_of_that_name_there_stays(checkout: Checkout, tmp_path: Path) -> None:
    make_change(repository_at(checkout.folder), change_in(checkout.folder), now=NOW.timestamp())
    checkout.git("commit", "--quiet", "--allow-empty", "--message", "theirs")
    checkout.git("push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}")
    with pytest.raises(PushError, match="rejected") as caught:
        remote(checkout).push(BRANCH)
    assert caught.value.exit_code == 3
    theirs = checkout.git("--git-dir", str(tmp_path / "origin"), "rev-parse", BRANCH)
    assert theirs == checkout.git("rev-parse", "HEAD")


def test_no_hook_runs_and_no_secret_of_an_address_is_told(checkout: Checkout) -> None:
    hook = checkout.write(".git/hooks/pre-push", "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    checkout.git("branch", BRANCH)
    remote(checkout).push(BRANCH)
    checkout.git("remote", "set-url", "origin", "http://user:hidden@127.0.0.1:1/o/r")
    with pytest.raises(PushError) as caught:
        remote(checkout).push(BRANCH)
    assert "hidden" not in str(caught.value)


class _Refusing(BaseHTTPRequestHandler):
    """Refuses whoever comes, and notes what they showed."""

    shown: ClassVar[list[list[str] | None]] = []

    def do_GET(self) -> None:
        self.shown.append(self.headers.get_all("authorization"))
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_git_shows_the_token_to_its_own_host_only_and_once(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Refusing, "shown", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        checkout.git("remote", "set-url", "origin", f"http://{host}/o/r")
        checkout.git("branch", BRANCH)
        # As a checkout action leaves it.
        checkout.git("config", f"http.http://{host}/.extraHeader", "Authorization: basic b2xk")
        for api in (f"http://{host}/api/v3", "http://127.0.0.2/api/v3"):
            far = Remote(repository_at(checkout.folder), "origin", api=api, token="ghs_made_up")
            with pytest.raises(PushError, match="403") as caught:
                far.push(BRANCH)
            assert "ghs_made_up" not in str(caught.value)
        server.shutdown()
    token = base64.b64encode(b"x-access-token:ghs_made_up").decode()
    assert _Refusing.shown == [[f"basic {token}"], ["basic b2xk"]]


def test_a_remote_that_is_not_known_is_told(checkout: Checkout) -> None:
    with pytest.raises(UsageError, match="there is no remote 'upstream'"):
        remote(checkout, "upstream")
