"""What stand-ins of an HTTP API share: real HTTP on loopback, a record of requests, faults on demand.

Whose API it is says a class of its own: what it answers, and which kinds of faults are answers.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is answered; bytes and text go out as they are, pieces as they come, anything else as JSON."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class BreakOffError(Exception):
    """Raised among the pieces of an answer: the connection is reset there."""


@dataclass(kw_only=True)
class Fault:
    """What happens to the next requests that fit.

    Attributes:
        kind: `hang` says nothing for `seconds`, `cut` breaks off within the answer, `drop` before it; `slow`
            answers after `seconds`; any other is an answer.
        method: of the requests; empty: any.
        path: a pattern somewhere in their path.
        times: how many requests.
        taken: whether what was asked for is done all the same.
        seconds: of `hang` and `slow`.
    """

    kind: str
    method: str
    path: str
    times: int
    taken: bool
    seconds: float


AnyFault = TypeVar("AnyFault", bound=Fault)


class StandIn(Generic[AnyFault]):
    """The server; a context manager. Everything it holds may be set and read while it runs."""

    # How an answer begins that breaks off.
    begun = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"

    def __init__(self, *, prefix: str = "") -> None:
        self.prefix = prefix
        self.faults: list[AnyFault] = []
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.prefix}"

    def take_fault(self, seen: Seen) -> AnyFault | None:
        with self.lock:
            for one in self.faults:
                if one.times > 0 and one.method in {"", seen.method} and re.search(one.path, seen.path):
                    one.times -= 1
                    return one
        return None

    def answer(self, seen: Seen) -> Answer:
        """What is answered where nothing fails."""
        raise NotImplementedError

    def refusal(self, fault: AnyFault) -> Answer:
        """What is answered where a fault is an answer."""
        raise NotImplementedError

    def read(self, raw: bytes) -> Any:
        """The body of a request."""
        return raw

    def usual(self, data: bytes) -> Mapping[str, str]:
        """The headers that every answer has."""
        return {"content-length": str(len(data))}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    api: StandIn[Any]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # An answer goes out in two writes, and the second must not wait for the first to be acknowledged.
    disable_nagle_algorithm = True
    timeout = 20

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's own name
        pass

    def do_GET(self) -> None:
        api, seen = self.server.api, self._read()
        api.seen.append(seen)
        fault = api.take_fault(seen)
        if fault is None:
            self._write(api.answer(seen), seen)
            return
        if fault.taken:
            api.answer(seen)
        if fault.kind in {"slow", "hang"}:
            api.stop.wait(fault.seconds)
        if fault.kind in {"hang", "cut", "drop"}:
            self._break_off(begun=fault.kind == "cut")
        else:
            self._write(api.answer(seen) if fault.kind == "slow" else api.refusal(fault), seen)

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815  # named by http.server

    def _read(self) -> Seen:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        return Seen(
            method=self.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query)),
            body=self.server.api.read(raw),
            headers={name.lower(): value for name, value in self.headers.items()},
        )

    def _write(self, answer: Answer, seen: Seen) -> None:
        if isinstance(answer.body, Iterator):
            self._write_pieces(answer, answer.body)
            return
        data = _content(answer.body)
        headers = {**self.server.api.usual(data), **answer.headers}
        # What the asker has already is not sent again.
        known = seen.headers.get("if-none-match") if seen.method == "GET" else None
        same = known is not None and known == headers.get("etag")
        if same:
            data, headers["content-length"] = b"", "0"
        self.send_response(304 if same else answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _write_pieces(self, answer: Answer, pieces: Iterator[bytes]) -> None:
        """In chunks of HTTP/1.1, each sent at once."""
        self.send_response(answer.status)
        for name, value in {**self.server.api.usual(b""), **answer.headers}.items():
            if name != "content-length":
                self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for piece in filter(None, pieces):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
        except BreakOffError:
            # What was sent before still arrives, and no end of it.
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(b"0\r\n\r\n")

    def _break_off(self, *, begun: bool) -> None:
        if begun:
            self.wfile.write(self.server.api.begun)
            self.wfile.flush()
        # A reset, as of a machine that went away, and no clean end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _content(body: Any) -> bytes:
    if body is None or isinstance(body, bytes):
        return body or b""
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
