"""Both callbacks of a run that the relay dispatched, over real sockets."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ci.store.store import Store
from test_selection.files import write_json

from .conftest import CHECK_RUN, IDENTITY
from .desk import BEGUN, CLIENT_PAYLOAD, TRANSITION, Desk


@pytest.fixture
def here(desk: Desk) -> Desk:
    """A run of the relay's dispatch."""
    desk.dispatch(IDENTITY)
    return desk


def test_a_nightly_tells_no_begin_and_gives_nothing_up(here: Desk) -> None:
    here.environ["GITHUB_EVENT_NAME"] = "schedule"
    assert (here.begin(), here.give_up(), here.paths, here.lines) == (None, None, [], [])
    assert not (here.run_dir / "hud.json").exists()


def test_a_begin_that_could_not_be_sent_goes_before_the_end(here: Desk) -> None:
    here.answers(*[503] * 6, BEGUN, "ok")
    assert here.begin().outcome == "left"
    assert here.deliver().outcome == "delivered"
    assert here.told == ["in_progress"] * 7 + ["completed"]


def test_an_end_without_a_begin_tells_both_and_a_correction_is_not_sent(here: Desk) -> None:
    here.answers(BEGUN, "ok")
    assert here.deliver().outcome == "delivered"
    assert here.told == ["in_progress", "completed"]
    here.write_summary(verdicts={"passed": 10}, exit_code=0)
    reason = "the relay already has this attempt's `completed`, and accepts no second one"
    assert (here.deliver().reason, len(here.told)) == (reason, 2)


def test_an_end_is_kept_with_the_reason_while_its_begin_is_refused(here: Desk) -> None:
    here.answers((400, {}, '{"detail": "no dispatch record"}'))
    assert here.begin().outcome == "left"
    delivery = here.deliver()
    # What was refused as it is is not sent again by the run itself.
    assert here.told == ["in_progress"]
    assert [left.outcome for left in delivery.report.left] == ["refused", "held"]
    assert "no dispatch record" in delivery.report.left[1].reason
    assert here.waiting == ["in_progress", "completed"]
    here.answers(BEGUN, "ok")
    assert here.send().outcome == "delivered"
    assert here.told[1:] == ["in_progress", "completed"]


def test_a_second_end_is_refused(here: Desk) -> None:
    here.answers(BEGUN, TRANSITION)
    delivery = here.deliver()
    assert (delivery.outcome, delivery.report.left[0].outcome) == ("left", "refused")
    assert here.waiting == ["completed"]


@pytest.mark.parametrize("left", ["nothing", "its begin, though it was taken"])
def test_a_begin_that_is_told_again_holds_no_end(here: Desk, left: str) -> None:
    here.answers(BEGUN, TRANSITION, "ok")
    assert here.begin().outcome == "delivered"
    outbox = here.run_dir / "outbox"
    if left == "nothing":
        # The job that began hands on what the run is, not its outbox.
        shutil.rmtree(outbox)
    else:
        # As a kill leaves it, after the answer was noted and before the report was moved away.
        (begun,) = (outbox / "delivered").glob("*.json")
        shutil.copy(begun, outbox)
    delivery = here.deliver()
    assert (delivery.outcome, here.waiting) == ("delivered", [])
    assert "the relay already had the start of this job" in delivery.report.warnings[0]
    assert here.told == ["in_progress", "in_progress", "completed"]


@pytest.mark.parametrize("change", ["another url", "gone"])
def test_a_run_whose_folder_says_something_else_since_its_begin_is_reported(here: Desk, change: str) -> None:
    here.answers(BEGUN, "ok")
    assert here.begin().outcome == "delivered"
    if change == "gone":
        (here.run_dir / "run.json").unlink()
        here.change_identity(started_at="2026-08-01T02:00:00.000Z")
    else:
        write_json(here.run_dir / "run.json", "run", {**IDENTITY, "url": "https://ci.example/2"})
    assert here.deliver().outcome == "delivered"
    assert (here.told, here.waiting) == (["in_progress", "completed"], [])


def test_a_run_that_gives_up_tells_its_end_once(here: Desk) -> None:
    here.answers(BEGUN, "ok")
    here.begin()
    (here.run_dir / "summary.json").unlink()
    here.now = 1_795_000_000.0
    assert here.give_up().outcome == "delivered"
    assert (here.told[-1], here.jobs[-1]["conclusion"]) == ("completed", "cancelled")
    assert here.lines[-1].startswith("HUD: reported the run's end: cancelled")
    assert here.give_up() is None


def test_a_broken_event_fails_no_run(here: Desk) -> None:
    Path(here.environ["GITHUB_EVENT_PATH"]).write_text('{"client_payload": {"delivery_id": 7}}')
    for delivery in (here.begin(), here.deliver(), here.give_up()):
        assert delivery.outcome == "failed"
        assert "client_payload.delivery_id: must be a line of text" in delivery.reason


def test_nothing_is_told_where_reporting_is_switched_off(here: Desk) -> None:
    here.flags["report.endpoint"] = "none"
    assert (here.begin(), here.give_up()) == (None, None)
    assert not (here.run_dir / "dispatch.json").exists()


