"""Which files of a copy are not those of a commit; without Git."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ci.core.git import Entry
from ci.package.source import MovedError, differing, refuse_moved


def entry(name: str, content: bytes, mode: str = "100644", *, kind: str = "sha1") -> Entry:
    digest = hashlib.new(kind, b"blob %d\0" % len(content) + content).hexdigest()
    return Entry(name=name, mode=mode, object=digest)


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_bytes_rights_links_and_names_have_to_be_the_commits(tmp_path: Path, kind: str) -> None:
    wanted = {
        one.name: one
        for one in (
            entry("same", b"a\r\n", kind=kind),
            entry("other", b"a\n", kind=kind),
            entry("runs", b"", "100755", kind=kind),
            entry("link", b"same", "120000", kind=kind),
            entry("away", b"same", "120000", kind=kind),
            entry("gone", b"", kind=kind),
        )
    }
    for name, content in {"same": b"a\r\n", "other": b"a\r\n", "runs": b"", "new": b""}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link").symlink_to("same")
    (tmp_path / "away").symlink_to("other")
    there = ["same", "other", "runs", "link", "away", "new"]
    assert differing(tmp_path, wanted, there) == ["away", "gone", "new", "other", "runs"]


def test_another_commit_than_before_is_said(tmp_path: Path) -> None:
    refuse_moved(tmp_path, "a" * 40, "a" * 40, again="lint")
    with pytest.raises(MovedError, match="went from aaaaaaaaaaaa to none") as caught:
        refuse_moved(tmp_path, "a" * 40, "", again="lint")
    assert caught.value.exit_code == 3
    assert "lint again, and leave it alone until the end" in str(caught.value)
