"""Stands before an HTTP endpoint on loopback: hands requests on, refuses them, or cuts their answers."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit


class CuttingProxy:
    """The proxy; a context manager.

    Attributes:
        cut_after: bytes of an answer's body after which the connection is reset; None: never.
        refuse: status and body that every request is answered with; None: it is handed on.
    """

    def __init__(self, endpoint: str) -> None:
        self.cut_after: int | None = None
        self.refuse: tuple[int, bytes] | None = None
        self.to = urlsplit(endpoint).netloc
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: CuttingProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 20

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's own name
        pass

    def do_GET(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if proxy.refuse is not None:
            self._answer(proxy.refuse[0], {}, proxy.refuse[1])
            return
        connection = http.client.HTTPConnection(proxy.to, timeout=20)
        try:
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            data = answer.read()
            self._answer(answer.status, dict(answer.getheaders()), data, proxy.cut_after)
        finally:
            connection.close()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  # named by http.server

    def _answer(
        self, status: int, headers: dict[str, str], data: bytes, cut_after: int | None = None
    ) -> None:
        self.send_response_only(status)
        kept = {name: value for name, value in headers.items() if name.lower() != "connection"}
        if not any(name.lower() == "content-length" for name in kept):
            kept["Content-Length"] = str(len(data))
        for name, value in kept.items():
            self.send_header(name, value)
        self.end_headers()
        if cut_after is None or len(data) <= cut_after:
            self.wfile.write(data)
            return
        self.wfile.write(data[:cut_after])
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
