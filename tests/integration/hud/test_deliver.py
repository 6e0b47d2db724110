"""Reporting a run, from its summary to the server's store, and everything that can go wrong on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ci.config import Settings
from ci.core.errors import SettingsError
from ci.hud.outbox import Outbox
from ci.hud.server.queries.jobs import list_jobs
from ci.store.store import Store
from test_selection.files import read_json, write_json
from tests.pipeline_runs import report_folder

MakeSettings = Callable[..., Settings]
TOKEN = {"SPYRE_CI_HUD_TOKEN": "s3cret-token"}


def stored(settings: Settings) -> list[dict[str, Any]]:
    with closing(Store(settings.store_path)) as store:
        return list_jobs(store.database, limit=10)


def waiting(run_dir: Path) -> int:
    return len(Outbox(run_dir, lambda: 0).pending())


def test_a_run_is_reported_to_the_embedded_endpoint(
    world: Any, run_dir: Path, settings: MakeSettings
) -> None:
    here = settings()
    delivery = world.deliver(run_dir, here)
    assert delivery.outcome == "delivered"
    assert world.lines == ["HUD: reported; see it at the page of `spyre-ci hud serve`"]
    (row,) = stored(here)
    assert (row["passed_tests"], row["failed_tests"], row["skipped_tests"]) == (7, 2, 1)
    assert row["downstream_repo"] == "torch-spyre/torch-spyre"
    assert waiting(run_dir) == 0
    told = read_json(run_dir / "hud.json", "hud")
    assert (told["outcome"], told["endpoint"], len(told["report"]["delivered"])) == (
        "delivered",
        "embedded",
        1,
    )


def test_a_corrected_summary_corrects_the_row(world: Any, run_dir: Path, settings: MakeSettings) -> None:
    here = settings()
    world.deliver(run_dir, here)
    summary = read_json(run_dir / "summary.json", "summary")
    write_json(run_dir / "summary.json", "summary", {**summary, "verdicts": {"passed": 10}, "exit_code": 0})
    world.deliver(run_dir, here)
    (row,) = stored(here)
    assert (row["passed_tests"], row["failed_tests"], row["conclusion"]) == (10, 0, "success")


def test_the_cis_check_run_and_artifact_are_told(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any
) -> None:
    environ = {**TOKEN, "SPYRE_CI_CHECK_RUN_ID": "99", "SPYRE_CI_ARTIFACT_URL": "https://a.example/r.html"}
    world.deliver(run_dir, settings(report__endpoint=faulty.url), environ)
    workflow = json.loads(faulty.requests[0]["body"])["workflow"]
    assert (workflow["check_run_id"], workflow["artifact_url"]) == ("99", "https://a.example/r.html")


def test_an_ignored_report_is_warned_of_loudly_and_kept(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any
) -> None:
    faulty.script = [(200, {}, '{"ok": true, "status": "ignored"}')]
    assert world.deliver(run_dir, settings(report__endpoint=faulty.url), TOKEN).outcome == "left"
    (line,) = world.lines
    assert line.startswith("HUD: WARNING: NOT reported (1 kept in the outbox): the relay ignored the report")
    assert "in its exact letter case" in line
    assert waiting(run_dir) == 1


def test_an_endpoint_that_is_no_url_fails_no_run(world: Any, run_dir: Path, settings: MakeSettings) -> None:
    endpoint = "http://hud.example:99999"
    assert world.deliver(run_dir, settings(report__endpoint=endpoint), TOKEN).outcome == "left"
    assert f"{endpoint!r} is no http(s) URL" in world.lines[0]
    with pytest.raises(SettingsError):
        world.flush(run_dir, settings(report__endpoint=endpoint), TOKEN)


def test_reporting_can_be_switched_off(world: Any, run_dir: Path, settings: MakeSettings) -> None:
    assert world.deliver(run_dir, settings(report__endpoint="none")).outcome == "disabled"
    assert world.lines == ["HUD: not reported (report.endpoint is `none`)"]
    assert not (run_dir / "outbox").exists()
    assert world.flush(run_dir, settings(report__endpoint="none")).outcome == "disabled"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"identity": {}}, "identity.run_id: is missing"),
        ({"identity": None}, "identity."),
        ({"verdicts": {"lost": 1}}, "'lost' is not a verdict"),
        ({"verdicts": None}, "summary.json: "),
    ],
)
def test_a_summary_that_cannot_be_reported_fails_no_run(
    world: Any, run_dir: Path, settings: MakeSettings, change: dict[str, Any], said: str
) -> None:
    summary = read_json(run_dir / "summary.json", "summary")
    write_json(run_dir / "summary.json", "summary", {**summary, **change})
    assert world.deliver(run_dir, settings()).outcome == "failed"
    assert said in world.lines[0]


def test_a_run_without_a_summary_fails_nothing(world: Any, tmp_path: Path, settings: MakeSettings) -> None:
    delivery = world.deliver(tmp_path / "runs" / "gone", settings())
    assert delivery.outcome == "failed"
    assert "there is no summary file" in delivery.reason


def test_a_report_that_does_not_hold_is_kept_with_the_reason(
    world: Any, run_dir: Path, settings: MakeSettings
) -> None:
    summary = read_json(run_dir / "summary.json", "summary")
    summary["identity"]["completed_at"] = "2020-01-01T00:00:00Z"
    write_json(run_dir / "summary.json", "summary", summary)
    assert world.deliver(run_dir, settings()).outcome == "left"
    assert "workflow.completed_at: is before started_at" in world.lines[0]
    assert waiting(run_dir) == 1
    summary["identity"]["completed_at"] = "2026-08-01T03:00:00Z"
    write_json(run_dir / "summary.json", "summary", summary)
    assert world.deliver(run_dir, settings()).outcome == "delivered"
    assert waiting(run_dir) == 0


def test_a_bug_of_the_reporter_fails_no_run(
    world: Any, run_dir: Path, settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("ci.hud.send.flush", broken)
    assert world.deliver(run_dir, settings()).outcome == "left"
    assert "ZeroDivisionError: oops" in world.lines[0]
    assert waiting(run_dir) == 1


def test_a_store_that_cannot_be_opened_fails_no_run(
    world: Any, run_dir: Path, settings: MakeSettings
) -> None:
    here = settings()
    here.state_dir.mkdir()
    (here.store_path).write_text("not a database" * 1000)
    assert world.deliver(run_dir, here).outcome == "left"
    assert "is no store of results" in world.lines[0]


@pytest.mark.parametrize("state", ["COMING", "GOING"])
def test_tests_of_a_report_that_was_cut_off_are_written_by_the_next(
    world: Any, tmp_path: Path, settings: MakeSettings, state: str
) -> None:
    here, outcomes = settings(), {f"test_0.py::T::{name}": "passed" for name in "abc"}
    run = report_folder(tmp_path / "run-1", outcomes, lane="nightly")
    world.deliver(run, here)
    (run / "outbox").rename(run / "before")
    with closing(Store(here.store_path)) as store, store.transaction() as connection:
        connection.execute("UPDATE upload SET state = ?", (state,))
    assert world.deliver(run, here).outcome == "delivered"
    with closing(Store(here.store_path)) as store:
        assert store.database.tuples("SELECT count(*) FROM settled_test_run") == [(len(outcomes),)]
        # Of the same job: its CI names none, and its lane is no other's.
        assert store.database.tuples(
            "SELECT job_name, lane FROM crcr_workflow_job JOIN job_detail USING (dynamoKey)"
        ) == [("nightly", "nightly")]


KILLED_WHILE_SENDING = """
import sys, time
from pathlib import Path
from ci.config import load_settings
from ci.hud.delivery import Effects
from ci.hud.send import Reporter, report_run
folder, url = Path(sys.argv[1]), sys.argv[2]
settings = load_settings(path=None, environ={}, flags={"report.endpoint": url}, cwd=folder.parent)
effects = Effects(clock=time.time, sleep=time.sleep, rng=lambda: 0.0)
environ = {"SPYRE_CI_HUD_TOKEN": "t"}
report_run(folder, Reporter(settings=settings, environ=environ, effects=effects, echo=print))
"""


def test_a_kill_between_keeping_and_delivering_loses_nothing(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any
) -> None:
    faulty.script = ["hang"]
    process = subprocess.Popen([sys.executable, "-c", KILLED_WHILE_SENDING, str(run_dir), faulty.url])
    try:
        for _ in range(3000):
            if faulty.requests or process.poll() is not None:
                break
            faulty.released.wait(0.01)
        assert faulty.requests, "the report never got under way"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert waiting(run_dir) == 1
    assert world.flush(run_dir, settings(report__endpoint=faulty.url), TOKEN).outcome == "delivered"
    assert waiting(run_dir) == 0


def test_a_night_of_no_commit_is_not_told_to_pytorchs_relay_and_says_so(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, github: Any
) -> None:
    summary = read_json(run_dir / "summary.json", "summary")
    identity = {**summary["identity"], "pytorch_sha": "op-suite+sha256.0f", "pytorch_version": "2.13.0"}
    write_json(run_dir / "summary.json", "summary", {**summary, "identity": identity})
    environ = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.url}/token",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "asking",
    }
    here = settings(report__endpoint=faulty.url)
    for send in (world.deliver, world.flush):
        assert send(run_dir, here, environ).outcome == "disabled"
    assert (faulty.requests, github.requests, waiting(run_dir)) == ([], [], 0)
    assert "its tests are of no PyTorch commit that is known ('op-suite+sha256.0f')" in world.lines[0]
    # A server of one's own takes it.
    github.otherwise = (200, {}, '{"value": "minted"}')
    ours = settings(report__endpoint=faulty.url, report__own_server=True)
    assert world.deliver(run_dir, ours, environ).outcome == "delivered"


@pytest.mark.parametrize("word", ["true", "false", ""])
def test_a_cancelled_workflow_is_told_as_one(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, word: str
) -> None:
    here = settings(report__endpoint=faulty.url)
    world.deliver(run_dir, here, {**TOKEN, "SPYRE_CI_CANCELLED": word})
    world.deliver(run_dir, here, TOKEN, cancelled=True)
    told = [json.loads(request["body"])["workflow"]["conclusion"] for request in faulty.requests]
    assert told == (["cancelled"] if word == "true" else ["failure", "cancelled"])
