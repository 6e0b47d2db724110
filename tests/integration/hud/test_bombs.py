"""Bodies that were cut, changed or made to fill the memory, sent to a server in a process of its own."""

from __future__ import annotations

import gzip
import json
import re
import socket
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import requests

from ci.store.identity import job_number
from tests.peak import peak_of

from .conftest import JOB, REPOSITORY, bearer, nightly_report, post_report, serve_process, upload

TIMEOUT = 100
MEBIBYTE = 1 << 20
GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
MOST_RESIDENT = 400 * MEBIBYTE
ROW = json.dumps({**JOB, "invoking_file": "a", "name": "n", "classname": "c"}).encode()
SUITE = b"<testsuite>" + b"".join(b'<testcase name="%d"/>' % n for n in range(3000)) + b"</testsuite>"
PACKED = gzip.compress(SUITE, mtime=0)


@dataclass(frozen=True, kw_only=True)
class Server:
    url: str
    token: str
    pid: int

    def send(self, kind: str, body: bytes, **changed: Any) -> requests.Response:
        return upload(self.url, self.token, kind, body, **changed)

    def report(self, content: dict[str, Any]) -> None:
        assert post_report(self.url, content, self.token).status_code == 200

    def peak(self) -> int:
        """The most memory the process ever had, in bytes."""
        told = peak_of(self.pid)
        assert told
        return told

    def cut(self, path: str, body: bytes, promised: int) -> bytes:
        """What is answered to a body that ends before its promised length."""
        parts = urlsplit(self.url)
        with socket.create_connection((parts.hostname, parts.port or 80), timeout=TIMEOUT) as line:
            head = [f"POST {path} HTTP/1.1", "Host: hud", f"Content-Length: {promised}"]
            head += [f"Authorization: Bearer {self.token}", "Content-Type: application/json"]
            line.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            line.shutdown(socket.SHUT_WR)
            return line.recv(65536)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("bombs")
    (folder / "spyre-ci.yaml").write_text("hud: {rate_limit: 100000}\n")
    with serve_process(folder) as (process, url):
        token = (folder / ".spyre-ci" / "hud-token").read_text().strip()
        yield Server(url=url, token=token, pid=process.pid)


@pytest.fixture(autouse=True, scope="module")
def whole(server: Server) -> Iterator[None]:
    """Whatever was sent, the server never had much memory and nothing of it, and takes what is right."""
    server.report(nightly_report())
    yield
    assert server.peak() < MOST_RESIDENT
    assert requests.get(f"{server.url}/runs/1/tests", timeout=TIMEOUT).status_code == 200
    assert requests.get(f"{server.url}/api/runs/1/tests", timeout=TIMEOUT).json()["total"] in {0, 1}
    one = b'<testsuite><testcase name="whole"/></testsuite>'
    assert server.send("junit", one).json()["stored"] == 1


@cache
def bomb(head: bytes, fill: bytes) -> bytes:
    """A gzip file that unpacks to 400 MiB; what was flushed in full can be repeated as it is."""
    piece = fill * (MEBIBYTE // len(fill))
    packer, size, check = zlib.compressobj(9, zlib.DEFLATED, -15), len(head), zlib.crc32(head)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(400):
        size, check = size + len(piece), zlib.crc32(piece, check)
    return b"".join((GZIP, begin, packed * 400, packer.flush(), struct.pack("<II", check, size)))


def changed(packed: bytes, at: int) -> bytes:
    return packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]


BOMBS = {
    "zeros": ("junit", b"", b"\0"),
    "blanks": ("junit", b"<testsuite>", b" "),
    "one attribute": ("junit", b'<testsuite name="', b"x"),
    "one text": ("junit", b"<testsuite><testcase><system-out>", b"x"),
    "one comment": ("junit", b"<testsuite><!-- ", b"x"),
    "deep": ("junit", b"<testsuite>", b"<a>"),
    "one line": ("test_run", b"", b"x"),
    "one string": ("test_run", b'{"name": "', b"x"),
    "lists": ("test_run", b"", b"["),
    "empty lines": ("test_run", b"", b"\n"),
    "lines of blanks": ("test_run", b"", b" " * 1023 + b"\n"),
    "rows of another layout": ("test_run", b"", b'{"tests": 1}\n'),
}


