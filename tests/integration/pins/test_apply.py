"""`spyre-ci pins apply` from a decision to a pull request: real Git, a stand-in of GitHub."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from ci.core.errors import CommandError, UsageError
from ci.pins.checkout import Remote, RemoteError, checkout_at
from ci.pins.events import FILE
from tests.github_api import GitHubApi
from tests.integration.pins.checkout import Checkout, fresh, new_checkout
from tests.pins_desk import NOW, PIN, SETTINGS, Desk, new_desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """In a checkout with a remote; 2.9 is pinned for 56 days, and 2.10 is there."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    desk = new_desk(folder, monkeypatch)
    desk.release("2.9", days_ago=90)
    desk.release("2.10")
    desk.upgraded(days_ago=56)
    new_checkout(folder)
    return desk


@pytest.fixture
def checkout(desk: Desk) -> Checkout:
    return Checkout(desk.folder)


def applied(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(desk.pins("apply", "tuning", "--json"))["sent"]
    return found


def test_a_branch_has_the_pin_the_ledger_and_the_event_and_the_checkout_stays(
    desk: Desk, checkout: Checkout
) -> None:
    desk.release("2.11", days_ago=1)
    desk.pins("request", "tuning", "bug", "--text", "it is wrong")
    # What is dirty stays as it is, and only what is of the pin and its ledger is in the branch.
    checkout.write("stack.yaml", PIN + "own: work\n")
    checkout.write("new.txt", "not added\n")
    before = checkout.state
    sent = applied(desk)
    assert (sent["new"], sent["pull"], checkout.state) == (True, None, before)
    branch = sent["branch"]
    names = checkout.git("diff", "--name-only", "main", branch).split()
    assert names == ["pins/tuning/2.11-211000000000.json", f"pins/tuning/{FILE}", "stack.yaml"]
    about = checkout.git("log", "-1", "--format=%P %an %ae %at %s", branch)
    who = f"spyre-ci spyre-ci@users.noreply.github.com {int(NOW.timestamp())}"
    assert about == f"{checkout.git('rev-parse', 'main')} {who} tuning: 2.9 to 2.11"
    desk.now += timedelta(days=3)
    assert applied(desk) == {**sent, "new": False}, "done again it changes nothing"
    assert f"to propose it: git push origin {branch}" in desk.pins("apply", "tuning")


def test_the_pull_request_is_opened_once_with_the_checklist(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    checklist = desk.pins("decide", "tuning", "--checklist")
    sent = applied(desk)
    branch = sent["branch"]
    assert (sent["new"], sent["pull"]["state"], sent["commit"]) == (True, "opened", checkout.tip(branch))
    made = api.repositories["o/r"].pulls[sent["pull"]["number"]]
    assert (made["head"]["ref"], made["base"]["ref"], made["title"]) == (
        branch,
        "main",
        "tuning: 2.9 to 2.10",
    )
    assert made["body"].strip() == checklist.strip()
    assert "is open: " in desk.pins("apply", "tuning")
    # In the next night's checkout it is as it is at the remote.
    night = fresh(checkout, "night")
    night.git("checkout", "--quiet", "--detach")
    desk.folder, desk.now = night.folder, desk.now + timedelta(days=1)
    assert applied(desk) == {**sent, "new": False, "pull": {**sent["pull"], "state": "open"}}
    assert night.git("branch", "--list", "pins/*") == ""
    # What people closed or merged is not sent again, also where they deleted the branch.
    checkout.git("push", "--quiet", "origin", f":{branch}")
    made["state"] = "closed"
    assert "was closed, and is not reopened" in desk.pins("apply", "tuning")
    made["merged_at"] = "2026-11-23T08:00:00Z"
    assert "is merged: pull it" in desk.pins("apply", "tuning")
    assert (checkout.tip(branch), len(api.asked("POST", "/pulls$"))) == ("", 1)
    # A request that came since is worth a new one.
    desk.pins("request", "tuning", "bug", "--text", "it is wrong")
    again = applied(desk)
    assert (again["branch"] != branch, again["pull"]["state"]) == (True, "opened")


def test_a_detached_checkout_opens_it_into_the_repositorys_own_branch(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    checkout.git("checkout", "--quiet", "--detach")
    api.repositories["o/r"].default_branch = "next"
    number = applied(desk)["pull"]["number"]
    assert api.repositories["o/r"].pulls[number]["base"]["ref"] == "next"


def test_one_that_came_meanwhile_is_found_and_what_is_refused_is_told(
    desk: Desk, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = applied(desk)["pull"]
    asked = iter([None])
    from ci.pins.pull_request import GitHub  # noqa: PLC0415

    find = GitHub.find
    monkeypatch.setattr(GitHub, "find", lambda self, branch: next(asked, find(self, branch)))
    assert applied(desk)["pull"] == {**opened, "state": "open"}
    api.repositories["o/r"].pulls.clear()
    api.fail(method="POST", path="/pulls$", status=422, message="Validation Failed: base")
    desk.pins("apply", "tuning", code=2)
    assert "base" in desk.err


def test_without_a_token_it_is_told_how(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    assert "to propose it: git push" in desk.pins("apply", "tuning")


def test_a_step_back_and_a_rebuild_are_changes_of_their_own(desk: Desk, checkout: Checkout) -> None:
    branch = applied(desk)["branch"]
    checkout.git("merge", "--quiet", "--ff-only", branch)
    desk.now += timedelta(days=1)
    desk.pins("request", "tuning", "regression", "--text", "it is slow", "--version", "2.9")
    back = applied(desk)["branch"]
    assert back.startswith("pins/tuning/2.9-")
    assert "'2.9'" in checkout.git("show", f"{back}:stack.yaml")
    checkout.git("checkout", "--quiet", "--", ".")
    desk.pins("request", "tuning", "bug", "--text", "it is wrong", "--version", "2.10", "--sha", "d" * 40)
    rebuilt = applied(desk)["branch"]
    assert checkout.git("diff", "--name-only", "main", rebuilt) == f"pins/tuning/{FILE}"
    assert checkout.git("log", "-1", "--format=%s", rebuilt) == "tuning: 2.10 rebuilt, with dddddddddddd"


def test_a_track_without_a_place_has_its_upgrade_in_the_events_alone(desk: Desk, checkout: Checkout) -> None:
    pin = "      pin: {file: stack.yaml, key: variants.pinned.version}\n"
    (desk.folder / "spyre-ci.yaml").write_text(SETTINGS.replace(pin, ""))
    assert checkout.git("diff", "--name-only", "main", applied(desk)["branch"]) == f"pins/tuning/{FILE}"


@pytest.mark.usefixtures("api")
def test_no_hook_and_no_filter_of_the_user_runs(desk: Desk, checkout: Checkout) -> None:
    ran = checkout.folder / "ran"
    for hook in ("pre-commit", "commit-msg", "reference-transaction", "post-commit", "pre-push"):
        path = checkout.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch '{ran}'\nexit 1\n")
        path.chmod(0o755)
    checkout.git("-c", "core.hooksPath=/dev/null", "config", "filter.loud.clean", "tr a-z A-Z")
    checkout.git("-c", "core.hooksPath=/dev/null", "config", "core.autocrlf", "true")
    checkout.write(".git/info/attributes", "*.yaml filter=loud\n*.jsonl filter=loud\n")
    sent = applied(desk)
    assert not ran.exists()
    written = checkout.git("cat-file", "blob", f"{sent['branch']}:stack.yaml")
    assert written == PIN.replace("2.9", "2.10").strip()


def test_a_program_stays_one_a_link_is_followed_and_a_name_is_no_pattern(
    desk: Desk, checkout: Checkout
) -> None:
    (desk.folder / "stack.yaml").rename(desk.folder / "st*ck [1].yaml")
    (desk.folder / "st*ck [1].yaml").chmod(0o755)
    (desk.folder / "stack.yaml").symlink_to("st*ck [1].yaml")
    checkout.commit()
    branch = applied(desk)["branch"]
    assert checkout.git("ls-tree", branch, "st*ck [1].yaml").startswith("100755 blob")
    assert "2.10" in checkout.git("show", f"{branch}:st*ck [1].yaml")


def test_a_pin_that_is_not_committed_or_elsewhere_is_refused(desk: Desk, tmp_path: Path) -> None:
    for file, said in (
        ("new.yaml", "is not committed"),
        ("../elsewhere.yaml", "is outside the repository"),
    ):
        (desk.folder / file).write_text(PIN)
        (desk.folder / "spyre-ci.yaml").write_text(SETTINGS.replace("stack.yaml", file))
        with pytest.raises(UsageError, match=said):
            desk.pins("apply", "tuning")
    for words, said in (((), "not a git repository"), (("init", "--quiet"), "Needed a single revision")):
        folder = tmp_path / "none"
        folder.mkdir(exist_ok=True)
        if words:
            Checkout(folder).git(*words)
        with pytest.raises(CommandError, match=said) as caught:
            checkout_at(folder)
        assert caught.value.remedy == "run it in a Git checkout that has a commit"


def test_a_branch_that_stands_in_the_way_is_told(desk: Desk, checkout: Checkout) -> None:
    checkout.git("branch", "pins")
    with pytest.raises(CommandError, match="'refs/heads/pins' exists"):
        desk.pins("apply", "tuning")


def test_another_branch_of_that_name_there_stays(desk: Desk, checkout: Checkout) -> None:
    remote = Remote(checkout_at(desk.folder), "origin", api="https://api.github.com", token="t")
    branch = applied(desk)["branch"]
    checkout.git("commit", "--quiet", "--allow-empty", "--message", "theirs")
    checkout.git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
    with pytest.raises(RemoteError, match="rejected") as caught:
        remote.push(branch)
    assert (caught.value.exit_code, checkout.tip(branch)) == (3, checkout.git("rev-parse", "HEAD"))
    with pytest.raises(RemoteError, match="No such remote"):
        Remote(checkout_at(desk.folder), "upstream", api="", token="")


class _Refusing(BaseHTTPRequestHandler):
    """Refuses whoever comes, and notes what they showed."""

    shown: ClassVar[list[list[str] | None]] = []

    def do_GET(self) -> None:
        self.shown.append(self.headers.get_all("authorization"))
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_git_shows_the_token_to_its_own_host_only_and_no_secret_is_told(
    desk: Desk, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Refusing, "shown", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        # As a checkout action leaves it.
        checkout.git("config", f"http.http://{host}/.extraHeader", "Authorization: basic b2xk")
        for address, api in ((host, host), (host, "127.0.0.2"), (f"user:hidden@{host}", "127.0.0.2")):
            checkout.git("remote", "set-url", "origin", f"http://{address}/o/r")
            remote = Remote(
                checkout_at(desk.folder), "origin", api=f"http://{api}/api/v3", token="ghs_made_up"
            )
            with pytest.raises(RemoteError, match="403") as caught:
                remote.push("main")
            assert "ghs_made_up" not in str(caught.value)
            assert "hidden" not in str(caught.value)
        server.shutdown()
    token = base64.b64encode(b"x-access-token:ghs_made_up").decode()
    assert _Refusing.shown[:2] == [[f"basic {token}"], ["basic b2xk"]]
