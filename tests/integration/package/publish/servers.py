"""A real pypiserver that wants a login for uploads, and what stands before an index and does it harm."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.calls import free_port, wait_for_server

from .releases import TOKEN, USER

STARTED_S = 60


@contextmanager
def pypiserver(folder: Path) -> Iterator[str]:
    """A folder as an index that takes uploads of USER with TOKEN; gives its address."""
    packages, passwords, port = folder / "packages", folder / "htpasswd", free_port()
    packages.mkdir(parents=True)
    digest = base64.b64encode(hashlib.sha1(TOKEN.encode()).digest()).decode()  # noqa: S324  # the file's format
    passwords.write_text(f"{USER}:{{SHA}}{digest}\n")
    process = subprocess.Popen(
        [
            sys.executable, "-m", "pypiserver", "run", "--disable-fallback", "--backend", "simple-dir",
            "--interface", "127.0.0.1", "--port", str(port), "--authenticate", "update",
            "--passwords", str(passwords), str(packages),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for_server(f"{address}/", process)
        yield address
    finally:
        process.terminate()
        process.wait(30)


@dataclass(slots=True, kw_only=True)
class Front:
    """A proxy in front of an index, and what it does to what passes.

    Attributes:
        upstream: the index, as host and port.
        down: whether nothing is answered.
        dies_at: the upload at which it is down; 0: never.
        upload_status: what is answered to uploads, whatever the index says; None: what it says.
        lose_uploads: whether uploads never reach the index.
        page_status: what is answered to pages; None: what the index says.
        edit: changes pages.
        on_upload: is called with each upload, while who uploads waits.
        uploads: how many there were.
        ended: set when the test is over.
    """

    upstream: str
    down: bool = False
    dies_at: int = 0
    upload_status: int | None = None
    lose_uploads: bool = False
    page_status: int | None = None
    edit: Callable[[bytes], bytes] = bytes
    on_upload: Callable[[], object] = int
    uploads: int = 0
    ended: threading.Event = field(default_factory=threading.Event)


def without_hashes(page: bytes) -> bytes:
    """A page of a simple index, as one gives it that knows no hashes."""
    return re.sub(rb"#sha256=[0-9a-f]+", b"", page)


class Fronting(ThreadingHTTPServer):
    """A server that passes on what a `Front` lets through."""

    daemon_threads = True

    def __init__(self, front: Front) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.front = front


class Handler(BaseHTTPRequestHandler):
    server: Fronting
    location = ""

    def do_GET(self) -> None:
        front, page = self.server.front, self.path.startswith("/simple/")
        if front.down or front.ended.is_set():
            self.close_connection = True
        elif page and front.page_status:
            self.answer(front.page_status, b"an error", "text/plain")
        else:
            status, body, kind = self.passed_on(b"")
            self.answer(status, front.edit(body) if page else body, kind)

    def do_POST(self) -> None:
        front, body = self.server.front, self.rfile.read(int(self.headers["Content-Length"]))
        front.uploads += 1
        front.down |= front.uploads == front.dies_at
        if not front.down:
            front.on_upload()
        if front.down or front.ended.is_set():
            self.close_connection = True
            return
        status, said, kind = (200, b"", "text/plain") if front.lose_uploads else self.passed_on(body)
        self.answer(front.upload_status or status, said, kind)

    def passed_on(self, body: bytes) -> tuple[int, bytes, str]:
        connection = http.client.HTTPConnection(self.server.front.upstream, timeout=30)
        headers = {key: one for key, one in self.headers.items() if key != "Host"}
        connection.request(self.command, self.path, body or None, headers)
        answer = connection.getresponse()
        self.location = answer.headers.get("Location", "")
        read = answer.read(), answer.headers.get("Content-Type", "text/plain")
        connection.close()
        return answer.status, *read

    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def fronted(address: str) -> Iterator[tuple[Front, str]]:
    """Something before an index; gives it and its address."""
    front = Front(upstream=address.removeprefix("http://"))
    with Fronting(front) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield front, f"http://127.0.0.1:{server.server_port}"
        finally:
            front.ended.set()
            server.shutdown()
