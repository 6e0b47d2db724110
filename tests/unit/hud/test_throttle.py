from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.hud.throttle import (
    AHEAD_S,
    MemoryThrottle,
    SharedThrottle,
    Throttle,
    own_folder,
    shared_throttle,
)


def spent(throttle: Throttle, now: float, number: int = 60) -> None:
    for _ in range(number):
        assert throttle.take(now) == 0


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 5)), max_size=120))
def test_two_processes_share_what_passes_in_a_minute(posts: list[tuple[int, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = [SharedThrottle(Path(folder) / "x.json", limit=10) for _ in range(2)]
        now, passed = 1000.0, []
        for who, gap in posts:
            now += gap
            while wait_s := both[who].take(now):
                now += wait_s
            passed.append(now)
    assert all(b - a >= 60 - 1e-6 for a, b in zip(passed, passed[10:], strict=False))


def test_a_hold_meets_all_who_share(tmp_path: Path) -> None:
    one, other = (SharedThrottle(tmp_path / "x.json") for _ in range(2))
    one.hold(1075.0)
    assert other.take(1000.0) == 75.0
    assert other.take(1075.0) == 0.0
    # A later word does not shorten it.
    one.hold(1200.0)
    other.hold(1100.0)
    assert one.take(1100.0) == 100.0


def test_a_hold_meets_one_process_as_well() -> None:
    throttle = MemoryThrottle()
    throttle.hold(50.0)
    assert throttle.take(10.0) == 40.0
    assert throttle.take(50.0) == 0.0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"times": 7, "until": 0}', '{"times": ["x"], "until": 0}'])
def test_a_file_that_is_broken_counts_for_nothing_and_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    throttle = SharedThrottle(tmp_path / "x.json")
    spent(throttle, 1000.0)
    assert throttle.take(1000.0) == 60.0


def test_a_clock_that_was_set_back_holds_nobody_for_long(tmp_path: Path) -> None:
    throttle = SharedThrottle(tmp_path / "x.json")
    spent(throttle, 1e9)
    throttle.hold(1e9 + 60)
    assert throttle.take(1000.0) == 0.0
    spent(SharedThrottle(tmp_path / "y.json"), 1000.0 + AHEAD_S)
    assert SharedThrottle(tmp_path / "y.json").take(1000.0) <= AHEAD_S + 60


def test_a_folder_that_cannot_be_used_leaves_each_process_its_own_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    throttle = SharedThrottle(tmp_path / "file" / "x.json")
    spent(throttle, 1000.0)
    assert throttle.take(1000.0) == 60.0
    throttle.hold(2000.0)
    assert throttle.take(1900.0) == 100.0


def test_each_endpoint_and_repository_has_its_own(tmp_path: Path) -> None:
    spent(shared_throttle("https://a", "o/r", tmp_path), 1000.0)
    assert shared_throttle("https://a", "o/r", tmp_path).take(1000.0) == 60.0
    assert shared_throttle("https://a", "o/other", tmp_path).take(1000.0) == 0.0
    assert shared_throttle("https://b", "o/r", tmp_path).take(1000.0) == 0.0


def test_the_users_own_folder_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = own_folder()
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert own_folder() == folder
    folder.chmod(0o777)
    assert own_folder() is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert own_folder() is None
    assert isinstance(shared_throttle("https://a", "o/r"), MemoryThrottle)
    folder.unlink()
    own_folder()
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    folder.rename(tmp_path / f"spyre-ci-posts-{os.geteuid() + 1}")
    assert own_folder() is None
