from __future__ import annotations

from pathlib import Path

from ci.runner.strays import VARIABLE, find_strays


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
    assert sorted(find_strays("run-1", spare=(), proc=tmp_path)) == [10, 13]
    assert find_strays("run-1", spare={13}, proc=tmp_path) == [10]


def test_where_there_is_no_proc_nothing_is_found(tmp_path: Path) -> None:
    assert find_strays("run-1", spare=(), proc=tmp_path / "none") == []
