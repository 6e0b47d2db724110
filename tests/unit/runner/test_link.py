"""A new attempt at a shard: a journal of its own, whose name a power cut does not take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.runner.link import new_attempt


def test_the_name_of_a_new_journal_is_on_the_disk_before_anything_is_written_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[os.stat_result, bool, bool]] = []
    journal = tmp_path / "run" / "journal" / "3-1.jsonl"

    def note(descriptor: int, *, whole: bool = False) -> None:
        synced.append((os.fstat(descriptor), whole, journal.exists()))

    monkeypatch.setattr("ci.runner.link.bring_to_disk", note)
    made = new_attempt(tmp_path / "run", 3, 7)
    assert (made.number, made.journal, made.planned) == (1, journal, 7)
    for folder in (journal.parent, tmp_path / "run"):
        assert any(
            os.path.samestat(status, folder.stat()) and whole and there for status, whole, there in synced
        )
    assert new_attempt(tmp_path / "run", 3, 7).number == 2
