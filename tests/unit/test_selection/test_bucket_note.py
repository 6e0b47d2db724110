"""What a report says of the bucket: kept and moved are together what was selected."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from test_selection.bucket_note import (
    BucketNote,
    bucket_note,
    bucket_note_lines,
)
from test_selection.errors import BadFileError
from test_selection.files import convert
from test_selection.selection import Selection

MOVED = {"nightly": {"b": "needs 2 cards", "c": "needs 2 cards"}, "weekly": {"d": "long"}}


def test_kept_and_moved_are_what_was_selected() -> None:
    selection = Selection(
        stage=1, percent=5, ids=["a"], bucket="pr", moved=MOVED, beyond={"d": "takes a week"}
    )
    note = bucket_note(selection)
    assert note == BucketNote(bucket="pr", kept=1, moved={"nightly": 2, "weekly": 1}, beyond=1)
    assert note.kept + note.away == selection.selected == 4
    (line,) = bucket_note_lines(note)
    assert line == (
        "bucket pr: 1 of 4 selected tests run, 2 move to the nightly bucket (--bucket nightly runs them), "
        "1 moves to the weekly bucket (--bucket weekly runs them); 1 beyond every bucket"
    )
    assert convert(asdict(note), BucketNote, where="x", remedy="") == note


def test_a_bucket_that_runs_all_has_nothing_to_say() -> None:
    assert bucket_note_lines(BucketNote(bucket="weekly", kept=4)) == []
    assert bucket_note(Selection(stage=1, percent=5, ids=["a"])) is None


@pytest.mark.parametrize("content", [{}, [], {"bucket": "pr", "kept": None, "moved": {}, "beyond": 0}])
def test_a_broken_note_is_no_note(content: object) -> None:
    with pytest.raises(BadFileError, match="x: a key is missing or of the wrong kind"):
        convert(content, BucketNote, where="x", remedy="")
