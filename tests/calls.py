"""What a command that a test called ended with and printed, and waiting for what comes about."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
