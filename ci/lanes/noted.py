"""What is noted of runs and their attempts, and the history of them for those who only look."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ci.lanes.order import Seen, Standing
from ci.lanes.state import read_state

# What the worker asked a run to end for.
LIMIT, ENDING = "limit", "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt as it is noted.

    Attributes:
        lane: its lane.
        due: of its run, in seconds since the epoch.
        number: from 1.
        kind: of its executor.
        seed: for what is drawn at random in it.
        limit_s: seconds it may take.
        begun_at: when it was noted, before it was started.
        reference: by which its executor knows it; None: nobody knows whether it was started.
        standing: where it stood when it was last looked at.
        asked: what it was told to end for: `limit`, `ending`, or nothing.
        handed_back: whether it was ended with the worker, and is no failure.
        exit_code: None while it runs, or where nobody knows.
        ended_at: when that was seen.
        said: why, in words.
        url: page of it.
    """

    lane: str
    due: int
    number: int
    kind: str
    seed: int
    limit_s: float
    begun_at: float
    reference: str | None = None
    standing: Standing = Standing.STARTING
    asked: str = ""
    handed_back: bool = False
    exit_code: int | None = None
    ended_at: float | None = None
    said: str = ""
    url: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """Its identity."""
        return self.lane, self.due, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A run of a lane at a time.

    Attributes:
        lane: its lane.
        due: when it was due, in seconds since the epoch.
        why: it was begun, or skipped.
        taken_at: when that was noted.
        state: open, ended or skipped.
        again_at: when its next attempt begins; None while one is on its way, or none will.
        standing: of its last attempt, once it ended.
        ended_at: when it did.
    """

    lane: str
    due: int
    why: str
    taken_at: float
    state: str
    again_at: float | None = None
    standing: Standing | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an attempt's end means for its run.

    Attributes:
        seen: as it is noted.
        again_at: when the next attempt begins; None: the run ended with this one.
        handed_back: see Attempt.
    """

    seen: Seen
    again_at: float | None = None
    handed_back: bool = False


def history(path: Path, *, lane: str | None, most: int) -> list[tuple[Slot, list[Attempt]]]:
    """The last runs and skipped times, the newest first, with their attempts; for those who only look.

    Raises:
        MissingInputError: no worker was ever there.
    """
    with read_state(path) as state:
        slots = state.execute(
            "SELECT * FROM slots WHERE ? IS NULL OR lane = ? ORDER BY due DESC, lane LIMIT ?",
            (lane, lane, most),
        ).fetchall()
        found = []
        for slot in map(_slot, slots):
            rows = state.execute(
                "SELECT * FROM attempts WHERE lane = ? AND due = ? ORDER BY number", (slot.lane, slot.due)
            )
            found.append((slot, [attempt_of(row) for row in rows]))
    return found


def attempt_of(row: sqlite3.Row) -> Attempt:
    """An attempt as its row has it."""
    found = dict(row)
    standing, back = Standing(found.pop("standing")), bool(found.pop("handed_back"))
    return Attempt(**found, standing=standing, handed_back=back)


def _slot(row: sqlite3.Row) -> Slot:
    found = dict(row)
    standing = found.pop("standing")
    return Slot(**found, standing=None if standing is None else Standing(standing))
