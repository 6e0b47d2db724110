from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, DiskFullError, FileSystemError
from ci.runner.leases import SETTLE_S, Leases, shared_folder


def leases(folder: Path, run: str = "nightly", now: float = 1_000.0) -> Leases:
    return Leases(folder, run=run, clock=lambda: now)


def test_a_card_is_one_runs_until_it_lets_go(tmp_path: Path) -> None:
    one, two = leases(tmp_path / "l"), leases(tmp_path / "l", "other")
    assert one.take("emulated:0")
    assert not two.take("emulated:0")
    assert two.take("emulated:1")
    one.release("emulated:0")
    assert two.take("emulated:0")
    two.release_all()
    assert one.take("emulated:0")
    assert one.take("emulated:1")


def test_a_run_does_not_take_a_card_twice(tmp_path: Path) -> None:
    one = leases(tmp_path)
    assert one.take("emulated:0")
    assert not one.take("emulated:0")
    one.release("emulated:7")


def test_the_lease_file_says_who_holds_the_card(tmp_path: Path) -> None:
    one, two = leases(tmp_path), leases(tmp_path, "other")
    one.take("0000:1a:00.0")
    holder = two.holder("0000:1a:00.0")
    assert holder is not None
    assert (holder.run, holder.pid, holder.since) == ("nightly", os.getpid(), 1_000.0)
    assert str(holder).startswith(f"run nightly (process {os.getpid()} of ")
    one.release("0000:1a:00.0")
    assert two.holder("0000:1a:00.0") is None


HELD = '{"pid": %s, "run": "r", "user": "u", "since": %s}'


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[1]", '{"pid": "x"}', '{"pid": 1}', "\0" * 100, "[" * 4096,
        HELD % (1, "NaN"), HELD % (1, "1e300"), HELD % (1, "-1e15"), HELD % (1, "Infinity"),
        HELD % ("1e400", 1), HELD % (0, 1), HELD % (-5, 1), HELD % ("9" * 30, 1),
    ],
)  # fmt: skip
def test_a_lease_file_that_says_nothing_holds_all_the_same(tmp_path: Path, content: str) -> None:
    one, two = leases(tmp_path), leases(tmp_path, "other")
    one.take("emulated:0")
    (tmp_path / "emulated:0.lease").write_text(content)
    assert two.holder("emulated:0") is None
    assert not two.take("emulated:0")


def test_what_a_dead_holder_wrote_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "emulated:0.lease").write_text('{"pid": 1, "run": "dead", "user": "x", "since": 1}')
    one = leases(tmp_path)
    assert one.take("emulated:0")
    assert str(one.holder("emulated:0")).startswith("run nightly")


def test_a_folder_that_is_cleaned_leaves_no_lock_that_nobody_sees(tmp_path: Path) -> None:
    one, two, three = (leases(tmp_path, name) for name in ("a", "b", "c"))
    one.take("emulated:0")
    (tmp_path / "emulated:0.lease").unlink()
    assert two.take("emulated:0")
    assert not three.take("emulated:0")


def test_all_users_may_use_the_folder_and_its_files(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        one = leases(tmp_path / "made")
        one.take("emulated:0")
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o7777 == 0o777
    assert (tmp_path / "made" / "emulated:0.lease").stat().st_mode & 0o777 == 0o666


def test_a_folder_that_was_there_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir(mode=0o700)
    leases(tmp_path / "ours").take("emulated:0")
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o700


def test_a_place_that_cannot_hold_leases_is_told_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileSystemError, match=r"run\.leases"):
        leases(tmp_path / "file")
    with pytest.raises(FileSystemError, match=r"run\.leases"):
        leases(tmp_path / "file" / "below")
    (tmp_path / "emulated:0.lease").mkdir()
    with pytest.raises(FileSystemError, match=r"emulated:0\.lease"):
        leases(tmp_path).take("emulated:0")


def test_a_link_in_a_leases_place_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "l").mkdir()
    (tmp_path / "l" / "emulated:0.lease").symlink_to(precious)
    with pytest.raises(FileSystemError):
        leases(tmp_path / "l").take("emulated:0")
    assert precious.read_text() == "mine"


