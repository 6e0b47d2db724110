"""`spyre-ci pins apply` from a decision to a pull request: real Git, a stand-in of GitHub."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from ci.core.errors import SettingsError, UsageError
from ci.pins.change import BranchTakenError
from ci.pins.diary import FILE, parse
from ci.pins.events import Upgraded
from ci.pins.push import PushError
from tests.github_api import GitHubApi, pull
from tests.integration.pins.checkout import Checkout
from tests.pins_desk import PIN, Desk, new_desk

BRANCH = "pins/tuning-2.10"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """In a checkout with a remote; 2.9 is pinned for 56 days, and 2.10 is there."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    desk = new_desk(folder, monkeypatch)
    desk.release("2.9", days_ago=90)
    desk.release("2.10")
    desk.upgraded(days_ago=56)
    checkout = Checkout(folder)
    checkout.git("init", "--quiet", "--initial-branch=main")
    checkout.git("config", "user.name", "a")
    checkout.git("config", "user.email", "a@example.org")
    checkout.commit()
    checkout.git("clone", "--quiet", "--bare", str(folder), str(tmp_path / "origin"))
    checkout.git("remote", "add", "origin", (tmp_path / "origin").as_uri())
    return desk


@pytest.fixture
def checkout(desk: Desk) -> Checkout:
    return Checkout(desk.folder)


def test_releases_and_requests_nobody_committed_are_in_the_change(desk: Desk, checkout: Checkout) -> None:
    desk.release("2.11", days_ago=1)
    desk.pins("request", "tuning", "bug", "--text", "it is wrong")
    desk.pins("apply", "tuning")
    branch = "pins/tuning-2.11"
    names = checkout.git("diff", "--name-only", "main", branch).split()
    assert [name for name in names if "2.11" in name] == ["pins/tuning/2.11-211000000000.json"]
    events = parse(checkout.git("show", f"{branch}:pins/tuning/{FILE}").encode(), Path(FILE))
    assert isinstance(events[-1], Upgraded)
    assert events[-1].answers == (1,)


def test_a_request_that_came_after_the_branch_is_never_lost_in_it(desk: Desk) -> None:
    desk.pins("apply", "tuning")
    desk.pins("request", "tuning", "bug", "--text", "it is wrong")
    with pytest.raises(BranchTakenError, match=r"has answers \(\), not \(1,\)"):
        desk.pins("apply", "tuning")


