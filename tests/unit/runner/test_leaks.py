"""What a test leaves behind is named once, by the test that left it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ci.runner import leaks
from ci.runner.leaks import Leaks, running_children


def test_a_test_that_leaves_nothing_says_nothing() -> None:
    assert Leaks(processes=dict).look() == ""


def test_a_process_is_told_by_the_test_that_left_it_and_no_other() -> None:
    running: dict[int, str] = {7: "there before"}
    one = Leaks(processes=lambda: dict(running))
    assert one.look() == ""
    running[8] = "sleep 60"
    assert one.look() == "process 8 (sleep 60)"
    assert one.look() == ""
    running.clear()
    assert one.look() == ""
    running |= dict.fromkeys(range(10, 15), "x")
    assert one.look() == "process 10 (x), process 11 (x), process 12 (x) and 2 more"


def test_a_thread_that_keeps_the_process_alive_is_told_and_a_daemon_is_not() -> None:
    stop = threading.Event()
    one = Leaks(processes=dict)
    threads = [
        threading.Thread(target=stop.wait, name=name, daemon=name == "daemon") for name in ("left", "daemon")
    ]
    for thread in threads:
        thread.start()
    try:
        assert one.look() == "thread 'left'"
        assert one.look() == ""
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert one.look() == ""


def proc(folder: Path, pid: int, state: str, *words: str) -> None:
    (folder / str(pid)).mkdir()
    (folder / str(pid) / "stat").write_text(f"{pid} (a) b) {state} 1 1", encoding="ascii")
    (folder / str(pid) / "cmdline").write_bytes("\0".join(words).encode() + b"\0")


def test_only_what_still_runs_is_a_leak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_has_children", lambda: True)
    (tmp_path / "self" / "task" / "1").mkdir(parents=True)
    (tmp_path / "self" / "stat").touch()
    (tmp_path / "self" / "task" / "1" / "children").write_text("5 6 7 8 ", encoding="ascii")
    proc(tmp_path, 5, "S", "sleep", "60")
    proc(tmp_path, 6, "Z", "")
    proc(tmp_path, 7, "S", "python", "-c", "from multiprocessing.resource_tracker import main;main(4)")
    assert running_children(tmp_path) == {5: "sleep 60"}


def test_where_there_is_no_proc_the_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = [(5, ["sleep", "60"]), (6, ["python", "-c", "import multiprocessing.resource_tracker"])]
    monkeypatch.setattr(leaks, "children", lambda: running)
    monkeypatch.setattr(leaks, "_has_children", lambda: True)
    assert running_children(tmp_path) == {5: "sleep 60"}


def test_where_it_cannot_be_asked_whether_there_are_children_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "waitid", raising=False)
    monkeypatch.setattr(leaks, "children", lambda: [(5, ["sleep", "60"])])
    assert running_children(tmp_path) == {5: "sleep 60"}


def test_without_children_nothing_is_read(tmp_path: Path) -> None:
    assert running_children(tmp_path) == {}


def test_a_process_without_a_free_descriptor_has_its_outcome_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*_: object) -> bool:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(leaks, "_has_children", no_more)
    assert running_children(tmp_path) == {}


def test_what_libraries_start_once_for_all_is_no_leak() -> None:
    idle = threading.Thread(target=threading.Event().wait, args=(0.5,), name="ThreadPoolExecutor-0_0")
    one = Leaks(processes=dict)
    idle.start()
    assert one.look() == ""
    idle.join()
