"""What a report says of the bucket: how many of the selected tests it runs, and where the others run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from test_selection.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketNote:
    """How a bucket split what was selected: `kept` and all of `moved` together are that.

    Attributes:
        bucket: whose limits held.
        kept: how many tests it runs.
        moved: by bucket, how many run there instead.
        beyond: how many need more than any bucket allows.
    """

    bucket: str
    kept: int
    moved: Mapping[str, int] = field(default_factory=dict)
    beyond: int = 0

    @property
    def away(self) -> int:
        """How many of the selected tests run in another bucket."""
        return sum(self.moved.values())


def bucket_note(selection: Selection) -> BucketNote | None:
    """The note of a selection; None where no bucket's limits held."""
    if selection.bucket is None:
        return None
    return BucketNote(
        bucket=selection.bucket,
        kept=len(selection.ids),
        moved={bucket: len(ids) for bucket, ids in selection.moved.items()},
        beyond=len(selection.beyond),
    )


def bucket_note_lines(note: BucketNote | None) -> list[str]:
    """The note for people; nothing where the bucket runs all that was selected and could."""
    if note is None or not (note.away or note.beyond):
        return []
    there = "".join(
        f", {count:,} {'moves' if count == 1 else 'move'} to the {later} bucket (--bucket {later} runs them)"
        for later, count in note.moved.items()
    )
    beyond = f"; {note.beyond:,} beyond every bucket" if note.beyond else ""
    of = f"{note.kept:,} of {note.kept + note.away:,}"
    return [f"bucket {note.bucket}: {of} selected tests run{there}{beyond}"]
