"""What is kept by SHA: made by one, used by several, removed when nobody uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.core.shared_folders import WHOLE, Kept, forget


def kept(folder: Path, *, timeout_s: float = 0) -> Kept:
    return Kept(folder, stop=lambda: False, timeout_s=timeout_s, clock=lambda: 0.0, sleep=lambda _: None)


def made(folder: Path) -> Kept:
    one = kept(folder)
    folder.mkdir(exist_ok=True)
    one.done()
    return one


def test_one_makes_it_and_others_wait(tmp_path: Path) -> None:
    first = kept(tmp_path / "a")
    with pytest.raises(CommandError, match="another search prepares"):
        kept(tmp_path / "a")
    (tmp_path / "a").mkdir()
    first.done()
    second = kept(tmp_path / "a")
    assert second.whole
    first.let_go()
    second.let_go()


def test_whoever_leaves_it_half_made_leaves_it_to_be_made(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    kept(tmp_path / "a").let_go()
    again = kept(tmp_path / "a")
    assert not again.whole
    again.let_go()


def test_what_another_search_removes_at_the_same_moment_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: iter([tmp_path / "gone" / WHOLE]))
    forget(tmp_path, 0)


def test_what_somebody_uses_is_not_removed_however_few_are_kept(tmp_path: Path) -> None:
    users = [made(tmp_path / name) for name in "abc"]
    for number, name in enumerate("abc"):
        os.utime(tmp_path / name / WHOLE, (number, number))
    forget(tmp_path, 0)
    assert all((tmp_path / name).is_dir() for name in "abc")
    users[0].let_go()
    users[2].let_go()
    forget(tmp_path, 1)
    assert [(tmp_path / name).is_dir() for name in "abc"] == [False, True, True]
    forget(tmp_path, 0)
    assert [(tmp_path / name).is_dir() for name in "abc"] == [False, True, False]
    users[1].let_go()
