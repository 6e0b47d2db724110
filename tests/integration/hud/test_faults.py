"""A test a row of the relay's table of answers and a fault of the line, over real sockets, time injected."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.config import Settings
from ci.hud.outbox import Outbox
from ci.hud.payload import report_identity
from test_selection.files import read_json, write_json

from .conftest import IDENTITY
from .test_pull_request import BEGUN, CLIENT_PAYLOAD, TRANSITION

MakeSettings = Callable[..., Settings]
TOKEN = {"SPYRE_CI_HUD_TOKEN": "s3cret-token"}
GOOD = '{"ok": true, "status": "completed"}'
SHORT = "raw:HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 35\r\n\r\n" + GOOD[:20]
CHUNKED = "raw:HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + GOOD[:20] + "\r\n"
HEADERS = "raw:HTTP/1.1 200 OK\r\nContent-Le"
ENDLESS = "raw:HTTP/1.0 200 OK\r\n\r\n" + GOOD[:20]
NO_HTTP = "raw:SSH-2.0-OpenSSH_9.2\r\n"


def waiting(run_dir: Path) -> list[str]:
    return [report.identity for report in Outbox(run_dir, lambda: 0).pending()]


def fill(run_dir: Path, payload: dict[str, Any], names: list[str]) -> None:
    box = Outbox(run_dir, lambda: 0.0)
    for name in names:
        one = {**payload, "workflow": {**payload["workflow"], "job_name": name}}
        box.enqueue(report_identity(one, repository="o/r"), one)


def jobs(faulty: Any) -> list[str]:
    return [json.loads(request["body"])["workflow"]["job_name"] for request in faulty.requests]


@pytest.mark.parametrize(
    ("step", "least_s"),
    [
        (429, 60),
        ((429, {"Retry-After": "120"}, ""), 120),
        ((429, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, ""), 60),
        ((429, {"Retry-After": "-5"}, ""), 60),
        (500, 1),
        (502, 1),
        (503, 1),
        ((503, {"Retry-After": "30"}, ""), 1),
        (504, 1),
        (408, 1),
        ("hang", 1),
        ("drip", 1),
        ("cut", 1),
        (HEADERS, 1),
        (SHORT, 1),
        (ENDLESS, 1),
        (CHUNKED, 1),
        (NO_HTTP, 1),
        ("raw:", 1),
    ],
    ids=lambda value: str(value)[:40].encode("unicode_escape").decode(),
)
def test_a_fault_that_passes_is_waited_out_and_the_report_arrives(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, *, step: Any, least_s: float
) -> None:
    faulty.script = [step, "ok"]
    there = settings(report__endpoint=faulty.url, report__timeout_s=0.5, report__budget_s=600)
    assert world.deliver(run_dir, there, TOKEN).outcome == "delivered"
    assert len(faulty.requests) == 2
    assert len({request["body"] for request in faulty.requests}) == 1
    assert sum(world.slept) >= least_s
    assert waiting(run_dir) == []
    assert world.deliver(run_dir, there, TOKEN).outcome == "delivered"
    assert len(faulty.requests) == 2


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
        ((200, {}, "<html>Log in</html>"), "refused", "no relay answers like this: HTTP 200: <html>Log in"),
        ((200, {}, ""), "refused", "no relay answers like this"),
        ((200, {}, '{"ok": true}'), "refused", "no relay answers like this"),
        ((200, {}, "[" * 60_000), "refused", "no relay answers like this"),
        ((200, {}, '{"ok": true, "status": "ignored"}'), "ignored", "not allow-listed at level L2"),
        ((204, {}, ""), "refused", "HTTP 204"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_refusal_is_not_sent_again_and_waits_with_its_reason(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, *, step: Any, outcome: str, said: str
) -> None:
    faulty.script = [step]
    delivery = world.deliver(run_dir, settings(report__endpoint=faulty.url), TOKEN)
    (left,) = delivery.report.left
    assert (left.outcome, len(faulty.requests), world.slept) == (outcome, 1, [])
    assert said in left.reason
    assert f"`spyre-ci hud send {run_dir}`" in left.remedy
    assert len(waiting(run_dir)) == 1
    assert read_json(run_dir / "hud.json", "hud")["report"]["left"][0]["reason"] == left.reason


@pytest.mark.parametrize("step", [500, 503, 408, "hang", "cut", HEADERS, SHORT, ENDLESS, CHUNKED], ids=str)
def test_a_pull_requests_state_behind_a_fault_is_said_to_be_applied(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, *, step: Any
) -> None:
    environ = dispatched(run_dir)
    faulty.script = [BEGUN, step, TRANSITION]
    there = settings(report__endpoint=faulty.url, report__timeout_s=0.5)
    delivery = world.deliver(run_dir, there, environ)
    assert delivery.outcome == "row_lost"
    (warning,) = delivery.report.warnings
    assert "/completed: state applied, row possibly lost" in warning
    assert waiting(run_dir) == []


def test_a_pull_requests_400_after_a_429_is_a_refusal(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any
) -> None:
    environ = dispatched(run_dir)
    faulty.script = [BEGUN, 429, TRANSITION]
    delivery = world.deliver(run_dir, settings(report__endpoint=faulty.url), environ)
    assert [left.outcome for left in delivery.report.left] == ["refused"]


def dispatched(run_dir: Path) -> dict[str, str]:
    write_json(run_dir / "run.json", "run", IDENTITY)
    content = {"client_payload": CLIENT_PAYLOAD, "check_run_id": "991", "run_id": 4242, "run_attempt": 1}
    write_json(run_dir / "dispatch.json", "dispatch", content)
    return TOKEN


FLUSH = """
import sys, time
from pathlib import Path
from ci.config import load_settings
from ci.hud import outbox
from ci.hud.delivery import Effects
from ci.hud.send import Reporter, send_run
folder, url, kill = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
flags = {"report.endpoint": url}
settings = load_settings(path=None, environ={}, flags=flags, cwd=folder.parent)
if kill:
    import os, signal
    outbox.Outbox.record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
