"""`spyre-ci hud`, as a process where it serves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

from ci.config import Settings
from ci.core.errors import MissingInputError, PortInUseError
from ci.hud.cli import app
from ci.hud.outbox import Outbox
from ci.hud.payload import Ways, ended_of
from ci.hud.row_upload import note_rows
from ci.hud.server.serve import serve
from ci.store.store import Store
from test_selection.files import read_json, write_json
from tests.hud_server import create_app

from .conftest import IDENTITY, serve_process

CLIENT_PAYLOAD = {
    "event_type": "pull_request",
    "delivery_id": "d-1",
    "payload": {
        "pull_request": {"number": 7, "head": {"sha": "a" * 40}},
        "repository": {"full_name": "pytorch/pytorch"},
    },
}


def test_serve_says_its_port_answers_and_ends_quietly_at_an_interrupt(tmp_path: Path) -> None:
    with serve_process(tmp_path) as (process, url):
        assert requests.get(f"{url}/healthz", timeout=20).json()["server"] == "spyre-ci-hud"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
    token = (tmp_path / ".spyre-ci" / "hud-token").read_text().strip()
    assert token not in out + err


def test_a_port_that_is_taken_is_said_with_the_remedy(tmp_path: Path) -> None:
    store = Store(tmp_path / "hud.sqlite")
    application = create_app(store, token="t", repository="o/r", clock=lambda: 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"cannot listen on 127.0.0.1 port {port}") as caught:
            serve("127.0.0.1", port, application, echo=print)
    store.close()
    assert "--port 0" in str(caught.value.remedy)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "a" * 70, "x\0y"])
def test_a_host_that_cannot_be_listened_on_is_told_as_the_host(tmp_path: Path, host: str) -> None:
    with contextlib.closing(Store(tmp_path / "hud.sqlite")) as store:
        application = create_app(store, token="t", repository="o/r", clock=lambda: 0.0)
        with pytest.raises(PortInUseError) as caught:
            serve(host, 0, application, echo=print)
    assert (caught.value.where, "address" in str(caught.value.remedy)) == ("hud.host", True)


def test_send_sends_what_waits_by_the_runs_name_and_ends_with_0(
    run_dir: Path, settings: Callable[..., Settings], faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_HUD_TOKEN", "t0ken")
    there = settings(report__endpoint=faulty.url)
    payload = ended_of(read_json(run_dir / "summary.json", "summary"), Ways(environ={}), path=run_dir)
    for attempt, argument in enumerate((str(run_dir), run_dir.name, "latest"), start=1):
        Outbox(run_dir, lambda: 0.0).enqueue(f"report {attempt}", payload)
        result = CliRunner().invoke(app, ["send", argument], obj=there)
        assert (result.exit_code, result.output) == (0, f"HUD: reported to {faulty.url}/github/callback\n")


def test_send_ends_with_3_when_some_are_left(
    run_dir: Path, settings: Callable[..., Settings], faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_HUD_TOKEN", "t")
    (run_dir / "outbox").mkdir()
    (run_dir / "outbox" / "000001-odd.json").write_text("{")
    result = CliRunner().invoke(app, ["send", str(run_dir)], obj=settings(report__endpoint=faulty.url))
    assert result.exit_code == 3
    assert "NOT reported (1 kept in the outbox): 000001-odd.json: cannot be read as JSON" in result.output


def test_what_is_no_report_keeps_back_neither_reports_nor_rows(
    run_dir: Path, settings: Callable[..., Settings], faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_HUD_TOKEN", "s3cret")
    payload = ended_of(read_json(run_dir / "summary.json", "summary"), Ways(environ={}), path=run_dir)
    Outbox(run_dir, lambda: 0.0).enqueue("report", payload)
    (run_dir / "outbox" / "000000-folder.json").mkdir()
    (run_dir / "outbox" / "000000-link.json").symlink_to("gone")
    (run_dir / "junit").mkdir()
    (run_dir / "junit" / "1.xml").write_text('<testsuite><testcase classname="t" name="n"/></testsuite>')
    note_rows(run_dir)
    faulty.script = ["ok", (200, {}, '{"stored": 1}')]
    here = settings(report__endpoint=faulty.url, report__own_server=True)
    result = CliRunner().invoke(app, ["send", str(run_dir)], obj=here)
    assert result.exit_code == 3
    assert "NOT reported (2 kept in the outbox): 000000-folder.json: is no file" in result.output
    assert [request["path"].partition("?")[0] for request in faulty.requests] == [
        "/github/callback",
        "/api/upload/test_run",
    ]


def test_send_takes_the_latest_run_that_is_planned(
    tmp_path: Path, settings: Callable[..., Settings], faulty: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_HUD_TOKEN", "t")
    (tmp_path / "event.json").write_text(json.dumps({"client_payload": CLIENT_PAYLOAD}))
    here = settings(report__endpoint=faulty.url, report__event_file="event.json")
    result = CliRunner().invoke(app, ["send", "latest"], obj=here)
    assert isinstance(result.exception, MissingInputError)
    assert "there is no run yet" in str(result.exception)
    old, new = tmp_path / "runs" / "old", tmp_path / "runs" / "new"
    for at, folder in enumerate((old, new), start=1):
        write_json(folder / "run.json", "run", {**IDENTITY, "run_id": at})
        os.utime(folder / "run.json", (at, at))
    # What an older run has reported makes it no later.
    (old / "outbox").mkdir()
    faulty.script = [(200, {}, '{"ok": true, "status": "in_progress"}')]
    assert CliRunner().invoke(app, ["send", "latest"], obj=here).exit_code == 0
    assert json.loads(faulty.requests[0]["body"])["workflow"]["run_id"] == "2"
    assert [(folder / "dispatch.json").exists() for folder in (old, new)] == [False, True]


def test_send_of_a_run_that_is_not_there_is_said(settings: Callable[..., Settings]) -> None:
    result = CliRunner().invoke(app, ["send", "gone"], obj=settings())
    assert isinstance(result.exception, MissingInputError)
    assert result.exception.where == "gone"


def test_send_of_the_latest_of_no_runs_is_said(settings: Callable[..., Settings]) -> None:
    result = CliRunner().invoke(app, ["send", "latest"], obj=settings())
    assert isinstance(result.exception, MissingInputError)
    assert "there is no run yet" in str(result.exception)
