"""A lock of a file is had alone, in common, or not at all; nobody waits."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from ci.core.errors import RunInUseError
from ci.core.locks import alone, take


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


def test_a_file_system_without_locks_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (tmp_path / "lock").open("ab") as stream, pytest.raises(OSError, match="no locks"):
        take(stream)


def test_one_alone_works_and_its_lock_goes_with_it(tmp_path: Path) -> None:
    path, busy = tmp_path / "new" / "lock", RunInUseError("somebody has it")
    with alone(path, busy), pytest.raises(RunInUseError, match="somebody has it"), alone(path, busy):
        pytest.fail("two are alone")
    with pytest.raises(ZeroDivisionError), alone(path, busy):
        raise ZeroDivisionError
    with alone(path, busy):
        pass
