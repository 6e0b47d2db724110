"""`spyre-ci hud`, as a process where it serves."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner, Result

from ci.core.errors import MissingInputError, PortInUseError
from ci.hud.cli import app
from ci.hud.outbox import Outbox
from ci.hud.row_upload import note_rows
from ci.hud.server.serve import listen, serve
from ci.store.store import Store
from test_selection.files import write_json
from tests.hud_server import create_app

from .conftest import IDENTITY, serve_process
from .desk import BEGUN, Desk


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


def test_no_response_waits_for_the_client_to_acknowledge_the_one_before() -> None:
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


Send = Callable[..., Result]


@pytest.fixture
def send(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Send:
    write_json(desk.run_dir / "run.json", "run", IDENTITY)
    monkeypatch.setenv("SPYRE_CI_HUD_TOKEN", "t0ken")
    return lambda *words: CliRunner().invoke(app, ["send", *words], obj=desk.settings)


def test_send_sends_what_waits_by_the_runs_name_and_ends_with_0(
    desk: Desk, send: Send, payload: dict[str, Any]
) -> None:
    for attempt, argument in enumerate((str(desk.run_dir), desk.run_dir.name, "latest"), start=1):
        Outbox(desk.run_dir, lambda: 0.0).enqueue(f"report {attempt}", payload)
        result = send(argument)
        reported = f"HUD: reported to {desk.relay.url}/github/callback\n"
        assert (result.exit_code, result.output) == (0, reported)


def test_what_is_no_report_keeps_back_neither_reports_nor_rows(
    desk: Desk, send: Send, payload: dict[str, Any]
) -> None:
    Outbox(desk.run_dir, lambda: 0.0).enqueue("report", payload)
    (desk.run_dir / "outbox" / "000000-folder.json").mkdir()
    (desk.run_dir / "outbox" / "000000-link.json").symlink_to("gone")
    (desk.run_dir / "outbox" / "000001-odd.json").write_text("{")
    desk.put_junit('<testcase classname="t" name="n"/>')
    note_rows(desk.run_dir, payload["workflow"])
    desk.answers("ok", (200, {}, '{"stored": 1}'))
    desk.flags["report.own_server"] = True
    result = send(str(desk.run_dir))
    assert result.exit_code == 3
    assert "NOT reported (3 kept in the outbox): 000000-folder.json: is not a file" in result.output
    assert desk.paths == ["/github/callback", "/api/upload/test_run"]


def test_send_takes_the_latest_run_that_is_planned(desk: Desk, send: Send) -> None:
    desk.dispatch(IDENTITY)
    desk.flags["report.event_file"] = "event.json"
    old, new = desk.run_dir.parent / "old", desk.run_dir.parent / "new"
    for at, folder in enumerate((desk.run_dir, old, new), start=1):
        write_json(folder / "run.json", "run", {**IDENTITY, "run_id": at})
        os.utime(folder / "run.json", (at, at))
    # What an older run has reported makes it no later.
    (old / "outbox").mkdir()
    desk.answers(BEGUN)
    assert send().exit_code == 0
    assert [job["run_id"] for job in desk.jobs] == ["3"]
    assert [(folder / "dispatch.json").exists() for folder in (old, new)] == [False, True]


@pytest.mark.parametrize(("named", "said"), [("gone", "no run 'gone'"), ("latest", "no run with")])
def test_send_of_a_run_that_is_not_there_is_said(desk: Desk, send: Send, named: str, said: str) -> None:
    (desk.run_dir / "run.json").unlink()
    error = send(named).exception
    assert isinstance(error, MissingInputError)
    assert said in str(error)
