"""Both callbacks of a run that the relay dispatched, over real sockets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ci.config import Settings
from ci.hud.outbox import Outbox
from ci.store.store import Store
from test_selection.files import read_json, write_json

from .conftest import CHECK_RUN, IDENTITY

MakeSettings = Callable[..., Settings]
CLIENT_PAYLOAD = {
    "event_type": "pull_request",
    "delivery_id": "72d3162e-cc78",
    "payload": {
        "action": "opened",
        "pull_request": {"number": 7, "head": {"sha": "a" * 40}},
        "repository": {"full_name": "pytorch/pytorch"},
    },
}
TRANSITION: Any = (400, {}, '{"detail": "callback rejected: invalid state transition delivery_id=x"}')
BEGUN: Any = (200, {}, '{"ok": true, "status": "in_progress"}')


@pytest.fixture
def environ(tmp_path: Path, run_dir: Path) -> dict[str, str]:
    write_json(run_dir / "run.json", "run", IDENTITY)
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"client_payload": CLIENT_PAYLOAD}))
    return {
        "SPYRE_CI_HUD_TOKEN": "s3cret-token",
        "GITHUB_EVENT_NAME": "repository_dispatch",
        "GITHUB_EVENT_PATH": str(path),
        "SPYRE_CI_CHECK_RUN_ID": "991",
    }


def told(faulty: Any) -> list[str]:
    return [json.loads(request["body"])["workflow"]["status"] for request in faulty.requests]


def waiting(run_dir: Path) -> list[str]:
    return [report.status for report in Outbox(run_dir, lambda: 0).pending()]


def test_a_nightly_tells_no_begin(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    environ["GITHUB_EVENT_NAME"] = "schedule"
    assert world.begin(run_dir, settings(report__endpoint=faulty.url), environ) is None
    assert (faulty.requests, world.lines) == ([], [])
    assert not (run_dir / "hud.json").exists()


def test_a_begin_that_could_not_be_sent_goes_before_the_end(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint=faulty.url)
    faulty.script = [503] * 6 + [BEGUN, "ok"]
    assert world.begin(run_dir, here, environ).outcome == "left"
    assert world.deliver(run_dir, here, environ).outcome == "delivered"
    assert told(faulty) == ["in_progress"] * 7 + ["completed"]


def test_an_end_without_a_begin_tells_both(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    faulty.script = [BEGUN, "ok"]
    assert world.deliver(run_dir, settings(report__endpoint=faulty.url), environ).outcome == "delivered"
    assert told(faulty) == ["in_progress", "completed"]


def test_an_end_is_kept_with_the_reason_while_its_begin_is_refused(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint=faulty.url)
    faulty.script = [(400, {}, '{"detail": "no dispatch record"}')]
    assert world.begin(run_dir, here, environ).outcome == "left"
    delivery = world.deliver(run_dir, here, environ)
    # What was refused as it is is not sent again by the run itself.
    assert told(faulty) == ["in_progress"]
    assert [left.outcome for left in delivery.report.left] == ["refused", "held"]
    assert "no dispatch record" in delivery.report.left[1].reason
    assert waiting(run_dir) == ["in_progress", "completed"]
    faulty.script = [BEGUN, "ok"]
    assert world.flush(run_dir, here, environ).outcome == "delivered"
    assert told(faulty)[1:] == ["in_progress", "completed"]


def test_a_second_end_is_refused(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    faulty.script = [BEGUN, TRANSITION]
    delivery = world.deliver(run_dir, settings(report__endpoint=faulty.url), environ)
    assert (delivery.outcome, delivery.report.left[0].outcome) == ("left", "refused")
    assert waiting(run_dir) == ["completed"]


def test_a_run_that_was_begun_in_another_job_is_reported(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    # The first job hands on what the run is, not its outbox.
    here = settings(report__endpoint=faulty.url)
    faulty.script = [BEGUN, TRANSITION, "ok"]
    assert world.begin(run_dir, here, environ).outcome == "delivered"
    shutil.rmtree(run_dir / "outbox")
    delivery = world.deliver(run_dir, here, environ)
    assert (delivery.outcome, waiting(run_dir)) == ("delivered", [])
    assert "the relay knew that this job has begun" in delivery.report.warnings[0]
    assert told(faulty) == ["in_progress", "in_progress", "completed"]


@pytest.mark.parametrize("change", ["another url", "gone"])
def test_a_run_whose_folder_says_something_else_since_its_begin_is_reported(
    world: Any,
    run_dir: Path,
    settings: MakeSettings,
    faulty: Any,
    environ: dict[str, str],
    *,
    change: str,
) -> None:
    here = settings(report__endpoint=faulty.url)
    faulty.script = [BEGUN, "ok"]
    assert world.begin(run_dir, here, environ).outcome == "delivered"
    if change == "gone":
        (run_dir / "run.json").unlink()
        summary = read_json(run_dir / "summary.json", "summary")
        identity = {**IDENTITY, "started_at": "2026-08-01T02:00:00.000Z"}
        write_json(run_dir / "summary.json", "summary", {**summary, "identity": identity})
    else:
        write_json(run_dir / "run.json", "run", {**IDENTITY, "url": "https://ci.example/2"})
    assert world.deliver(run_dir, here, environ).outcome == "delivered"
    assert told(faulty) == ["in_progress", "completed"]
    assert waiting(run_dir) == []


def test_a_correction_of_what_the_relay_has_is_not_sent(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint=faulty.url)
    faulty.script = [BEGUN, "ok"]
    world.deliver(run_dir, here, environ)
    summary = read_json(run_dir / "summary.json", "summary")
    write_json(run_dir / "summary.json", "summary", {**summary, "verdicts": {"passed": 10}, "exit_code": 0})
    delivery = world.deliver(run_dir, here, environ)
    assert delivery.reason == "the relay has this attempt's `completed` already, and takes no second one"
    assert len(faulty.requests) == 2


def test_a_run_that_gives_up_tells_its_end(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint=faulty.url)
    faulty.script = [BEGUN, "ok"]
    world.begin(run_dir, here, environ)
    (run_dir / "summary.json").unlink()
    world.now = 1_795_000_000.0
    assert world.give_up(run_dir, here, environ).outcome == "delivered"
    workflow = json.loads(faulty.requests[-1]["body"])["workflow"]
    assert (workflow["status"], workflow["conclusion"]) == ("completed", "cancelled")
    assert world.lines[-1].startswith("HUD: told that the run has ended: cancelled")
    # Its end is told now.
    assert world.give_up(run_dir, here, environ) is None


def test_a_broken_event_fails_no_run(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    Path(environ["GITHUB_EVENT_PATH"]).write_text('{"client_payload": {"delivery_id": 7}}')
    here = settings(report__endpoint=faulty.url)
    for delivery in (
        world.begin(run_dir, here, environ),
        world.deliver(run_dir, here, environ),
        world.give_up(run_dir, here, environ),
    ):
        assert delivery.outcome == "failed"
        assert "client_payload.delivery_id: is no line of text" in delivery.reason


def test_nothing_is_told_where_reporting_is_switched_off(
    world: Any, run_dir: Path, settings: MakeSettings, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint="none")
    assert world.begin(run_dir, here, environ) is None
    assert world.give_up(run_dir, here, environ) is None
    assert not (run_dir / "dispatch.json").exists()


def test_an_event_file_of_the_settings_is_used(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    faulty.script = [BEGUN]
    here = settings(report__endpoint=faulty.url, report__event_file="event.json")
    by_hand = {"SPYRE_CI_HUD_TOKEN": environ["SPYRE_CI_HUD_TOKEN"]}
    assert world.begin(run_dir, here, by_hand).outcome == "delivered"
    workflow = json.loads(faulty.requests[0]["body"])["workflow"]
    assert workflow["check_run_id"] == CHECK_RUN


def test_a_server_of_our_own_is_told_of_the_dispatch_first(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint=faulty.url, report__own_server=True)
    faulty.script = [(200, {}, '{"ok": true}'), BEGUN, "ok"]
    world.begin(run_dir, here, environ)
    assert world.deliver(run_dir, here, environ).outcome == "delivered"
    paths = [request["path"] for request in faulty.requests]
    assert paths == ["/api/dispatch", "/github/callback", "/github/callback"]
    noted = json.loads(faulty.requests[0]["body"])
    assert noted == {"delivery_id": "72d3162e-cc78", "repository": "torch-spyre/torch-spyre"}
    assert "spyre_ci" in json.loads(faulty.requests[2]["body"])["payload"]


@pytest.mark.parametrize("step", [404, 403, "cut"])
def test_a_server_that_takes_no_dispatch_gets_the_callback_all_the_same(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str], *, step: Any
) -> None:
    faulty.script = [step, BEGUN]
    here = settings(report__endpoint=faulty.url, report__own_server=True)
    assert world.begin(run_dir, here, environ).outcome == "delivered"


def test_failed_jobs_that_are_run_again_tell_an_attempt_of_their_own(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint=faulty.url, report__job_name="PyTorch tests")
    first = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "987", "GITHUB_RUN_ATTEMPT": "1"}
    faulty.script = [BEGUN, "ok", BEGUN, "ok"]
    world.begin(run_dir, here, {**environ, **first})
    world.deliver(run_dir, here, {**environ, **first, "SPYRE_CI_CHECK_RUN_ID": "992"})
    # The job that reports is run again, and the one that began is not.
    shutil.rmtree(run_dir / "outbox")
    again = {**environ, **first, "GITHUB_RUN_ATTEMPT": "2", "SPYRE_CI_CHECK_RUN_ID": "995"}
    assert world.deliver(run_dir, here, again).outcome == "delivered"
    workflows = [json.loads(request["body"])["workflow"] for request in faulty.requests]
    keys = ("status", "run_id", "run_attempt", "check_run_id", "job_name")
    assert [tuple(one[key] for key in keys) for one in workflows] == [
        ("in_progress", "987", 1, "991", "PyTorch tests (nightly-main)"),
        ("completed", "987", 1, "991", "PyTorch tests (nightly-main)"),
        ("in_progress", "987", 2, "995", "PyTorch tests (nightly-main)"),
        ("completed", "987", 2, "995", "PyTorch tests (nightly-main)"),
    ]


def test_what_hud_refuses_behind_the_relay_holds_no_end_and_is_a_row_lost(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    output = run_dir / "output"
    refused: Any = (401, {}, '{"detail": "HUD rejected callback: HTTP 401: who are you?"}')
    faulty.script = [refused, "ok"]
    outputs = {**environ, "GITHUB_OUTPUT": str(output)}
    here = settings(report__endpoint=faulty.url)
    assert world.begin(run_dir, here, outputs).outcome == "row_lost"
    assert world.deliver(run_dir, here, outputs).outcome == "delivered"
    assert told(faulty) == ["in_progress", "completed"]
    assert output.read_text().split() == ["hud_outcome=row_lost", "hud_outcome=delivered"]
    assert "state known, row lost" in world.lines[1]
    assert "check the token" not in " ".join(world.lines)


def test_a_begin_travels_with_the_plan_and_is_not_repeated(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, environ: dict[str, str]
) -> None:
    here = settings(report__endpoint=faulty.url)
    faulty.script = [BEGUN, "ok"]
    second = run_dir.parent / "second"
    summary = run_dir / "summary.json"
    shutil.copytree(run_dir, second)
    summary.unlink()
    assert world.flush(run_dir, here, environ).outcome == "delivered"
    for name in ("dispatch.json", "outbox"):
        source = run_dir / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, second / name)
    assert world.flush(second, here, {**environ, "SPYRE_CI_CHECK_RUN_ID": "5"}).outcome == "delivered"
    bodies = [json.loads(request["body"])["workflow"] for request in faulty.requests]
    assert [(one["status"], one["check_run_id"]) for one in bodies] == [
        ("in_progress", "991"),
        ("completed", "991"),
    ]


def test_a_push_is_answered_as_a_pull_request_is(
    world: Any, run_dir: Path, settings: MakeSettings, environ: dict[str, str]
) -> None:
    payload = {"after": "b" * 40, "ref": "refs/heads/main", "repository": {"full_name": "pytorch/pytorch"}}
    event = {"event_type": "push", "delivery_id": "p-1", "payload": payload}
    Path(environ["GITHUB_EVENT_PATH"]).write_text(json.dumps({"client_payload": event}))
    here = settings()
    assert world.deliver(run_dir, here, environ).outcome == "delivered"
    with closing(Store(here.store_path)) as store:
        rows = store.database.rows("SELECT status, event_type, delivery_id FROM crcr_workflow_job")
    assert [tuple(dict(row).values()) for row in rows] == [("completed", "push", "p-1")]
