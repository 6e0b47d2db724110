"""A run's tests follow its report to a server of our own, once, and wait where it does not take them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

from ci.hud.endpoint import server_of
from ci.hud.row_upload import rows_wait, send_rows
from ci.store.store import Store
from tests.hud_server import create_app, embedded

from .desk import TOKEN, Desk

SAID = "<system-out>card: card1</system-out>"
ID = '<properties><property name="id" value="t.py::A::a"/></properties>'
CASES = (
    f'<testcase classname="A" name="a" file="t.py" time="1">{SAID}{ID}</testcase>',
    '<testcase classname="A" name="b" file="t.py" time="2"><failure message="no"/></testcase>',
)
TAKEN: Any = (200, {}, '{"ok": true, "sent": 2, "stored": 2, "unchanged": ""}')


@pytest.fixture
def here(desk: Desk) -> Desk:
    """A run of two shards that is reported to a server of our own."""
    desk.put_junit(*CASES)
    desk.flags["report.own_server"] = True
    return desk


def test_the_tests_of_all_shards_come_in_one_file_and_once(here: Desk) -> None:
    store, repository = Store(here.folder / "served.sqlite"), here.settings.model.report.repository
    app = create_app(store, token=TOKEN["SPYRE_CI_HUD_TOKEN"], repository=repository, clock=time.time)
    with closing(store), embedded(app) as url:
        here.flags["report.endpoint"] = url
        for _ in range(2):
            assert here.deliver().outcome == "delivered"
            rows = store.database.rows("SELECT name, verdict, card, test_id FROM test_run ORDER BY name")
            assert [tuple(row.values()) for row in rows] == [
                ("a", "passed", "card1", "t.py::A::a"),
                ("b", "failed", "", "t.py::A::b"),
            ]
    assert not rows_wait(here.run_dir)


def test_upstream_is_sent_no_rows(here: Desk) -> None:
    here.flags["report.own_server"] = False
    assert here.deliver().outcome == "delivered"
    assert here.paths == ["/github/callback"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (503, "retry"),
        (429, "rate_limited"),
        (404, "retry"),
        (409, "retry"),
        (401, "unauthorized"),
        (400, "refused"),
        ("cut", "retry"),
        ((200, {}, '{"ok": true, "sent": 2, "stored": 1}'), "refused"),
        ((200, {}, "<html>"), "refused"),
    ],
)
def test_rows_that_are_not_taken_wait_and_a_flush_sends_them(here: Desk, answer: Any, outcome: str) -> None:
    here.answers("ok", answer)
    delivery = here.deliver()
    (left,) = delivery.report.left
    assert (delivery.outcome, left.identity, left.outcome) == ("left", "rows of tests", outcome)
    assert "the run's tests were not accepted" in here.lines[-1]
    assert rows_wait(here.run_dir)
    here.answers(TAKEN)
    assert here.send().outcome == "delivered"
    assert not rows_wait(here.run_dir)
    first, again = (one for one in here.relay.requests if "/api/upload/test_run" in one["path"])
    assert (first["path"], first["body"]) == (again["path"], again["body"])
    assert "rows=2" in first["path"]


def test_rows_are_of_the_job_that_reported_whoever_sends_them(here: Desk) -> None:
    here.environ |= {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "70123", "GITHUB_RUN_ATTEMPT": "2"}
    here.environ["SPYRE_CI_CHECK_RUN_ID"] = "4567"
    here.answers(400)
    assert here.deliver().outcome == "left"
    for name in ("GITHUB_ACTIONS", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "SPYRE_CI_CHECK_RUN_ID"):
        del here.environ[name]
    here.answers("ok", TAKEN)
    assert here.send().outcome == "delivered"
    assert "workflow_id=70123&workflow_run_attempt=2&job_id=4567&" in here.relay.requests[-1]["path"]


def test_rows_that_another_process_sends_are_not_sent_beside_it(here: Desk) -> None:
    here.answers(400)
    here.deliver()
    box = here.reporter.outbox(here.run_dir)
    target = server_of(here.settings, here.environ)
    with box.sending():
        left = send_rows(box, target, timeout_s=0)
    assert left is not None
    assert (left.outcome, left.reason) == ("busy", "another process is sending these reports")
    assert here.paths == ["/github/callback"]
    here.answers(TAKEN)
    assert send_rows(box, target, timeout_s=0) is None
    assert send_rows(box, target, timeout_s=0) is None
    assert here.paths[1:] == ["/api/upload/test_run"]


def test_rows_wait_until_the_report_is_taken(here: Desk) -> None:
    here.answers(400)
    assert here.deliver().outcome == "left"
    assert (here.paths, rows_wait(here.run_dir)) == (["/github/callback"], True)


def test_junit_that_cannot_be_read_is_told_of_and_the_report_is_there(here: Desk) -> None:
    (here.run_dir / "junit" / "0.xml").write_text("<testsuites>")
    delivery = here.deliver()
    assert delivery.outcome == "left"
    assert "0.xml: is incomplete XML" in delivery.reason
    assert here.paths == ["/github/callback"]
