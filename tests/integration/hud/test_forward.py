"""Handing a report to a stand-in for GitHub's API, and posting it where it arrives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.config import Settings, load_settings
from ci.core.errors import BadFileError, MissingInputError, SettingsError, UsageError
from ci.hud.dispatched import Dispatch, keep
from ci.hud.forward import BOX, MAX_INPUT_CHARACTERS, forward, hand_over, is_handed_over
from ci.hud.outbox import Outbox
from test_selection.files import read_json, write_json

MakeSettings = Callable[..., Settings]
TOKEN = "gh-s3cret"
ENVIRON = {"SPYRE_CI_GITHUB_TOKEN": TOKEN}
TAKEN: Any = (204, {}, "")


@pytest.fixture
def there(settings: MakeSettings, github: Any) -> Settings:
    return settings(report__dispatch__repository="our/repo", report__dispatch__api=github.url)


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
    world: Any, run_dir: Path, there: Settings, github: Any, *, step: Any, outcome: str, said: str
) -> None:
    github.script = [step]
    delivery = hand_over(run_dir, world.reporter(there, ENVIRON))
    assert (delivery.outcome, delivery.report.left[0].outcome) == ("left", outcome)
    assert said in world.lines[0]
    assert f"then `spyre-ci hud send {run_dir}`" in world.lines[0]
    assert TOKEN not in world.lines[0] + (run_dir / "hud.json").read_text()
    assert len(github.requests) == 1
    assert len(Outbox(run_dir, lambda: 0, name=BOX).pending()) == 1


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
def test_faults_of_github_are_waited_out(
    world: Any, run_dir: Path, there: Settings, github: Any, *, step: Any, slept: float
) -> None:
    github.script = [step, TAKEN]
    assert hand_over(run_dir, world.reporter(there, ENVIRON)).outcome == "dispatched"
    assert world.slept == [slept]


def test_a_report_larger_than_githubs_inputs_is_said_and_not_sent(
    world: Any, run_dir: Path, there: Settings, github: Any
) -> None:
    summary = read_json(run_dir / "summary.json", "summary")
    long = {**summary["identity"], "device": "é" * 8000, "provider": "é" * 8000}
    write_json(run_dir / "summary.json", "summary", {**summary, "identity": long})
    delivery = hand_over(run_dir, world.reporter(there, ENVIRON))
    (left,) = delivery.report.left
    assert left.outcome == "invalid"
    assert left.reason.endswith(f"characters, more than the {MAX_INPUT_CHARACTERS} GitHub takes as inputs")
    assert "or report to a server of your own (report.endpoint)" in left.remedy
    assert github.requests == []


def test_a_nightly_of_a_ci_without_oidc_is_handed_over(world: Any, run_dir: Path, there: Settings) -> None:
    minting = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "y"}
    assert is_handed_over(run_dir, world.reporter(there, ENVIRON))
    assert not is_handed_over(run_dir, world.reporter(there, minting))
    keep(run_dir, Dispatch(client_payload={"delivery_id": "d", "event_type": "pull_request"}))
    assert not is_handed_over(run_dir, world.reporter(there, ENVIRON))


def test_what_the_settings_lack_is_named(
    world: Any, run_dir: Path, settings: MakeSettings, there: Settings
) -> None:
    with pytest.raises(SettingsError, match="no repository is named that reports for this CI"):
        hand_over(run_dir, world.reporter(settings(), ENVIRON))
    with pytest.raises(SettingsError, match="there is no token") as caught:
        hand_over(run_dir, world.reporter(there, {}))
    assert caught.value.where == "report.dispatch.token_file"
    assert "SPYRE_CI_GITHUB_TOKEN" in str(caught.value.remedy)
    plain = settings(report__dispatch__repository="o/r", report__dispatch__api="http://ghe.example/api/v3")
    with pytest.raises(SettingsError, match="is plain http"):
        hand_over(run_dir, world.reporter(plain, ENVIRON))


def test_the_token_goes_to_no_address_of_a_settings_file(world: Any, run_dir: Path, github: Any) -> None:
    path = run_dir.parent / "spyre-ci.yaml"
    path.write_text(f"report: {{dispatch: {{repository: o/r, api: '{github.url}'}}}}\n")
    file = load_settings(path=path, environ={}, flags={}, cwd=run_dir.parent)
    with pytest.raises(SettingsError, match="a settings file, which a pull request can change"):
        hand_over(run_dir, world.reporter(file, ENVIRON))
    given = {"SPYRE_CI__REPORT__DISPATCH__API": github.url}
    environment = load_settings(path=path, environ=given, flags={}, cwd=run_dir.parent)
    github.script = [TAKEN]
    assert hand_over(run_dir, world.reporter(environment, ENVIRON)).outcome == "dispatched"


def test_a_token_file_serves_as_well(world: Any, run_dir: Path, settings: MakeSettings, github: Any) -> None:
    (run_dir.parent.parent / "gh").write_text("from-file\n")
    github.script = [TAKEN]
    there = settings(
        report__dispatch__repository="o/r",
        report__dispatch__api=github.url,
        report__dispatch__token_file="gh",
    )
    hand_over(run_dir, world.reporter(there, {}))
    assert github.requests[0]["headers"]["Authorization"] == "Bearer from-file"


def test_a_run_without_a_summary_is_said(world: Any, there: Settings, tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no summary file"):
        hand_over(tmp_path, world.reporter(there, ENVIRON))


def test_forwarding_wants_a_server_elsewhere_and_a_report(
    world: Any, settings: MakeSettings, tmp_path: Path, payload: dict[str, Any]
) -> None:
    for endpoint in ("embedded", "none"):
        with pytest.raises(UsageError, match="a report is forwarded to a server elsewhere"):
            forward(tmp_path, world.reporter(settings(report__endpoint=endpoint), {}))
    there = settings(report__endpoint="https://hud.example")
    with pytest.raises(UsageError, match="no report was handed over"):
        forward(tmp_path, world.reporter(there, {}))
    with pytest.raises(BadFileError, match="is no JSON"):
        forward(tmp_path, world.reporter(there, {"SPYRE_CI_REPORT": "$(id)"}))
    minting = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "y"}
    named = {**payload, "delivery_id": "2.13.0", "payload": {**payload["payload"], "head_sha": "2.13.0"}}
    with pytest.raises(BadFileError, match="are of no PyTorch commit"):
        forward(tmp_path, world.reporter(there, {**minting, "SPYRE_CI_REPORT": json.dumps(named)}))
    assert list(tmp_path.glob("handed-*")) == []