def test_the_last_moment_a_lease_may_name_can_be_told(tmp_path: Path) -> None:
    one, two = leases(tmp_path), leases(tmp_path, "other")
    one.take("emulated:0")
    (tmp_path / "emulated:0.lease").write_text(HELD % (1, "253402214399"))
    assert str(two.holder("emulated:0")).startswith("run r (process 1 of u) since 9999-12-3")


def test_a_pipe_or_a_link_in_a_leases_place_is_not_read(tmp_path: Path) -> None:
    """Nobody writes into the pipe: who read it would wait for ever."""
    os.mkfifo(tmp_path / "emulated:0.lease")
    (tmp_path / "told").write_text(HELD % (1, 1))
    (tmp_path / "emulated:1.lease").symlink_to(tmp_path / "told")
    one = leases(tmp_path)
    assert (one.holder("emulated:0"), one.holder("emulated:1")) == (None, None)


def test_the_shared_folder_is_the_same_for_every_user(tmp_path: Path) -> None:
    locks, temporary = tmp_path / "locks", tmp_path / "tmp"
    assert shared_folder(locks, temporary) == temporary / "spyre-ci-cards"
    locks.mkdir()
    locks.chmod(0o755)
    assert shared_folder(locks, temporary) == temporary / "spyre-ci-cards"
    locks.chmod(0o1777)
    assert shared_folder(locks, temporary) == locks / "spyre-ci-cards"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_folder_that_is_deleted_costs_no_run_its_cards(tmp_path: Path) -> None:
    folder, clock = tmp_path / "below" / "l", Clock()
    one, two = (Leases(folder, run=name, clock=clock) for name in ("a", "b"))
    assert one.take("emulated:0")
    assert one.keep() == []
    shutil.rmtree(tmp_path / "below")
    # Who notices it first makes the folder again, and leaves the others their time.
    assert not two.take("emulated:1")
    assert not two.take("emulated:0")
    assert "was deleted and is made again" in one.keep()[0]
    assert "run a (process" in str(two.holder("emulated:0"))
    clock.now += SETTLE_S
    assert not two.take("emulated:0")
    assert two.take("emulated:1")
    one.release("emulated:0")
    assert two.take("emulated:0")


def test_a_lease_file_that_is_deleted_costs_no_run_its_card(tmp_path: Path) -> None:
    one, two = leases(tmp_path, "a"), leases(tmp_path, "b")
    one.take("emulated:0")
    (tmp_path / "emulated:0.lease").unlink()
    assert one.keep() == []
    assert not two.take("emulated:0")


def test_two_runs_that_have_one_card_are_told_so(tmp_path: Path) -> None:
    one, two = leases(tmp_path, "a"), leases(tmp_path, "b")
    one.take("emulated:0")
    (tmp_path / "emulated:0.lease").unlink()
    assert two.take("emulated:0")
    (said,) = one.keep()
    assert said.startswith("card emulated:0 is used by two runs: its lease was deleted, and run b (process")
    two.release("emulated:0")
    assert one.keep() == []
    assert not two.take("emulated:0")


def test_a_lease_that_was_locked_anew_stays_where_a_process_cannot_be_ended(tmp_path: Path) -> None:
    one, two = leases(tmp_path, "a"), leases(tmp_path, "b")
    one.take("emulated:0")
    (tmp_path / "emulated:0.lease").unlink()
    one.keep()
    descriptor = one.descriptor("emulated:0")
    assert descriptor is not None
    one.abandon("emulated:0")
    one.release_all()
    assert not two.take("emulated:0")
    os.close(descriptor)
    assert two.take("emulated:0")


def test_a_place_without_space_for_leases_is_told_as_a_full_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("ci.runner.leases.lock_file", full)
    with pytest.raises(DiskFullError, match="free space and inodes") as caught:
        leases(tmp_path).take("emulated:0")
    assert caught.value.exit_code == EXIT_INCOMPLETE
    assert "readable" not in str(caught.value)
    assert "run.leases" in str(caught.value)
