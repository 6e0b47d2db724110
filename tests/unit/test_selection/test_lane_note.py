"""What a report says of the lane: kept and moved are together what was selected."""

from __future__ import annotations

import pytest

from test_selection.lane_note import (
    LaneNote,
    lane_note,
    lane_note_from_json,
    lane_note_lines,
    lane_note_to_json,
)
from test_selection.selection import Selection

MOVED = {"nightly": {"b": "needs 2 cards", "c": "needs 2 cards"}, "weekly": {"d": "long"}}


def test_kept_and_moved_are_what_was_selected() -> None:
    selection = Selection(stage=1, percent=5, ids=["a"], lane="pr", moved=MOVED, beyond={"d": "takes a week"})
    note = lane_note(selection)
    assert note == LaneNote(lane="pr", kept=1, moved={"nightly": 2, "weekly": 1}, beyond=1)
    assert note.kept + note.away == selection.selected == 4
    (line,) = lane_note_lines(note)
    assert line == (
        "lane pr: 1 of 4 selected tests run, 2 move to the nightly bucket (--lane nightly runs them), "
        "1 moves to the weekly bucket (--lane weekly runs them); 1 beyond every lane"
    )
    assert lane_note_from_json(lane_note_to_json(note)) == note


def test_a_lane_that_runs_all_has_nothing_to_say() -> None:
    assert lane_note_lines(LaneNote(lane="weekly", kept=4)) == []
    assert lane_note(Selection(stage=1, percent=5, ids=["a"])) is None
    assert lane_note_to_json(None) is None
    assert lane_note_from_json(None) is None


@pytest.mark.parametrize("content", [{}, [], {"lane": "pr", "kept": None, "moved": {}, "beyond": 0}])
def test_a_broken_note_is_no_note(content: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        lane_note_from_json(content)
