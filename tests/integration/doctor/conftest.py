"""What checks are tested with: a site that does harm, a real machine, and the verb as it is typed."""

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
from ci.doctor.machine import Machine

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 120
MakeMachine = Callable[..., Machine]


@dataclass(kw_only=True)
class Site:
    """A server on loopback: status and body by path (404 for others), a clock, a login, or a hang."""

    pages: dict[str, tuple[int, str]] = field(default_factory=dict)
    skew_s: float = 0
    login: str = ""
    hangs: bool = False
    asked: list[Mapping[str, str]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]  # set where it is made
        site.asked.append({name.lower(): one for name, one in self.headers.items()})
        if site.hangs:
            site.over.wait()
            return
        status, body = site.pages.get(self.path, (404, "nothing"))
        if site.login and self.headers.get("Authorization") != site.login:
            status, body = 401, "who are you?"
        self.send_response_only(status)
        headers = {"content-type": "text/html", "content-length": str(len(body)), "location": "/elsewhere"}
        for name, value in {"date": formatdate(time.time() + site.skew_s, usegmt=True), **headers}.items():
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
class Shown:
    """What the verb showed: its exit code, the findings of `--json`, and what else."""

    code: int
    findings: list[dict[str, str]]
    err: str

    def of(self, check: str) -> list[dict[str, str]]:
        """The findings of a check."""
        return [one for one in self.findings if one["check"] == check]

    @property
    def faults(self) -> list[str]:
        """The checks that have one, each once."""
        return list(dict.fromkeys(one["check"] for one in self.findings if one["level"] == "fault"))


def usual(folder: Path) -> dict[str, str]:
    """An environment without whatever this machine's own says of pip, engines and clusters."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PIP_CONFIG_FILE": os.devnull,
        "SPYRE_CI_EMULATE": "1",
        "SPYRE_CI__RUN__LEASES": str(folder / "leases"),
    }


def doctor(folder: Path, *words: str, environ: Mapping[str, str], python: str = sys.executable) -> Shown:
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
    assert row["exit_code"] == ended.returncode
    return Shown(code=ended.returncode, findings=row["findings"], err=ended.stderr)


@pytest.fixture
def machine(tmp_path: Path) -> MakeMachine:
    """A machine that is real, but for its settings and environment."""

    def make(environ: Mapping[str, str] | None = None, **flags: Any) -> Machine:
        dotted = {key.replace("__", "."): value for key, value in flags.items() if key != "open_cards"}
        whole = {**usual(tmp_path), **(environ or {})}
        return Machine(
            settings=load_settings(path=None, environ=whole, flags=dotted, cwd=tmp_path),
            environ=whole,
            cwd=tmp_path,
            cores=2,
            clock=time.time,
            open_cards=flags.get("open_cards", False),
        )

    return make