def test_an_event_file_of_the_settings_is_used(here: Desk) -> None:
    for name in ("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "SPYRE_CI_CHECK_RUN_ID"):
        del here.environ[name]
    here.flags["report.event_file"] = "event.json"
    here.answers(BEGUN)
    assert here.begin().outcome == "delivered"
    assert [job["check_run_id"] for job in here.jobs] == [CHECK_RUN]


@pytest.mark.parametrize("step", [(200, {}, '{"ok": true}'), 404, 403, "cut"])
def test_a_server_of_our_own_is_told_of_the_dispatch_first_and_may_not_take_it(here: Desk, step: Any) -> None:
    here.flags["report.own_server"] = True
    here.answers(step, BEGUN, "ok")
    here.begin()
    assert here.deliver().outcome == "delivered"
    assert here.paths == ["/api/dispatch", "/github/callback", "/github/callback"]
    noted, _, ended = here.bodies
    assert noted == {"delivery_id": "72d3162e-cc78", "repository": "torch-spyre/torch-spyre"}
    assert "spyre_ci" in ended["payload"]


def test_failed_jobs_that_are_run_again_tell_an_attempt_of_their_own(here: Desk) -> None:
    here.flags["report.job_name"] = "PyTorch tests"
    here.environ |= {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "987", "GITHUB_RUN_ATTEMPT": "1"}
    here.answers(BEGUN, "ok", BEGUN, "ok")
    here.begin()
    here.environ["SPYRE_CI_CHECK_RUN_ID"] = "992"
    here.deliver()
    # The job that reports is run again, and the one that began is not.
    shutil.rmtree(here.run_dir / "outbox")
    here.environ |= {"GITHUB_RUN_ATTEMPT": "2", "SPYRE_CI_CHECK_RUN_ID": "995"}
    assert here.deliver().outcome == "delivered"
    keys = ("status", "run_id", "run_attempt", "check_run_id", "job_name")
    assert [tuple(one[key] for key in keys) for one in here.jobs] == [
        ("in_progress", "987", 1, "991", "PyTorch tests (nightly-main)"),
        ("completed", "987", 1, "991", "PyTorch tests (nightly-main)"),
        ("in_progress", "987", 2, "995", "PyTorch tests (nightly-main)"),
        ("completed", "987", 2, "995", "PyTorch tests (nightly-main)"),
    ]


@pytest.mark.parametrize(
    ("run", "attempt", "told"),
    [("987", "2", ["in_progress", "completed"]), ("987", "1", []), ("988", "2", []), ("", "", [])],
    ids=["a later attempt", "the same", "another run", "no job of a CI"],
)
def test_only_a_later_attempt_of_the_run_sends_an_end_of_its_own(
    here: Desk, run: str, attempt: str, told: list[str]
) -> None:
    here.environ |= {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "987", "GITHUB_RUN_ATTEMPT": "1"}
    here.deliver()
    assert here.told == ["in_progress", "completed"]
    here.environ |= {"GITHUB_RUN_ID": run, "GITHUB_RUN_ATTEMPT": attempt}
    if not run:
        del here.environ["GITHUB_ACTIONS"]
    assert here.send().outcome == "delivered"
    assert here.told[2:] == told


def test_what_hud_refuses_behind_the_relay_holds_no_end_and_is_a_row_lost(here: Desk) -> None:
    output = here.run_dir / "output"
    here.environ["GITHUB_OUTPUT"] = str(output)
    here.answers((401, {}, '{"detail": "HUD rejected callback: HTTP 401: who are you?"}'), "ok")
    assert here.begin().outcome == "row_lost"
    assert here.deliver().outcome == "delivered"
    assert here.told == ["in_progress", "completed"]
    assert output.read_text().split() == ["hud_outcome=row_lost", "hud_outcome=delivered"]
    assert "state known, row lost" in here.lines[1]
    assert "check the token" not in " ".join(here.lines)


def test_a_row_that_was_lost_is_no_row_for_whoever_sends_again(here: Desk) -> None:
    here.answers(BEGUN, (413, {}, '{"detail": "HUD rejected callback: HTTP 413: too large"}'))
    assert here.deliver().outcome == "row_lost"
    again = here.send()
    assert (again.outcome, again.done, len(here.told)) == ("row_lost", False, 2)
    assert "HUD may have no row of" in here.lines[-1]
    # A begin whose row was lost is nothing to say once its job's end is taken.
    here.environ |= {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "987", "GITHUB_RUN_ATTEMPT": "2"}
    assert here.deliver().outcome == "delivered"
    assert here.send().outcome == "delivered"


def test_a_begin_travels_with_the_plan_and_is_not_repeated(here: Desk) -> None:
    here.answers(BEGUN, "ok")
    second = here.run_dir.parent / "second"
    shutil.copytree(here.run_dir, second)
    (here.run_dir / "summary.json").unlink()
    assert here.send().outcome == "delivered"
    shutil.copy(here.run_dir / "dispatch.json", second)
    shutil.copytree(here.run_dir / "outbox", second / "outbox")
    here.environ["SPYRE_CI_CHECK_RUN_ID"] = "5"
    assert here.send(second).outcome == "delivered"
    assert [(one["status"], one["check_run_id"]) for one in here.jobs] == [
        ("in_progress", "991"),
        ("completed", "991"),
    ]


def test_a_push_is_answered_as_a_pull_request_is(here: Desk) -> None:
    payload = {"after": "b" * 40, "ref": "refs/heads/main", "repository": {"full_name": "pytorch/pytorch"}}
    push = {"event_type": "push", "delivery_id": "p-1", "payload": payload}
    here.dispatch(IDENTITY, {**CLIENT_PAYLOAD, **push})
    here.flags["report.endpoint"] = "embedded"
    assert here.deliver().outcome == "delivered"
    with closing(Store(here.settings.store_path)) as store:
        rows = store.database.rows("SELECT status, event_type, delivery_id FROM crcr_workflow_job")
    assert [tuple(dict(row).values()) for row in rows] == [("completed", "push", "p-1")]
