"""Processes as psutil has them, which knows every system."""

from __future__ import annotations

import os
from typing import Any

import psutil
import pytest

from ci.core.processes import children, environments


class Told:
    """A process that psutil knows of."""

    def __init__(self, pid: int, *, words: Any = (), status: str = "sleeping", environ: Any = None) -> None:
        self.pid, self._words, self._status, self._environ = pid, words, status, environ

    def status(self) -> str:
        return self._status

    def name(self) -> str:
        return "named"

    def cmdline(self) -> list[str]:
        if isinstance(self._words, Exception):
            raise self._words
        return list(self._words)

    def environ(self) -> dict[str, str]:
        if isinstance(self._environ, Exception):
            raise self._environ
        return dict(self._environ)

    def children(self) -> list[Told]:
        return [
            Told(2, words=["sleep", "60"]),
            Told(3, status=psutil.STATUS_ZOMBIE),
            Told(4, words=psutil.NoSuchProcess(4)),
            Told(5),
        ]


def test_what_this_process_started_and_still_runs_is_told_by_its_words_else_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(psutil, "Process", lambda: Told(1))
    assert children() == [(2, ["sleep", "60"]), (5, ["named"])]


def test_what_cannot_be_read_is_left_out_and_the_newest_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    every = {
        1: psutil.AccessDenied(1),
        5: {"A": "1", "B": ""},
        9: {},
        7: PermissionError(),
        8: psutil.NoSuchProcess(8),
    }
    monkeypatch.setattr(psutil, "pids", lambda: list(every))
    monkeypatch.setattr(psutil, "Process", lambda pid: Told(pid, environ=every[pid]))
    assert list(environments()) == [(9, []), (5, [b"A=1", b"B="])]


def test_the_system_itself_is_asked() -> None:
    found = dict(environments())
    assert f"PATH={os.environ['PATH']}".encode() in found[os.getpid()]
    assert children() == []
