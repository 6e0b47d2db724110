"""A process is known by where and since when it is; what others are is psutil's to say, on every system."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ci.core import operating_system, other_processes
from ci.core.other_processes import (
    ProcessIdentity,
    children,
    environments,
    identify_process,
    read_identity,
)


def proc(folder: Path, stat: str) -> Path:
    (folder / "7").mkdir()
    (folder / "7" / "stat").write_text(stat)
    (folder / "self" / "ns").mkdir(parents=True)
    (folder / "self" / "ns" / "pid").symlink_to("pid:[1]")
    return folder


@pytest.mark.parametrize("name", ["python", "a b", "a) R 1 2 3 (b"])
def test_the_start_is_read_behind_whatever_the_process_is_called(tmp_path: Path, name: str) -> None:
    fields = " ".join(str(number) for number in range(3, 53))
    found = identify_process(7, proc(tmp_path, f"7 ({name}) {fields}\n"))
    assert found == ProcessIdentity(host=socket.gethostname(), namespace="pid:[1]", started="22")


def test_where_nothing_is_told_nothing_is_known(tmp_path: Path) -> None:
    assert identify_process(7, tmp_path) == ProcessIdentity(host=socket.gethostname())
    assert identify_process(7, proc(tmp_path, "7 (x) R 1")).started == ""


@pytest.mark.parametrize("row", [None, 1, "x", [], {}, {"host": "h"}, {"host": "h", "namespace": "n"}])
def test_a_file_that_does_not_say_says_nothing(row: object) -> None:
    assert read_identity(row) is None


def told(value: Any) -> Any:
    """A call that gives a value, or raises it."""

    def call() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return call


def test_what_this_process_started_and_still_runs_is_told_by_its_words_else_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = {2: ["sleep", "60"], 3: psutil.STATUS_ZOMBIE, 4: psutil.NoSuchProcess(4), 5: list[str]()}
    found = [
        SimpleNamespace(pid=pid, cmdline=told(one), status=told(one), name=told("named"))
        for pid, one in every.items()
    ]
    found[2].status = told("sleeping")
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(children=told(found)))
    assert children() == [(2, ["sleep", "60"]), (5, ["named"])]


def test_what_cannot_be_read_is_left_out_and_the_newest_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    every = {1: psutil.AccessDenied(1), 5: {"A": "1", "B": ""}, 9: {}, 7: PermissionError()}
    monkeypatch.setattr(psutil, "pids", lambda: list(every))
    monkeypatch.setattr(psutil, "Process", lambda pid: SimpleNamespace(environ=told(every[pid])))
    assert list(environments()) == [(9, []), (5, [b"A=1", b"B="])]


def test_the_system_itself_is_asked() -> None:
    found = dict(environments())
    assert f"PATH={os.environ['PATH']}".encode() in found[os.getpid()]
    assert children() == []


def test_where_the_kernel_does_not_see_to_it_a_thread_sends_the_signal_once_the_parent_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parents, sent, over = iter([7, 7, 1]), list[tuple[int, int]](), threading.Event()

    def kill(pid: int, number: int) -> None:
        sent.append((pid, number))
        over.set()

    monkeypatch.setattr(operating_system, "name", lambda: "darwin")
    monkeypatch.setattr(other_processes, "_POLL_S", 0)
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(os, "kill", kill)
    other_processes.die_with_parent(7, signal.SIGTERM)
    assert over.wait(10)
    assert sent == [(os.getpid(), signal.SIGTERM)]
    assert next(parents, None) is None