@pytest.mark.parametrize("number", range(len(BOMBS)))
def test_little_that_unpacks_to_much_is_refused_early(
    server: Server, payload: dict[str, Any], number: int
) -> None:
    kind, head, fill = list(BOMBS.values())[number]
    # A job of its own: where tests are here in full, none of another layout are looked at.
    run_id = 5000 + number
    workflow = {**payload["workflow"], "run_id": run_id, "check_run_id": f"{run_id}-1"}
    content = {**payload, "workflow": workflow}
    server.report(content)
    job = {"workflow_id": run_id, "job_id": job_number(f"{run_id}-1", repository=REPOSITORY)}
    body = bomb(head, fill)
    assert len(body) < 2 * MEBIBYTE
    answer = server.send(kind, body, **job)
    assert answer.status_code == 400, answer.text


def test_eight_bombs_at_once_take_no_more_memory_and_callbacks_are_answered(
    server: Server, payload: dict[str, Any]
) -> None:
    text = bomb(b"<testsuite><testcase><system-out>", b"x")
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(server.send, "junit", text, name=name) for name in "abcdefgh"]
        for _ in range(10):
            server.report(payload)
        assert [answer.result().status_code for answer in answers] == [400] * 8


@pytest.mark.parametrize(
    "body",
    [
        PACKED[:2],
        PACKED[:10],
        PACKED[:-1],
        PACKED[: len(PACKED) // 2],
        changed(PACKED, 2),
        changed(PACKED, len(PACKED) // 2),
        changed(PACKED, len(PACKED) - 6),
        changed(PACKED, len(PACKED) - 2),
        PACKED + b"more",
        PACKED + PACKED,
        gzip.compress(PACKED, mtime=0),
        SUITE[:-1],
        b"",
    ],
)
@pytest.mark.parametrize("kind", ["junit", "test_run"])
def test_a_file_that_was_cut_or_changed_is_refused(server: Server, kind: str, body: bytes) -> None:
    if kind == "test_run" and not body:
        return
    answer = server.send(kind, body, name="cut")
    assert answer.status_code in ({400} if kind == "junit" else {400, 409}), answer.text
    assert answer.json()["error"]


def test_a_file_that_is_not_the_one_that_was_announced_is_refused(server: Server) -> None:
    assert server.send("junit", SUITE, name="b", sha256="0" * 64).status_code == 400
    assert server.send("junit", SUITE, name="b", rows=2999).status_code == 400


def test_a_body_that_ends_early_changes_nothing(server: Server, payload: dict[str, Any]) -> None:
    upload = f"/api/upload/junit?{urlencode({**JOB, 'name': 'early'})}"
    body = json.dumps(payload).encode()
    before = requests.get(f"{server.url}/healthz", timeout=TIMEOUT).json()
    for path, sent in ((upload, SUITE), ("/github/callback", body), ("/api/dispatch", b'{"delivery_id": ')):
        said = server.cut(path, sent, len(sent) + 10)
        assert not said or re.match(rb"HTTP/1.1 4\d\d ", said), said[:200]
    assert requests.get(f"{server.url}/healthz", timeout=TIMEOUT).json() == before


@pytest.mark.parametrize(
    "path", ["/github/callback", "/api/dispatch", "/api/crcr/results", "/github/webhook"]
)
@pytest.mark.parametrize("encoding", ["gzip", ""])
def test_callbacks_are_never_unpacked(
    server: Server, payload: dict[str, Any], path: str, encoding: str
) -> None:
    packed = bomb(json.dumps(payload).encode()[:-1], b" ")
    headers = {**bearer(server.token), "Content-Type": "application/json", "Content-Encoding": encoding}
    answer = requests.post(f"{server.url}{path}", data=packed, headers=headers, timeout=TIMEOUT)
    assert answer.status_code in {400, 401, 404, 413}
