from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

import pytest

from ci.runner import orphans
from ci.runner.orphans import (
    VARIABLE,
    Killed,
    LeakedResources,
    find_orphans,
    kill_all,
    newest_process,
    running_children,
)


def process(proc: Path, pid: int, *environ: str) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "environ").write_bytes(b"\0".join(one.encode() for one in environ) + b"\0")


def test_only_what_carries_the_whole_mark_is_found(tmp_path: Path) -> None:
    process(tmp_path, 10, "HOME=/", f"{VARIABLE}=run-1")
    process(tmp_path, 11, f"{VARIABLE}=run-12")
    process(tmp_path, 12, f"X{VARIABLE}=run-1")
    process(tmp_path, 13, f"{VARIABLE}=run-1")
    (tmp_path / "14").mkdir()  # ended meanwhile
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    assert sorted(find_orphans("run-1", spare=(), proc=tmp_path)) == [10, 13]
    assert find_orphans("run-1", spare={13}, proc=tmp_path) == [10]


def test_where_there_is_no_proc_the_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"{VARIABLE}=run-1".encode()
    monkeypatch.setattr(orphans, "environments", lambda: iter([(9, [b"A=1", mark]), (7, [mark]), (5, [])]))
    assert find_orphans("run-1", spare={7}, proc=tmp_path / "none") == [9]


def test_where_the_kernel_does_not_name_its_newest_process_one_look_in_vain_is_not_enough() -> None:
    looks = iter([[], [], [7], *[[]] * orphans._EMPTY])
    killed: list[int] = []
    done = kill_all(
        lambda: next(looks),
        kill=lambda pid, _: killed.append(pid),
        newest=str,
        clock=lambda: 0.0,
        sleep=lambda _: None,
    )
    assert (done, killed, list(looks)) == (Killed(count=1), [7], [])


class Host:
    """Processes that fork when they are looked at, until they are killed so often; `stuck` ones do not go."""

    def __init__(self, forks: int, stuck: frozenset[int] = frozenset()) -> None:
        self.forks, self.stuck = forks, stuck
        self.alive = {1, 2} | stuck
        self.killed: list[int] = []
        self.now = 0.0

    def find(self) -> list[int]:
        found = sorted(self.alive)
        self.now += 0.01
        if self.alive - self.stuck and self.forks:
            self.forks -= 1
            self.alive.add(100 + self.forks)  # not seen yet
        return found

    def kill(self, pid: int, number: int) -> None:
        self.now += 0.001
        assert number == 9
        self.killed.append(pid)
        if pid == 7:
            raise PermissionError
        if pid not in self.stuck:
            self.alive.discard(pid)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def end(self) -> Killed:
        return kill_all(self.find, wait_s=2.0, kill=self.kill, clock=lambda: self.now, sleep=self.sleep)


def test_what_forks_while_it_is_killed_is_killed_as_well() -> None:
    host = Host(forks=20)
    assert host.end() == Killed(count=22)
    assert host.alive == set()


def test_what_a_kill_does_not_end_is_named_in_bounded_time() -> None:
    host = Host(forks=3, stuck=frozenset({7, 8}))
    assert host.end() == Killed(count=5, left=(7, 8))
    assert host.now < 10


def test_processes_that_are_made_faster_than_killed_are_not_killed_for_ever() -> None:
    host = Host(forks=10**9)
    assert host.end().left
    assert host.now < 10


def test_a_look_during_which_processes_began_is_taken_again() -> None:
    looks = iter([[], [], [7], []])
    newest = iter(["10", "11", "11", "12", "12", "13", "13"])
    killed: list[int] = []
    done = kill_all(
        lambda: next(looks),
        kill=lambda pid, _: killed.append(pid),
        newest=lambda: next(newest),
        clock=lambda: 0.0,
        sleep=lambda _: None,
    )
    assert (done, killed) == (Killed(count=1), [7])


def test_on_a_host_where_processes_begin_all_the_time_looks_end() -> None:
    newest = itertools.count()
    assert kill_all(list, newest=lambda: str(next(newest))) == Killed(count=0)


def test_the_newest_process_is_the_kernels_word(tmp_path: Path) -> None:
    assert newest_process(tmp_path) == ""
    (tmp_path / "loadavg").write_text("0.01 0.02 0.05 2/310 4242\n")
    assert newest_process(tmp_path) == "4242"


def test_where_nothing_is_left_nothing_is_killed() -> None:
    assert kill_all(list) == Killed(count=0)


def test_a_test_that_leaves_nothing_says_nothing() -> None:
    assert LeakedResources(processes=dict).look() == ""


def test_a_process_is_told_by_the_test_that_left_it_and_no_other() -> None:
    running: dict[int, str] = {7: "there before"}
    one = LeakedResources(processes=lambda: dict(running))
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
    one = LeakedResources(processes=dict)
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
    monkeypatch.setattr(orphans, "_has_children", lambda: True)
    (tmp_path / "self" / "task" / "1").mkdir(parents=True)
    (tmp_path / "self" / "stat").touch()
    (tmp_path / "self" / "task" / "1" / "children").write_text("5 6 7 8 ", encoding="ascii")
    proc(tmp_path, 5, "S", "sleep", "60")
    proc(tmp_path, 6, "Z", "")
    proc(tmp_path, 7, "S", "python", "-c", "from multiprocessing.resource_tracker import main;main(4)")
    assert running_children(tmp_path) == {5: "sleep 60"}


def test_where_there_is_no_proc_the_system_is_asked_for_what_runs_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = [(5, ["sleep", "60"]), (6, ["python", "-c", "import multiprocessing.resource_tracker"])]
    monkeypatch.setattr(orphans, "children", lambda: running)
    monkeypatch.setattr(orphans, "_has_children", lambda: True)
    assert running_children(tmp_path) == {5: "sleep 60"}


def test_where_it_cannot_be_asked_whether_there_are_children_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "waitid", raising=False)
    monkeypatch.setattr(orphans, "children", lambda: [(5, ["sleep", "60"])])
    assert running_children(tmp_path) == {5: "sleep 60"}


def test_without_children_nothing_is_read(tmp_path: Path) -> None:
    assert running_children(tmp_path) == {}


def test_a_process_without_a_free_descriptor_has_its_outcome_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*_: object) -> bool:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(orphans, "_has_children", no_more)
    assert running_children(tmp_path) == {}


def test_what_libraries_start_once_for_all_is_no_leak() -> None:
    idle = threading.Thread(target=threading.Event().wait, args=(0.5,), name="ThreadPoolExecutor-0_0")
    one = LeakedResources(processes=dict)
    idle.start()
    assert one.look() == ""
    idle.join()
