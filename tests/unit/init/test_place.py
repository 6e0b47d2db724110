"""Where a checkout stands, and what a file there is: what cannot be known is said, and nothing made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import CommandError, UsageError
from ci.init.place import look
from ci.init.seen import of_bytes


def test_where_git_does_not_answer_it_is_said_and_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> str:
        raise CommandError("ended with code 128: git -C x\n  | fatal: detected dubious ownership")

    monkeypatch.setattr("ci.init.place.git", refuses)
    (tmp_path / ".git").mkdir()
    found = look(tmp_path)
    assert (found.is_root, found.branch) == (True, "main")
    said = "Git was asked in vain (fatal: detected dubious ownership): the branch is assumed to be main"
    assert found.notes == (said,)


def test_a_bare_repository_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "HEAD").touch()
    for name in ("objects", "refs"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="is a bare repository"):
        look(tmp_path)


def test_a_text_with_a_zero_byte_is_none_that_git_merges() -> None:
    found = of_bytes(b"a\0b\n")
    assert (found.text, found.odd) == (None, "it holds a zero byte")
