"""A test a row of the relay's table of answers and a fault of the line, over real sockets, time injected."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from ci.hud.outbox import Outbox
from ci.hud.payload import report_identity
from test_selection.files import read_json

from .conftest import IDENTITY
from .desk import BEGUN, TRANSITION, Desk

GOOD = '{"ok": true, "status": "completed"}'
SHORT = "raw:HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 35\r\n\r\n" + GOOD[:20]
CHUNKED = "raw:HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + GOOD[:20] + "\r\n"
HEADERS = "raw:HTTP/1.1 200 OK\r\nContent-Le"
ENDLESS = "raw:HTTP/1.0 200 OK\r\n\r\n" + GOOD[:20]
NO_HTTP = "raw:SSH-2.0-OpenSSH_9.2\r\n"
# Behind these the relay may have taken the report.
DOUBTFUL = [500, 502, 503, 504, 408, "hang", "drip", "cut", HEADERS, SHORT, ENDLESS, CHUNKED]


def name_of(value: Any) -> str:
    return str(value)[:40].encode("unicode_escape").decode()


@pytest.mark.parametrize(
    ("step", "least_s"),
    [
        (429, 60),
        ((429, {"Retry-After": "120"}, ""), 120),
        ((429, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, ""), 60),
        ((429, {"Retry-After": "-5"}, ""), 60),
        ((503, {"Retry-After": "30"}, ""), 1),
        (NO_HTTP, 1),
        ("raw:", 1),
        *((step, 1) for step in DOUBTFUL),
    ],
    ids=name_of,
)
def test_a_fault_that_passes_is_waited_out_and_the_report_arrives(
    desk: Desk, step: Any, least_s: float
) -> None:
    desk.flags |= {"report.timeout_s": 0.5, "report.budget_s": 600}
    desk.answers(step, "ok")
    for _ in range(2):
        assert desk.deliver().outcome == "delivered"
        assert len(desk.relay.requests) == 2
    assert len({request["body"] for request in desk.relay.requests}) == 1
    assert least_s <= sum(desk.slept) <= least_s + 31
    assert desk.waiting == []


@pytest.mark.parametrize(
    ("step", "outcome", "said"),
    [
        ((400, {}, '{"detail": "status: bad"}'), "refused", "status: bad"),
        (401, "unauthorized", "HTTP 401"),
        (403, "unauthorized", "HTTP 403"),
        (404, "refused", "HTTP 404"),
        (405, "refused", "HTTP 405"),
        (413, "refused", "HTTP 413"),
        ((301, {"Location": "http://127.0.0.1:1/"}, ""), "refused", "a redirect, which is not followed"),
        (
            (200, {}, "<html>Log in</html>"),
            "refused",
            "this is not a response of the relay: HTTP 200: <html>Log in",
        ),
        ((200, {}, ""), "refused", "this is not a response of the relay"),
        ((200, {}, "[]"), "refused", "this is not a response of the relay"),
        ((200, {}, '{"ok": true}'), "refused", "this is not a response of the relay"),
        ((200, {}, '{"status": ["completed"]}'), "refused", "this is not a response of the relay"),
        ((200, {}, "[" * 60_000), "refused", "this is not a response of the relay"),
        ((200, {}, '{"ok": true, "status": "ignored"}'), "ignored", "not allow-listed at level L2"),
        ((204, {}, ""), "refused", "HTTP 204"),
        ((400, {}, "x" * 10**6), "refused", "HTTP 400: xxx"),
    ],
    ids=name_of,
)
def test_a_refusal_is_not_sent_again_and_waits_with_its_reason(
    desk: Desk, step: Any, outcome: str, said: str
) -> None:
    desk.answers(step)
    (left,) = desk.deliver().report.left
    assert (left.outcome, len(desk.relay.requests), desk.slept) == (outcome, 1, [])
    assert said in left.reason
    assert len(left.reason) < 400
    assert f"`spyre-ci hud send {desk.run_dir}`" in left.remedy
    assert desk.waiting == ["completed"]
    assert read_json(desk.run_dir / "hud.json", "hud")["report"]["left"][0]["reason"] == left.reason


@pytest.mark.parametrize("step", [*DOUBTFUL, 429], ids=name_of)
def test_a_pull_requests_state_behind_a_fault_is_said_to_be_applied(desk: Desk, step: Any) -> None:
    desk.dispatch(IDENTITY)
    desk.flags["report.timeout_s"] = 0.5
    desk.answers(BEGUN, step, TRANSITION)
    delivery = desk.deliver()
    if step == 429:  # it was not taken then, so that the 400 is of the report
        assert [left.outcome for left in delivery.report.left] == ["refused"]
        return
    assert (delivery.outcome, desk.waiting) == ("row_lost", [])
    (warning,) = delivery.report.warnings
    assert "/completed: state applied, row possibly lost" in warning


FLUSH = """
import os, signal, sys, time
from pathlib import Path
from ci.config import load_settings
from ci.hud import outbox
from ci.hud.delivery import Effects
from ci.hud.send import Reporter, send_run
folder, url, kill = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
settings = load_settings(path=None, environ={}, flags={"report.endpoint": url}, cwd=folder.parents[1])
if kill:
    outbox.Outbox.record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
