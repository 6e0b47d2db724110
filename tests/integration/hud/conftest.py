"""A run folder with a summary, settings in a temporary folder, and a server with faults to order."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from ci.config import Settings, load_settings
from ci.hud.payload import RunIdentity, Ways, check_run_of, ended_of
from ci.store.identity import job_number
from ci.store.store import Store
from test_selection.files import write_json

from .desk import Desk

SHA = "0123456789abcdef0123456789abcdef01234567"
IDENTITY = {
    "run_id": 4242,
    "run_attempt": 1,
    "lane": "nightly-main",
    "job_name": "pytorch",
    "workflow": "Nightly",
    "url": "",
    "provider": "none",
    "pytorch_version": "2.13.0",
    "pytorch_sha": SHA,
    "device": "spyre",
    "stage": 1,
    "percent": 5.0,
    "started_at": "2026-08-01T02:00:00+00:00",
    "completed_at": "2026-08-01T02:03:05+00:00",
}
SERVE = """
import sys
from pathlib import Path
from ci.config import load_settings
from ci.hud.cli import app
app(sys.argv[2:], obj=load_settings(path=None, environ={}, flags={}, cwd=Path(sys.argv[1])))
"""
# Every page that stands for itself.
PAGES = (
    "/",
    "/runs",
    "/grid",
    "/tests",
    "/test?id=x",
    "/durations",
    "/cards",
    "/rollout",
    "/metrics",
    "/compare",
)
CHECK_RUN = check_run_of(RunIdentity.model_validate(IDENTITY))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


REPOSITORY = "torch-spyre/torch-spyre"
# The job of `nightly_report`.
JOB = {
    "workflow_id": IDENTITY["run_id"],
    "workflow_run_attempt": 1,
    "job_id": job_number(CHECK_RUN, repository=REPOSITORY),
}


def upload(url: str, token: str, kind: str, body: bytes, **query: Any) -> requests.Response:
    """Send a file of rows, of that job unless the query names another."""
    return requests.post(
        f"{url}/api/upload/{kind}",
        params={**JOB, "name": "1.xml", **query},
        data=body,
        headers=bearer(token),
        timeout=100,
    )


def post_report(url: str, content: dict[str, Any], token: str) -> requests.Response:
    return requests.post(f"{url}/github/callback", json=content, headers=bearer(token), timeout=60)


@contextmanager
def serve_process(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`spyre-ci hud serve` on a free port, with the settings of a folder; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", SERVE, str(folder), "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.match(r"HUD on (http://\S+)/ \(Ctrl-C ends it\)", process.stdout.readline())
        assert found is not None
        yield process, found[1]
    finally:
        process.kill()
        process.communicate(timeout=30)


def nightly_report(identity: dict[str, Any] | None = None, **summary: Any) -> dict[str, Any]:
    """The callback of a nightly, of a summary with these keys."""
    told = {"run": "r1", "verdicts": {"passed": 7, "failed": 2, "xfailed": 1}, "exit_code": 1, **summary}
    return ended_of({"identity": identity or IDENTITY, **told}, Ways(environ={}), path=Path("summary.json"))


@pytest.fixture
def payload() -> dict[str, Any]:
    return nightly_report()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "r1"
    verdicts = {"passed": 7, "failed": 2, "xfailed": 1}
    summary = {"run": "r1", "planned": 10, "verdicts": verdicts, "exit_code": 1, "identity": IDENTITY}
    write_json(folder / "summary.json", "summary", summary)
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    def make(**flags: Any) -> Settings:
        dotted = {key.replace("__", "."): value for key, value in flags.items()}
        # Port 0: a server that happens to run on this machine must not be found.
        return load_settings(path=None, environ={}, flags={"hud.port": 0, **dotted}, cwd=tmp_path)

    return make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    yield store
    store.close()


def empty(store: Store) -> None:
    """Leave a store without a row, for the next test of a server that many share."""
    with store.transaction() as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (name,) in tables:
            connection.execute(f'DELETE FROM "{name}"')  # noqa: S608  # of the schema


@dataclass
class Faulty:
    """A stand-in for the relay that does what it is told, one entry of `script` a request.

    An entry is a status, a (status, headers, body), `hang`, `cut`, `drip` or `ok`; or a call that gives one.
    `raw:…` sends these bytes and cuts the line.
    """

    script: list[Any] = field(default_factory=list)
    otherwise: Any = "ok"
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    server: ThreadingHTTPServer | None = None

    def use_certificate(self, certificate: Path, key: Path) -> None:
        """Speak TLS from now on."""
        assert self.server is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length", 0))
        body = handler.rfile.read(length)
        self.requests.append({"path": handler.path, "headers": dict(handler.headers), "body": body})
        step = self.script.pop(0) if self.script else self.otherwise
        if callable(step):
            step = step()
        if isinstance(step, str) and step.startswith("raw:"):
            handler.wfile.write(step.removeprefix("raw:").encode())
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif step == "hang":
            self.released.wait(30)
        elif step == "cut":
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif step == "drip":
            self._drip(handler)
        else:
            self._answer(handler, step)

    def _answer(self, handler: BaseHTTPRequestHandler, step: Any) -> None:
        good = json.dumps({"ok": True, "status": "completed"})
        if step == "ok":
            step = (200, {}, good)
        elif isinstance(step, int):
            step = (step, {}, json.dumps({"error": f"made {step}"}))
        status, headers, text = step
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(text.encode())))
        handler.end_headers()
        handler.wfile.write(text.encode())

    def _drip(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        try:
            while not self.released.wait(0.05):
                handler.wfile.write(b" ")
        except OSError:
            return


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    with serving() as state:
        yield state


@pytest.fixture
def desk(run_dir: Path, faulty: Faulty) -> Desk:
    """A run that is reported to the stand-in."""
    return Desk(run_dir, faulty)


@pytest.fixture
def github() -> Iterator[Faulty]:
    """Another one, for what GitHub answers."""
    with serving() as state:
        yield state


@contextmanager
def serving() -> Iterator[Faulty]:
    state = Faulty()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.take(self)

        def do_GET(self) -> None:
            state.take(self)

        def log_message(self, *_: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            return

    server = state.server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