def test_with_a_token_and_a_repository_the_pull_request_is_opened_once(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    content = json.loads(desk.pins("apply", "tuning", "--json"))
    assert content["branch"] == BRANCH
    assert content["made"]["new"] is True
    assert content["pull"]["state"] == "opened"
    made = api.repositories["o/r"].pulls[content["pull"]["number"]]
    assert (made["head"]["ref"], made["base"]["ref"]) == (BRANCH, "main")
    assert "- [ ] " in made["body"]
    assert checkout.git("ls-remote", "origin", BRANCH).split()[0] == content["made"]["commit"]
    assert "is open already" in desk.pins("apply", "tuning")
    made["state"] = "closed"
    # Nothing is sent anew for what people have closed or merged.
    checkout.git("push", "--quiet", "origin", f":{BRANCH}")
    assert "was closed, and is not opened again" in desk.pins("apply", "tuning")
    made["merged_at"] = "2026-11-23T08:00:00Z"
    checkout.git("push", "--quiet", "origin", f"{BRANCH}:main")
    assert "is merged: pull it" in desk.pins("apply", "tuning")
    assert checkout.git("ls-remote", "origin", BRANCH) == ""
    assert len(api.asked("POST", "/pulls$")) == 1


def test_a_bug_after_an_upgrade_was_declined_has_a_pull_request_of_its_own(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    again = f"{BRANCH}-2"
    api.repositories["o/r"].branches[again] = "d" * 40
    desk.pins("apply", "tuning")
    for one in api.repositories["o/r"].pulls.values():
        one["state"] = "closed"
    desk.pins("request", "tuning", "bug", "--text", "it is wrong")
    said = desk.pins("apply", "tuning")
    assert f"branch {again} is made" in said
    assert "is opened" in said
    assert checkout.git("ls-remote", "origin", again)
    said = desk.pins("apply", "tuning")
    assert f"branch {again} is there already" in said
    assert "is open already" in said
    # What was declined with the bug in it is declined, also where somebody deleted the branch.
    for one in api.repositories["o/r"].pulls.values():
        one["state"] = "closed"
    origin = checkout.folder.parent / "origin"
    for number in api.repositories["o/r"].pulls:
        name = BRANCH if number == min(api.repositories["o/r"].pulls) else again
        checkout.git("--git-dir", str(origin), "update-ref", f"refs/pull/{number}/head", name)
    checkout.git("push", "--quiet", "origin", f":{again}", f":{BRANCH}")
    checkout.git("branch", "--quiet", "-D", again, BRANCH)
    assert "was closed, and is not opened again" in desk.pins("apply", "tuning")
    assert checkout.git("branch", "--list", "pins/*") == ""


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_an_upgrade_that_was_merged_and_taken_back_is_made_anew(
    desk: Desk, checkout: Checkout, api: GitHubApi, how: str
) -> None:
    again = f"{BRANCH}-2"
    api.repositories["o/r"].branches[again] = "d" * 40
    desk.pins("apply", "tuning")
    for one in api.repositories["o/r"].pulls.values():
        one.update(state="closed", merged_at="2026-11-23T08:00:00Z")
    before = checkout.git("rev-parse", "HEAD")
    checkout.git("merge", "--quiet", how, *(["--no-edit"] if how == "--no-ff" else []), BRANCH)
    checkout.git("commit", "--quiet", "--allow-empty", "--message", "merged")
    checkout.git("checkout", "--quiet", before, "--", ".")
    checkout.git("commit", "--quiet", "--message", "taken back")
    checkout.git("push", "--quiet", "origin", "main")
    assert f"branch {again} is made" in desk.pins("apply", "tuning")
    assert f"branch {again} is there already" in desk.pins("apply", "tuning")


def test_without_github_one_that_was_merged_and_taken_back_is_made_anew_too(
    desk: Desk, checkout: Checkout
) -> None:
    desk.pins("apply", "tuning")
    before = checkout.git("rev-parse", "HEAD")
    checkout.git("merge", "--quiet", "--ff-only", BRANCH)
    checkout.git("checkout", "--quiet", before, "--", ".")
    checkout.git("commit", "--quiet", "--message", "taken back")
    assert f"branch {BRANCH}-2 is made" in desk.pins("apply", "tuning")


def test_one_that_was_closed_and_cannot_be_compared_is_told(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    url = "https://github.com/o/r/pull/7"
    api.repositories["o/r"].pulls[7] = pull(7, ref=BRANCH, state="closed") | {"html_url": url}
    with pytest.raises(PushError, match="refs/pull/7/head"):
        desk.pins("apply", "tuning")
    checkout.git("checkout", "--quiet", "-b", BRANCH)
    checkout.write(f"pins/tuning/{FILE}", "none\n\n")
    checkout.commit()
    checkout.git("checkout", "--quiet", "main")
    with pytest.raises(BranchTakenError, match="pull request 7 was closed, and cannot be compared") as caught:
        desk.pins("apply", "tuning")
    assert (caught.value.where, caught.value.exit_code) == (url, 1)


def test_the_next_nights_checkout_opens_nothing_anew(
    desk: Desk, checkout: Checkout, api: GitHubApi, tmp_path: Path
) -> None:
    desk.pins("apply", "tuning")
    night = tmp_path / "night"
    checkout.git("clone", "--quiet", "--depth=1", (tmp_path / "origin").as_uri(), str(night))
    Checkout(night).git("checkout", "--quiet", "--detach")
    desk.folder, desk.now = night, desk.now + timedelta(days=1)
    said = desk.pins("apply", "tuning")
    assert "is there already" in said
    assert "is open already" in said
    assert len(api.asked("POST", "/pulls$")) == 1


def test_a_detached_checkout_opens_it_into_the_repositorys_own_branch(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    checkout.git("checkout", "--quiet", "--detach")
    api.repositories["o/r"].default_branch = "main"
    assert "is opened" in desk.pins("apply", "tuning")
    assert len(api.asked("GET", "/repos/o/r$")) == 1


def test_local_sends_nothing_anywhere_and_what_it_made_is_sent_later(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    assert "to open it: git push" in desk.pins("apply", "tuning", "--local")
    assert checkout.git("ls-remote", "origin", "pins/*") == ""
    assert api.seen == []
    assert "is opened" in desk.pins("apply", "tuning")


def test_a_repository_that_is_named_wants_a_token(desk: Desk) -> None:
    with pytest.raises(SettingsError, match="there is no token for GitHub"):
        desk.pins("apply", "tuning", "--repository", "o/r")


def test_a_repository_of_a_ci_without_a_token_is_told_how(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    assert "to open it: git push" in desk.pins("apply", "tuning")


def test_a_pin_that_somebody_changed_by_hand_is_said(desk: Desk, checkout: Checkout) -> None:
    (desk.folder / "stack.yaml").write_text(PIN.replace("2.9", "2.7"))
    checkout.commit()
    said = desk.pins("apply", "tuning")
    assert "NOTE: the last upgrade was to 2.9, and 2.7 is committed" in said


def test_an_upgrade_that_waits_to_be_merged_is_told_when_a_campaign_begins(
    desk: Desk, checkout: Checkout
) -> None:
    settings = desk.folder / "spyre-ci.yaml"
    settings.write_text(
        f"{settings.read_text()}    tuning-next: {{image: localhost/other, direct: [torch]}}\n"
    )
    checkout.git("branch", "pins/tuning-old")
    checkout.git("branch", "pins/tuning-next-2.10")
    desk.pins("apply", "tuning")
    checkout.git("push", "--quiet", "origin", BRANCH)
    told = [BRANCH, f"origin/{BRANCH}"]
    said = desk.pins("campaign", "start", "w", "--track", "tuning")
    assert [line.split()[1] for line in said.splitlines() if "NOTE" in line] == told
    assert json.loads(desk.pins("status", "tuning", "--json"))["tracks"]["tuning"]["unmerged"] == told
    assert f"  {BRANCH} holds an upgrade that is not merged" in desk.pins("status", "tuning")
    checkout.git("commit", "--quiet", "--all", "--message", "settings and campaign")
    checkout.git("checkout", "--quiet", BRANCH)
    assert "not merged" not in desk.pins("status", "tuning")


def test_apply_outside_of_a_checkout_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = new_desk(tmp_path, monkeypatch)
    desk.release("2.10")
    with pytest.raises(UsageError, match="is in no checkout of Git"):
        desk.pins("apply", "tuning")


def test_a_track_without_a_place_has_its_upgrade_in_the_events_alone(desk: Desk, checkout: Checkout) -> None:
    settings = (desk.folder / "spyre-ci.yaml").read_text()
    pin = "      pin: {file: stack.yaml, key: variants.pinned.version}\n"
    (desk.folder / "spyre-ci.yaml").write_text(settings.replace(pin, ""))
    desk.pins("apply", "tuning")
    assert checkout.git("diff", "--name-only", "main", BRANCH) == f"pins/tuning/{FILE}"


def test_a_step_back_is_a_change_of_its_own_although_its_branch_was_merged_once(
    desk: Desk, checkout: Checkout, api: GitHubApi
) -> None:
    api.repositories["o/r"].branches["pins/tuning-2.9-2"] = "d" * 40
    desk.pins("apply", "tuning")
    checkout.git("merge", "--quiet", "--ff-only", BRANCH)
    for one in api.repositories["o/r"].pulls.values():
        one.update(state="closed", merged_at="2026-11-23T08:00:00Z")
    desk.now += timedelta(days=1)
    desk.pins("request", "tuning", "regression", "--text", "it is slow", "--version", "2.9")
    said = desk.pins("apply", "tuning")
    assert "tuning: upgrade to 2.9" in said
    assert "branch pins/tuning-2.9-2 is made" in said
    assert "is opened" in said
    assert "'2.9'" in checkout.git("show", "pins/tuning-2.9-2:stack.yaml")
