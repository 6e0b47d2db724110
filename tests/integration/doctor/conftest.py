"""What looks at a machine are tested with: a site that does harm, and the verb as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ci.config import load_settings
from ci.doctor.finding import Finding, Level
from ci.doctor.world import Processes, World
from tests.json_documents import differences

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 120
MakeWorld = Callable[..., World]


@dataclass(kw_only=True)
class Site:
    """A server on loopback, and what it answers.

    Attributes:
        pages: status, kind and body by path; 404 for all others.
        headers: added to each answer.
        skew_s: how far its clock is before ours.
        login: the header Authorization that opens it; empty: it is open.
        hangs: whether it never answers.
        asked: the paths and headers of requests.
    """

    pages: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    skew_s: float = 0
    login: str = ""
    hangs: bool = False
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]  # set where it is made
        site.asked.append((self.path, {name.lower(): one for name, one in self.headers.items()}))
        if site.hangs:
            site.over.wait()
            return
        status, kind, body = site.pages.get(self.path, (404, "text/plain", "nothing"))
        if site.login and self.headers.get("Authorization") != site.login:
            status, body = 401, "who are you?"
        self.send_response_only(status)
        if not site.headers.get("date"):
            self.send_header("date", formatdate(time.time() + site.skew_s, usegmt=True))
        for name, value in {"content-type": kind, "content-length": str(len(body)), **site.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Site]:
    """A site while the block runs."""
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        server.site = site  # type: ignore[attr-defined]  # read by the handler
        site.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield site
        finally:
            site.over.set()
            server.shutdown()


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as one:
        yield one


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the verb said.

    Attributes:
        code: it ended with.
        findings: of `--json`, which has the shape that is documented.
        err: what else it said.
    """

    code: int
    findings: list[dict[str, str]]
    err: str

    def of(self, look: str) -> list[dict[str, str]]:
        """The findings of a look."""
        return [one for one in self.findings if one["look"] == look]

    @property
    def faults(self) -> list[str]:
        """The looks that have one, each once."""
        return list(dict.fromkeys(one["look"] for one in self.findings if one["level"] == "fault"))


def faults(found: list[Finding]) -> list[str]:
    """What is said of each fault."""
    return [one.said for one in found if one.level is Level.FAULT]


def usual(folder: Path) -> dict[str, str]:
    """An environment without whatever this machine's own says of pip, engines and clusters."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PIP_CONFIG_FILE": os.devnull,
        "SPYRE_CI__RUN__LEASES": str(folder / "leases"),
    }


def doctor(folder: Path, *words: str, environ: Mapping[str, str], python: str = sys.executable) -> Told:
    """The verb as it is typed in a folder, with `--json`."""
    ended = subprocess.run(
        [python, "-m", "ci.cli", "doctor", "--json", *words],
        cwd=folder,
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.stdout, ended.stderr
    row = json.loads(ended.stdout)
    assert differences("doctor", row) == []
    assert row["exit_code"] == ended.returncode
    return Told(code=ended.returncode, findings=row["findings"], err=ended.stderr)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MakeWorld]:
    """A world that is real, but for its settings and environment."""
    made: list[World] = []

    def make(environ: Mapping[str, str] | None = None, **flags: Any) -> World:
        dotted = {key.replace("__", "."): value for key, value in flags.items()}
        whole = {**usual(tmp_path), **(environ or {})}
        one = World(
            settings=load_settings(path=None, environ=whole, flags=dotted, cwd=tmp_path),
            environ=whole,
            clock=time.time,
            monotonic=time.monotonic,
            cwd=tmp_path,
            cores=2,
            processes=Processes(),
        )
        made.append(one)
        return one

    yield make
    assert all(one.processes.end(30) for one in made)