effects = Effects(clock=time.time, sleep=time.sleep, rng=lambda: 0.0)
environ = {"SPYRE_CI_HUD_TOKEN": "s3cret-token"}
send_run(folder, Reporter(settings=settings, environ=environ, effects=effects, echo=print))
"""


def start(run_dir: Path, faulty: Any, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", FLUSH, str(run_dir), faulty.url, *words], stdout=subprocess.DEVNULL
    )


def test_a_kill_between_the_answer_and_the_outbox_sends_a_nightly_again_unchanged(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, payload: dict[str, Any]
) -> None:
    fill(run_dir, payload, ["job"])
    assert start(run_dir, faulty, "kill").wait(60) == -signal.SIGKILL
    assert len(waiting(run_dir)) == 1
    assert Outbox(run_dir, lambda: 0).pending()[0].doubtful
    assert world.flush(run_dir, settings(report__endpoint=faulty.url), TOKEN).outcome == "delivered"
    first, second = faulty.requests
    assert first["body"] == second["body"]


def test_a_kill_between_the_answer_and_the_outbox_leaves_a_pull_request_applied(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, payload: dict[str, Any]
) -> None:
    one = {**payload, **CLIENT_PAYLOAD}
    Outbox(run_dir, lambda: 0.0).enqueue(report_identity(one, repository="o/r"), one)
    assert start(run_dir, faulty, "kill").wait(60) == -signal.SIGKILL
    faulty.script = [TRANSITION]
    delivery = world.flush(run_dir, settings(report__endpoint=faulty.url), TOKEN)
    assert delivery.outcome == "row_lost"
    assert "state applied, row possibly lost" in delivery.report.warnings[0]


def test_processes_that_flush_one_outbox_at_once_send_each_report_once(
    run_dir: Path, faulty: Any, payload: dict[str, Any]
) -> None:
    names = [f"job-{number:02}" for number in range(25)]
    fill(run_dir, payload, names)
    processes = [start(run_dir, faulty) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    assert jobs(faulty) == names
    assert waiting(run_dir) == []


def test_a_whole_answer_without_a_length_is_one(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any
) -> None:
    faulty.script = ["raw:HTTP/1.0 200 OK\r\n\r\n" + GOOD]
    assert world.deliver(run_dir, settings(report__endpoint=faulty.url), TOKEN).outcome == "delivered"
    assert len(faulty.requests) == 1
