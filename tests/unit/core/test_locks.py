"""A lock of a file is had alone, in common, or not at all; nobody waits."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from ci.core.errors import RunInUseError
from ci.core.locks import alone, run_lock, take
from ci.core.operating_system import host_name


def test_one_has_a_lock_alone_or_several_in_common(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("ab") as one, path.open("ab") as other:
        assert take(one)
        assert not take(other)
        assert not take(other.fileno(), fcntl.LOCK_SH)
        assert take(one.fileno(), fcntl.LOCK_SH)
        assert take(other, fcntl.LOCK_SH)
        assert not take(one)
        assert take(other, fcntl.LOCK_UN)
        assert take(one)
    with path.open("ab") as later:
        assert take(later)


def test_one_alone_works_and_its_lock_goes_with_it(tmp_path: Path) -> None:
    path, busy = tmp_path / "new" / "lock", RunInUseError("somebody has it")
    with alone(path, busy), pytest.raises(RunInUseError, match="somebody has it"), alone(path, busy):
        pytest.fail("two are alone")
    with pytest.raises(ZeroDivisionError), alone(path, busy):
        raise ZeroDivisionError
    with alone(path, busy):
        pass


def test_many_may_run_in_a_folder_and_one_may_resume_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with (
        run_lock(folder, alone=False),
        run_lock(folder, alone=False),
        pytest.raises(RunInUseError) as caught,
        run_lock(folder, alone=True),
    ):
        pass
    said = f"{folder}: is being run right now by process {os.getpid()} on {host_name()}"
    assert str(caught.value) == f"{said}\n  remedy: wait until that ends, or end it"
    with run_lock(folder, alone=True):
        for alone in (True, False):
            with pytest.raises(RunInUseError), run_lock(folder, alone=alone):
                pass
    with run_lock(folder, alone=False):
        pass


def test_those_who_have_ended_are_not_named(tmp_path: Path) -> None:
    rows = [{"pid": 2**22 + 1, "host": host_name()}, {"pid": 7, "host": "elsewhere"}, {"pid": "x"}, []]
    (tmp_path / "run.lock").write_text("\n".join(map(json.dumps, rows)) + "\n{cut", encoding="ascii")
    with run_lock(tmp_path, alone=False):
        (tmp_path / "run.lock").open("a", encoding="ascii").close()
        with pytest.raises(RunInUseError, match="process 7 on elsewhere") as caught:
            run_lock(tmp_path, alone=True).__enter__()
    assert str(2**22 + 1) not in str(caught.value)


def test_a_hosts_name_moves_no_terminal(tmp_path: Path) -> None:
    row = json.dumps({"pid": 7, "host": "a\x1b[31m\n::error::b" + "c" * 300})
    (tmp_path / "run.lock").write_text(row + "\n", encoding="ascii")
    with run_lock(tmp_path, alone=False), pytest.raises(RunInUseError) as caught:
        run_lock(tmp_path, alone=True).__enter__()
    assert "process 7 on a ::error::bc" in str(caught.value)
    assert "c" * 100 not in str(caught.value)


def test_where_there_are_no_locks_that_is_told_and_no_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with (tmp_path / "lock").open("ab") as stream, pytest.raises(OSError, match="no locks"):
        take(stream)
    with run_lock(tmp_path, alone=True) as first, run_lock(tmp_path, alone=True) as second:
        assert not first
        assert not second
