"""A stand-in of what starts jobs in Jenkins: real HTTP on loopback, with state, and faults on demand.

It answers as Jenkins' documentation of its remote access API says; whether a Jenkins does is not shown by it.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

USER, TOKEN = "poller", "11aabbccddeeff0011223344556677889900"
Kind = Literal["status", "slow", "hang", "cut", "drop"]


@dataclass(kw_only=True)
class Job:
    """A job: what it declares, and what was started of it."""

    parameters: tuple[str, ...] = ("REPOSITORY", "HEAD_SHA", "PULL_REQUEST", "BRANCH", "IDEMPOTENCY_KEY")
    disabled: bool = False
    queued: list[dict[str, str]] = field(default_factory=list)
    builds: list[dict[str, str]] = field(default_factory=list)

    @property
    def starts(self) -> list[dict[str, str]]:
        return [*self.builds, *self.queued]

    def keys(self) -> list[str]:
        return [one.get("IDEMPOTENCY_KEY", "") for one in self.starts]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    headers: Mapping[str, str]


@dataclass(kw_only=True)
class Fault:
    """What happens to the next requests that fit."""

    kind: Kind
    method: str
    path: str
    times: int
    status: int
    text: str
    location: str
    taken: bool
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is answered."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class JenkinsApi:
    """The server; a context manager. Everything it holds may be set and read while it runs."""

    def __init__(self, *, crumbs: bool = False, prefix: str = "") -> None:
        self.prefix = prefix
        self.jobs: dict[str, Job] = {}
        self.user, self.token = USER, TOKEN
        # Whether it wants a crumb of everybody, as it does of who shows a password.
        self.crumbs = crumbs
        self.crumb = "crumb-1"
        self.readable = True
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self._items = count(1)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.prefix}"

    def fail(
        self,
        kind: Kind = "status",
        *,
        method: str = "",
        path: str = "",
        times: int = 1,
        status: int = 503,
        text: str = "Jenkins is getting ready to work",
        location: str = "",
        taken: bool = False,
        seconds: float = 5,
    ) -> None:
        """Let the next requests fail that fit; with `taken` they are done all the same, `slow` only late."""
        self.faults.append(
            Fault(
                kind=kind, method=method, path=path, times=times, status=status, text=text,
                location=location, taken=taken, seconds=seconds,
            )
        )  # fmt: skip

    def asked(self, pattern: str) -> list[Seen]:
        return [one for one in self.seen if re.search(pattern, one.path)]

    def take_fault(self, seen: Seen) -> Fault | None:
        with self._lock:
            for one in self.faults:
                if one.times > 0 and one.method in {"", seen.method} and re.search(one.path, seen.path):
                    one.times -= 1
                    return one
        return None

    def answer(self, seen: Seen) -> Answer:
        """What is answered where nothing fails."""
        path = seen.path.removeprefix(self.prefix)
        shown = base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
        if seen.headers.get("authorization") != f"Basic {shown}":
            return Answer(status=401, body="<html><title>Error 401 Unauthorized</title></html>")
        if path == "/crumbIssuer/api/json":
            return self._crumb_issued()
        if path == "/queue/api/json":
            rows = [(name, one) for name, job in self.jobs.items() for one in job.queued if self.readable]
            return Answer(body={"items": [_item(self.url, name, one) for name, one in rows]})
        return self._of_job(seen, path)

    def _of_job(self, seen: Seen, path: str) -> Answer:
        match = re.fullmatch(r"((?:/job/[^/]+)+)/(api/json|buildWithParameters)", path)
        name = "/".join(unquote(match[1]).removeprefix("/job/").split("/job/")) if match else ""
        if match is None or name not in self.jobs:
            return Answer(status=404, body="<html><title>Error 404 Not Found</title></html>")
        if match[2] == "buildWithParameters":
            return self._built(seen, self.jobs[name])
        if not self.readable:
            return Answer(status=403, body=f"{self.user} is missing the Job/Read permission")
        return Answer(body={"builds": [_actions(one) for one in reversed(self.jobs[name].builds)]})

    def _crumb_issued(self) -> Answer:
        if not self.crumbs:
            return Answer(status=404, body="<html>Not Found</html>")
        body = {"crumbRequestField": "Jenkins-Crumb", "crumb": self.crumb}
        return Answer(body=body, headers={"set-cookie": "JSESSIONID.1=node01; Path=/; HttpOnly"})

    def _built(self, seen: Seen, job: Job) -> Answer:
        if seen.method != "POST":
            return Answer(status=405, body="Only POST")
        good = seen.headers.get("jenkins-crumb") == self.crumb and "JSESSIONID.1=node01" in seen.headers.get(
            "cookie", ""
        )
        if self.crumbs and not good:
            return Answer(status=403, body="<html>No valid crumb was included in the request</html>")
        if job.disabled:
            return Answer(status=409, body="is not buildable")
        if not job.parameters:
            return Answer(status=400, body="This job is not parameterized")
        given = dict(parse_qsl(seen.body.decode(), keep_blank_values=True))
        # What is not declared is dropped without a word.
        job.queued.append({name: given.get(name, "") for name in job.parameters})
        return Answer(status=201, headers={"location": f"{self.url}/queue/item/{next(self._items)}/"})


def _item(url: str, name: str, given: Mapping[str, str]) -> dict[str, Any]:
    where = "/".join(f"job/{part}" for part in name.split("/"))
    return {"task": {"url": f"{url}/{where}/"}, **_actions(given)}


def _actions(given: Mapping[str, str]) -> dict[str, Any]:
    rows = [{"name": name, "value": value} for name, value in given.items()]
    return {"actions": [{}, {"parameters": rows}]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    api: JenkinsApi

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 20

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's own name
        pass

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_GET  # noqa: N815  # named by http.server

    def _serve(self) -> None:
        api, seen = self.server.api, self._read()
        api.seen.append(seen)
        fault = api.take_fault(seen)
        if fault is None:
            self._write(api.answer(seen))
            return
        if fault.taken:
            api.answer(seen)
        if fault.kind in {"slow", "hang"}:
            api._stop.wait(fault.seconds)
        if fault.kind == "slow":
            self._write(api.answer(seen))
            return
        if fault.kind == "status":
            headers = {"location": fault.location} if fault.location else {}
            self._write(Answer(status=fault.status, body=fault.text, headers=headers))
        else:
            self._break_off(begun=fault.kind == "cut")

    def _read(self) -> Seen:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        return Seen(
            method=self.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query)),
            body=raw,
            headers={name.lower(): value for name, value in self.headers.items()},
        )

    def _write(self, answer: Answer) -> None:
        body = answer.body
        data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(answer.status)
        for name, value in {**answer.headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _break_off(self, *, begun: bool) -> None:
        if begun:
            self.wfile.write(b"HTTP/1.1 201 Created\r\ncontent-length: 1000\r\n\r\n{")
            self.wfile.flush()
        # A reset, as of a machine that went away, and no clean end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
