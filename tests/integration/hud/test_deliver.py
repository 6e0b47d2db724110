"""Reporting a run, from its summary to the server's store, and everything that can go wrong on the way."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from ci.core.errors import SettingsError
from ci.hud.server.queries.jobs import list_jobs
from ci.store.store import Store
from test_selection.files import read_json
from tests.pipeline_runs import report_folder

from .desk import Desk


@pytest.fixture
def here(desk: Desk) -> Desk:
    """A run that is reported to the embedded endpoint."""
    desk.flags["report.endpoint"] = "embedded"
    return desk


def stored(desk: Desk) -> list[dict[str, Any]]:
    with closing(Store(desk.settings.store_path)) as store:
        return list_jobs(store.database, limit=10)


def test_a_run_is_reported_to_the_embedded_endpoint_and_a_correction_corrects_the_row(here: Desk) -> None:
    assert here.deliver().outcome == "delivered"
    assert here.lines == ["HUD: reported; see it on the pages of `spyre-ci hud serve`"]
    (row,) = stored(here)
    assert (row["passed_tests"], row["failed_tests"], row["skipped_tests"]) == (7, 2, 1)
    assert (row["downstream_repo"], here.waiting) == ("torch-spyre/torch-spyre", [])
    told = read_json(here.run_dir / "hud.json", "hud")
    assert (told["outcome"], told["endpoint"]) == ("delivered", "embedded")
    assert len(told["report"]["delivered"]) == 1
    here.write_summary(verdicts={"passed": 10}, exit_code=0)
    here.deliver()
    (row,) = stored(here)
    assert (row["passed_tests"], row["failed_tests"], row["conclusion"]) == (10, 0, "success")


def test_the_cis_check_run_and_artifact_are_told(desk: Desk) -> None:
    desk.environ |= {"SPYRE_CI_CHECK_RUN_ID": "99", "SPYRE_CI_ARTIFACT_URL": "https://a.example/r.html"}
    desk.deliver()
    (job,) = desk.jobs
    assert (job["check_run_id"], job["artifact_url"]) == ("99", "https://a.example/r.html")


def test_an_ignored_report_is_warned_of_loudly_and_kept(desk: Desk) -> None:
    desk.answers((200, {}, '{"ok": true, "status": "ignored"}'))
    assert desk.deliver().outcome == "left"
    (line,) = desk.lines
    assert line.startswith("HUD: WARNING: NOT reported (1 kept in the outbox): the relay ignored the report")
    assert "in its exact letter case" in line
    assert desk.waiting == ["completed"]


def test_an_endpoint_that_is_no_url_fails_no_run(desk: Desk) -> None:
    desk.flags["report.endpoint"] = "http://hud.example:99999"
    assert desk.deliver().outcome == "left"
    assert "'http://hud.example:99999' is not an http(s) URL" in desk.lines[0]
    with pytest.raises(SettingsError):
        desk.send()


def test_reporting_can_be_switched_off(desk: Desk) -> None:
    desk.flags["report.endpoint"] = "none"
    assert desk.deliver().outcome == desk.send().outcome == "disabled"
    assert desk.lines == ["HUD: not reported (report.endpoint is `none`)"] * 2
    assert not (desk.run_dir / "outbox").exists()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"identity": {}}, "identity.run_id: is missing"),
        ({"identity": None}, "identity."),
        ({"verdicts": {"lost": 1}}, "'lost' is not a verdict"),
        ({"verdicts": None}, "summary.json: "),
        (None, "there is no summary file"),
    ],
)
def test_a_summary_that_cannot_be_reported_fails_no_run(
    here: Desk, keys: dict[str, Any] | None, said: str
) -> None:
    if keys is None:
        (here.run_dir / "summary.json").unlink()
    else:
        here.write_summary(**keys)
    assert here.deliver().outcome == "failed"
    assert said in here.lines[0]


def test_a_report_that_does_not_hold_is_kept_with_the_reason(here: Desk) -> None:
    here.change_identity(completed_at="2020-01-01T00:00:00Z")
    assert here.deliver().outcome == "left"
    assert "workflow.completed_at: is before started_at" in here.lines[0]
    assert here.waiting == ["completed"]
    here.change_identity(completed_at="2026-08-01T03:00:00Z")
    assert (here.deliver().outcome, here.waiting) == ("delivered", [])


def test_a_bug_of_the_reporter_fails_no_run(here: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("ci.hud.send.flush", broken)
    assert here.deliver().outcome == "left"
    assert "ZeroDivisionError: oops" in here.lines[0]
    assert here.waiting == ["completed"]


def test_a_store_that_cannot_be_opened_fails_no_run(here: Desk) -> None:
    here.settings.state_dir.mkdir()
    here.settings.store_path.write_text("not a database" * 1000)
    assert here.deliver().outcome == "left"
    assert "is no store of results" in here.lines[0]


@pytest.mark.parametrize("state", ["COMING", "GOING"])
def test_tests_of_a_report_that_was_cut_off_are_written_by_the_next(here: Desk, state: str) -> None:
    outcomes = {f"test_0.py::T::{name}": "passed" for name in "abc"}
    here.run_dir = report_folder(here.folder / "runs" / "run-2", outcomes, lane="nightly")
    here.deliver()
    (here.run_dir / "outbox").rename(here.run_dir / "before")
    with closing(Store(here.settings.store_path)) as store, store.transaction() as connection:
        connection.execute("UPDATE upload SET state = ?", (state,))
    assert here.deliver().outcome == "delivered"
    with closing(Store(here.settings.store_path)) as store:
        assert store.database.tuples("SELECT count(*) FROM settled_test_run") == [(len(outcomes),)]
        # Of the same job: its CI names none, and its lane is no other's.
        jobs = "SELECT job_name, lane FROM crcr_workflow_job JOIN job_detail USING (dynamoKey)"
        assert store.database.tuples(jobs) == [("nightly", "nightly")]


def test_a_night_of_no_commit_is_not_told_to_pytorchs_relay_and_says_so(desk: Desk, github: Any) -> None:
    desk.change_identity(pytorch_sha="op-suite+sha256.0f", pytorch_version="2.13.0")
    desk.mint(github)
    for send in (desk.deliver, desk.send):
        assert send().outcome == "disabled"
    assert (desk.paths, github.requests, desk.waiting) == ([], [], [])
    assert "the PyTorch commit of its tests is unknown ('op-suite+sha256.0f')" in desk.lines[0]
    # A server of one's own takes it.
    github.otherwise = (200, {}, '{"value": "minted"}')
    desk.flags["report.own_server"] = True
    assert desk.deliver().outcome == "delivered"


@pytest.mark.parametrize(
    ("word", "told"),
    [("true", ["cancelled"]), ("false", ["failure", "cancelled"]), ("", ["failure", "cancelled"])],
)
def test_a_cancelled_workflow_is_told_as_one(desk: Desk, word: str, told: list[str]) -> None:
    desk.environ["SPYRE_CI_CANCELLED"] = word
    desk.deliver()
    del desk.environ["SPYRE_CI_CANCELLED"]
    desk.deliver(cancelled=True)
    told = [job["conclusion"] for job in desk.jobs]
    assert told == (["cancelled"] if word == "true" else ["failure", "cancelled"])
