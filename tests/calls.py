"""What a command that a test called ended with and printed, and waiting for what comes about."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command ended with and printed."""

    code: int
    out: str
    err: str

    @property
    def output(self) -> str:
        """In one line: what is shown to people is folded at the terminal's width."""
        return " ".join((self.out + self.err).split())

    @property
    def json(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.out)
        return told


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_server(address: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Wait until a server that a test began answers with success."""
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError), urlopen(address, timeout=5):  # noqa: S310  # loopback
            return
        assert process.poll() is None, f"the server of {address} ended"
        assert time.monotonic() < end, f"the server of {address} did not start"
        time.sleep(0.1)
