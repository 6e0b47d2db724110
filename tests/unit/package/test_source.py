"""A checkout that is not what it was; without Git."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.package.project import MovedError, Source, refuse_moved

BEFORE = Source(commit="a" * 40, dirty=("known.py",))


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (Source(), "changed meanwhile: HEAD"),
        (Source(commit="a" * 40, dirty=("known.py", "b\n.py")), r"changed meanwhile: b\\n\.py"),
    ],
)
def test_another_commit_or_change_than_before_is_said(tmp_path: Path, now: Source, said: str) -> None:
    refuse_moved(tmp_path, BEFORE, BEFORE)
    with pytest.raises(MovedError, match=said) as caught:
        refuse_moved(tmp_path, BEFORE, now)
    assert caught.value.exit_code == 3
    assert "start again, and do not change it meanwhile" in str(caught.value)
