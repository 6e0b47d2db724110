"""Handing a report to a stand-in for GitHub's API, and posting it where it arrives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci.config import load_settings
from ci.core.errors import BadFileError, MissingInputError, SettingsError, SpyreCiError, UsageError
from ci.hud.dispatched import Dispatch, keep
from ci.hud.forward import BOX, MAX_INPUT_CHARACTERS, forward, hand_over, is_handed_over
from ci.hud.outbox import Outbox
from ci.hud.send import Delivery

from .desk import Desk

TOKEN = "gh-s3cret"
TAKEN: Any = (204, {}, "")
MINTING = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "y"}


@pytest.fixture
def here(desk: Desk, github: Any) -> Desk:
    """A nightly of a CI that the relay does not know."""
    desk.flags |= {"report.dispatch.repository": "our/repo", "report.dispatch.api": github.url}
    desk.environ = {"SPYRE_CI_GITHUB_TOKEN": TOKEN}
    return desk


def hand(desk: Desk) -> Delivery:
    return hand_over(desk.run_dir, desk.reporter)


@pytest.mark.parametrize(
    ("step", "outcome", "said"),
    [
        ((401, {}, f"Bad credentials {TOKEN}"), "unauthorized", "Bad credentials ***"),
        ((403, {}, "Resource not accessible"), "unauthorized", "actions: write"),
        ((404, {}, "Not Found"), "refused", "the token may not see it"),
        ((422, {}, "No ref found for: main"), "refused", "No ref found for: main"),
        ((302, {"Location": "http://127.0.0.1:1/"}, ""), "refused", "HTTP 302"),
    ],
)
def test_a_refusal_of_github_is_said_and_the_report_kept(
    here: Desk, github: Any, *, step: Any, outcome: str, said: str
) -> None:
    github.script = [step]
    delivery = hand(here)
    assert (delivery.outcome, delivery.report.left[0].outcome) == ("left", outcome)
    assert said in here.lines[0]
    assert f"then `spyre-ci hud send {here.run_dir}`" in here.lines[0]
    assert not here.shows([TOKEN])
    assert len(github.requests) == 1
    assert len(Outbox(here.run_dir, lambda: 0, name=BOX).pending()) == 1


@pytest.mark.parametrize(
    ("step", "slept"),
    [
        (503, 1.5),
        ("cut", 1.5),
        ((429, {}, ""), 75.0),
        ((403, {"Retry-After": "90"}, "secondary rate limit"), 105.0),
        ((403, {"X-RateLimit-Remaining": "0"}, "rate limit"), 75.0),
    ],
)
def test_faults_of_github_are_waited_out(here: Desk, github: Any, step: Any, slept: float) -> None:
    github.script = [step, TAKEN]
    assert (hand(here).outcome, here.slept) == ("dispatched", [slept])


def test_a_report_larger_than_githubs_inputs_is_said_and_not_sent(here: Desk, github: Any) -> None:
    here.change_identity(device="é" * 8000, provider="é" * 8000)
    (left,) = hand(here).report.left
    assert left.outcome == "invalid"
    assert left.reason.endswith(f"characters, and GitHub accepts at most {MAX_INPUT_CHARACTERS}")
    assert "or report to a server of your own (report.endpoint)" in left.remedy
    assert github.requests == []


def test_a_nightly_of_a_ci_without_oidc_is_handed_over(here: Desk) -> None:
    assert is_handed_over(here.run_dir, here.reporter)
    here.environ |= MINTING
    assert not is_handed_over(here.run_dir, here.reporter)
    here.environ = {}
    keep(here.run_dir, Dispatch(client_payload={"delivery_id": "d", "event_type": "pull_request"}))
    assert not is_handed_over(here.run_dir, here.reporter)


def test_a_run_that_somebody_ended_is_handed_over_as_cancelled(here: Desk, github: Any) -> None:
    github.script = [TAKEN]
    here.environ["SPYRE_CI_CANCELLED"] = "true"
    assert hand(here).outcome == "dispatched"
    (request,) = github.requests
    report = json.loads(json.loads(request["body"])["inputs"]["report"])
    assert report["workflow"]["conclusion"] == "cancelled"


def test_what_the_settings_lack_is_named(here: Desk) -> None:
    here.environ = {}
    with pytest.raises(SettingsError, match="there is no token") as caught:
        hand(here)
    assert caught.value.where == "report.dispatch.token_file"
    assert "SPYRE_CI_GITHUB_TOKEN" in str(caught.value.remedy)
    here.flags["report.dispatch.api"] = "http://ghe.example/api/v3"
    with pytest.raises(SettingsError, match="is plain http"):
        hand(here)
    del here.flags["report.dispatch.repository"]
    with pytest.raises(SettingsError, match="the repository that reports for this CI is not set"):
        hand(here)


def test_the_token_goes_to_no_address_of_a_settings_file(
    here: Desk, github: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = here.folder / "spyre-ci.yaml"
    path.write_text(f"report: {{dispatch: {{repository: o/r, api: '{github.url}'}}}}\n")
    given: dict[str, str] = {}
    load = property(lambda desk: load_settings(path=path, environ=given, flags={}, cwd=desk.folder))
    monkeypatch.setattr(Desk, "settings", load)
    with pytest.raises(SettingsError, match="the settings file, which a pull request can change"):
        hand(here)
    given["SPYRE_CI__REPORT__DISPATCH__API"] = github.url
    github.script = [TAKEN]
    assert hand(here).outcome == "dispatched"


def test_a_token_file_serves_as_well(here: Desk, github: Any) -> None:
    (here.folder / "gh").write_text("from-file\n")
    here.environ = {}
    here.flags["report.dispatch.token_file"] = "gh"
    github.script = [TAKEN]
    hand(here)
    assert github.requests[0]["headers"]["Authorization"] == "Bearer from-file"


def test_a_run_without_a_summary_is_said(here: Desk) -> None:
    (here.run_dir / "summary.json").unlink()
    with pytest.raises(MissingInputError, match="there is no summary file"):
        hand(here)


@pytest.mark.parametrize(
    ("endpoint", "report", "error", "said"),
    [
        ("embedded", None, UsageError, "a report is forwarded to a remote server"),
        ("none", None, UsageError, "a report is forwarded to a remote server"),
        ("https://hud.example", None, UsageError, "there is no report"),
        ("https://hud.example", "$(id)", BadFileError, "is not valid JSON"),
        ("https://hud.example", "a version", BadFileError, "the PyTorch commit of its tests is unknown"),
    ],
)
def test_forwarding_wants_a_server_elsewhere_and_a_report(
    desk: Desk,
    tmp_path: Path,
    payload: dict[str, Any],
    *,
    endpoint: str,
    report: str | None,
    error: type[SpyreCiError],
    said: str,
) -> None:
    desk.flags["report.endpoint"] = endpoint
    desk.environ = dict(MINTING)
    if report == "a version":
        named = {**payload["payload"], "head_sha": "2.13.0"}
        report = json.dumps({**payload, "delivery_id": "2.13.0", "payload": named})
    if report is not None:
        desk.environ["SPYRE_CI_REPORT"] = report
    with pytest.raises(error, match=said):
        forward(tmp_path, desk.reporter)
    assert list(tmp_path.glob("handed-*")) == []
