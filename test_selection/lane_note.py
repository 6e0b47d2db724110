"""What a report says of the lane: how many of the selected tests it runs, and where the others run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from test_selection.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneNote:
    """How a lane split what was selected: `kept` and all of `moved` together are that.

    Attributes:
        lane: whose limits held.
        kept: how many tests it runs.
        moved: by bucket, how many run there instead.
        beyond: how many need more than any lane allows.
    """

    lane: str
    kept: int
    moved: Mapping[str, int] = field(default_factory=dict)
    beyond: int = 0

    @property
    def away(self) -> int:
        """How many of the selected tests run in another lane."""
        return sum(self.moved.values())


def lane_note(selection: Selection) -> LaneNote | None:
    """The note of a selection; None where no lane's limits held."""
    if selection.lane is None:
        return None
    return LaneNote(
        lane=selection.lane,
        kept=len(selection.ids),
        moved={bucket: len(ids) for bucket, ids in selection.moved.items()},
        beyond=len(selection.beyond),
    )


def lane_note_lines(note: LaneNote | None) -> list[str]:
    """The note for people; nothing where the lane runs all that was selected and could."""
    if note is None or not (note.away or note.beyond):
        return []
    there = "".join(
        f", {count:,} {'moves' if count == 1 else 'move'} to the {bucket} bucket (--lane {bucket} runs them)"
        for bucket, count in note.moved.items()
    )
    beyond = f"; {note.beyond:,} beyond every lane" if note.beyond else ""
    return [f"lane {note.lane}: {note.kept:,} of {note.kept + note.away:,} selected tests run{there}{beyond}"]


def lane_note_to_json(note: LaneNote | None) -> dict[str, Any] | None:
    """As it stands in `summary.json`."""
    return None if note is None else asdict(note)


def lane_note_from_json(content: Any) -> LaneNote | None:
    """What `lane_note_to_json` gave.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is something else.
    """
    if content is None:
        return None
    return LaneNote(
        lane=str(content["lane"]),
        kept=int(content["kept"]),
        moved={str(bucket): int(count) for bucket, count in content["moved"].items()},
        beyond=int(content["beyond"]),
    )