effects = Effects(clock=time.time, sleep=time.sleep, rng=lambda: 0.0)
environ = {**os.environ, "SPYRE_CI_HUD_TOKEN": "s3cret-token"}
send_run(folder, Reporter(settings=settings, environ=environ, effects=effects, echo=print))
"""


def start(desk: Desk, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", FLUSH, str(desk.run_dir), desk.relay.url, *words],
        stdout=subprocess.DEVNULL,
        env=desk.environ,
    )


@pytest.mark.parametrize("answered", [True, False])
def test_a_kill_while_a_nightly_is_sent_sends_it_again_unchanged(desk: Desk, answered: bool) -> None:
    desk.answers("ok" if answered else "hang")
    process = start(desk, *["kill"] * answered)
    if not answered:
        while not desk.relay.requests and process.poll() is None:
            desk.relay.released.wait(0.01)
        process.kill()
    assert process.wait(60) == -signal.SIGKILL
    (report,) = Outbox(desk.run_dir, lambda: 0).pending()
    assert report.doubtful
    assert (desk.send().outcome, desk.waiting) == ("delivered", [])
    first, second = desk.relay.requests
    assert first["body"] == second["body"]


def test_a_kill_between_the_answer_and_the_outbox_leaves_a_pull_request_applied(desk: Desk) -> None:
    desk.dispatch(IDENTITY)
    desk.answers(BEGUN)
    desk.begin()
    assert start(desk, "kill").wait(60) == -signal.SIGKILL
    desk.answers(TRANSITION)
    delivery = desk.send()
    assert (desk.told, delivery.outcome) == (["in_progress", "completed", "completed"], "row_lost")
    assert "state applied, row possibly lost" in delivery.report.warnings[0]


def test_processes_that_flush_one_outbox_at_once_send_each_report_once(
    desk: Desk, payload: dict[str, Any]
) -> None:
    names, box = [f"job-{number:02}" for number in range(25)], Outbox(desk.run_dir, lambda: 0.0)
    for name in names:
        one = {**payload, "workflow": {**payload["workflow"], "job_name": name}}
        box.enqueue(report_identity(one, repository="o/r"), one)
    processes = [start(desk) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    assert [job["job_name"] for job in desk.jobs] == names
    assert desk.waiting == []


def test_a_whole_answer_without_a_length_is_one(desk: Desk) -> None:
    desk.answers("raw:HTTP/1.0 200 OK\r\n\r\n" + GOOD)
    assert desk.deliver().outcome == "delivered"
    assert len(desk.relay.requests) == 1
