"""What the worker knows: which times were taken, what became of them, and what is on its way.

Every change is one transaction, made before the world is changed where it says what will be done, and after
it where it says what was seen. So whoever is killed between two of them is followed by one who finds out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ci.config.lanes_model import Lane
from ci.lanes.noted import Attempt, Outcome, attempt_of
from ci.lanes.order import Standing
from ci.lanes.state import State
from ci.lanes.turn import Begin, Known, OpenRun, Skip, Turn, first_of_interest

# So many of a lane's last times are never forgotten: a clock that jumps ahead by years would take all.
KEPT = 20
_OLD = """
SELECT lane, due FROM (
    SELECT *, row_number() OVER (PARTITION BY lane ORDER BY due DESC) AS place FROM slots
) WHERE state != 'open' AND max(due, taken_at, coalesce(ended_at, 0)) < ? AND place > ?
"""
_OLD_ATTEMPTS = f"SELECT * FROM attempts WHERE (lane, due) IN ({_OLD})"  # noqa: S608  # ours
_FORGET = f"DELETE FROM slots WHERE (lane, due) IN ({_OLD})"  # noqa: S608  # ours


class Store:
    """The state in a file.

    Args:
        path: of the file; it need not be there.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._state = path, State(path)

    def close(self) -> None:
        """Let go of the file."""
        self._state.close()

    def known(self, now: float) -> dict[str, Known]:
        """What is known of each lane, for the next look at the clock."""
        with self._state.look() as state:
            return known_of(state, now)

    def note_lanes(self, cadences: Mapping[str, str]) -> dict[str, str]:
        """Note lanes with their cadence in words; those whose cadence was another, with that one."""
        with self._state.change() as state:
            rows = state.execute("SELECT lane, cadence FROM lanes WHERE cadence IS NOT NULL").fetchall()
            state.executemany(
                "INSERT INTO lanes (lane, cadence) VALUES (?, ?) "
                "ON CONFLICT (lane) DO UPDATE SET cadence = excluded.cadence",
                cadences.items(),
            )
        before: dict[str, str] = {row["lane"]: row["cadence"] for row in rows}
        return {lane: before[lane] for lane, now in cadences.items() if before.get(lane, now) != now}

    def note_turn(self, turn: Turn, lanes: Mapping[str, Lane], *, now: float) -> list[Attempt]:
        """Note what a look at the clock came to; the attempts that are to be started."""
        if not (turn.known or turn.skip or turn.give_up or turn.begin):
            return []
        with self._state.change() as state:
            for lane, known in turn.known.items():
                _know(state, lane, known)
            for skip in turn.skip:
                _take(state, skip, now, "skipped")
            for over in turn.give_up:
                _give_up(state, over.lane, over.due, now)
            begun = [_begin(state, one, lanes[one.lane], now) for one in turn.begin]
        return [one for one in begun if one is not None]

    def started(self, attempt: Attempt, reference: str) -> None:
        """Note by which reference an attempt is asked for."""
        self._update(attempt, "reference = ?, standing = ?", reference, Standing.RUNNING)

    def asked(self, attempt: Attempt, why: str) -> None:
        """Note that an attempt is told to end, and what for."""
        self._update(attempt, "asked = ?", why)

    def ended(self, attempt: Attempt, outcome: Outcome, *, now: float) -> None:
        """Note an attempt's end, and whether its run is open for another one or ended with it."""
        seen = outcome.seen
        with self._state.change() as state:
            state.execute(
                "UPDATE attempts SET standing = ?, exit_code = ?, said = ?, url = ?, ended_at = ?, "
                "handed_back = ? WHERE lane = ? AND due = ? AND number = ?",
                (seen.standing, seen.exit_code, seen.said, seen.url, now, outcome.handed_back, *attempt.key),
            )
            if outcome.again_at is None:
                _end(state, attempt.lane, attempt.due, seen.standing, now)
            else:
                state.execute(
                    "UPDATE slots SET again_at = ? WHERE lane = ? AND due = ?",
                    (outcome.again_at, attempt.lane, attempt.due),
                )

    def tries(self, attempt: Attempt) -> int:
        """How many attempts of its run count, this one included; none does that was handed back."""
        with self._state.look() as state:
            run = _open(state, attempt.lane)
        return 0 if run is None else run.attempt

    def on_their_way(self) -> list[Attempt]:
        """Attempts that have not ended, the oldest first."""
        with self._state.look() as state:
            rows = state.execute("SELECT * FROM attempts WHERE ended_at IS NULL ORDER BY begun_at, lane")
            return [attempt_of(row) for row in rows]

    def prune(self, before: float) -> list[Attempt]:
        """Forget what was over before a time, but for each lane's last times; what was forgotten."""
        with self._state.change() as state:
            rows = state.execute(_OLD_ATTEMPTS, (before, KEPT)).fetchall()
            state.execute(_FORGET, (before, KEPT))
        return [attempt_of(row) for row in rows]

    def _update(self, attempt: Attempt, change: str, *values: str) -> None:
        with self._state.change() as state:
            state.execute(
                f"UPDATE attempts SET {change} WHERE lane = ? AND due = ? AND number = ?",  # noqa: S608  # ours
                (*values, *attempt.key),
            )


def known_of(state: sqlite3.Connection, now: float) -> dict[str, Known]:
    """What a state has of each lane, for a look at the clock."""
    rows = state.execute("SELECT lane, looked, last_end FROM lanes").fetchall()
    found = {row["lane"]: Known(looked=row["looked"], last_end=row["last_end"]) for row in rows}
    return {
        lane: replace(
            known, taken=_taken(state, lane, first_of_interest(known, now)), open=_open(state, lane)
        )
        for lane, known in found.items()
    }


def _taken(state: sqlite3.Connection, lane: str, since: int) -> frozenset[int]:
    # One that was skipped is not: a clock that was ahead skipped times that are still to come.
    begun = "SELECT due FROM slots WHERE lane = ? AND due >= ? AND state != 'skipped'"
    rows = state.execute(begun, (lane, since))
    return frozenset(row["due"] for row in rows)


def _open(state: sqlite3.Connection, lane: str) -> OpenRun | None:
    row = state.execute(
        "SELECT due, again_at, (SELECT count(*) FROM attempts AS one WHERE one.lane = slots.lane "
        "AND one.due = slots.due AND NOT handed_back) AS tries FROM slots WHERE lane = ? AND state = 'open'",
        (lane,),
    ).fetchone()
    return None if row is None else OpenRun(due=row["due"], attempt=row["tries"], next_try=row["again_at"])


def _know(state: sqlite3.Connection, lane: str, known: Known) -> None:
    state.execute(
        "INSERT INTO lanes (lane, looked, last_end) VALUES (?, ?, ?) ON CONFLICT (lane) "
        "DO UPDATE SET looked = excluded.looked, last_end = excluded.last_end",
        (lane, known.looked, known.last_end),
    )
    if known.open is not None:
        state.execute(
            "UPDATE slots SET again_at = ? WHERE lane = ? AND due = ?",
            (known.open.next_try, lane, known.open.due),
        )


def _take(state: sqlite3.Connection, time: Begin | Skip, now: float, kind: str) -> None:
    """Note a time as begun or skipped; what was begun stays so, what was skipped may begin."""
    state.execute(
        "INSERT INTO slots (lane, due, why, taken_at, state) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
        "SET why = excluded.why, taken_at = excluded.taken_at, state = excluded.state "
        "WHERE slots.state = 'skipped' AND excluded.state = 'open'",
        (time.lane, time.due, time.why, now, kind),
    )


def _begin(state: sqlite3.Connection, begin: Begin, lane: Lane, now: float) -> Attempt | None:
    """Note an attempt; None where its time is over, or it has one on its way."""
    where = (begin.lane, begin.due)
    begun = "SELECT 1 FROM slots WHERE lane = ? AND due = ? AND state != 'skipped'"
    fresh = state.execute(begun, where).fetchone() is None
    _take(state, begin, now, "open")
    state.execute("INSERT OR IGNORE INTO lanes (lane) VALUES (?)", (begin.lane,))
    waiting = "SELECT 1 FROM slots WHERE lane = ? AND due = ? AND state = 'open' AND again_at IS NOT NULL"
    if not fresh and state.execute(waiting, where).fetchone() is None:
        return None
    (last,) = state.execute(
        "SELECT coalesce(max(number), 0) FROM attempts WHERE lane = ? AND due = ?", where
    ).fetchone()
    attempt = Attempt(
        lane=begin.lane,
        due=begin.due,
        number=last + 1,
        kind=lane.where.kind,
        seed=lane.seed,
        limit_s=lane.time_limit_s,
        begun_at=now,
    )
    state.execute("UPDATE slots SET again_at = NULL WHERE lane = ? AND due = ?", where)
    state.execute(
        "INSERT INTO attempts (lane, due, number, kind, seed, limit_s, begun_at, standing) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*attempt.key, attempt.kind, attempt.seed, attempt.limit_s, attempt.begun_at, attempt.standing),
    )
    return attempt


def _give_up(state: sqlite3.Connection, lane: str, due: int, now: float) -> None:
    (last,) = state.execute(
        "SELECT standing FROM attempts WHERE lane = ? AND due = ? ORDER BY number DESC LIMIT 1", (lane, due)
    ).fetchone()
    _end(state, lane, due, Standing(last), now)


def _end(state: sqlite3.Connection, lane: str, due: int, standing: Standing, now: float) -> None:
    state.execute(
        "UPDATE slots SET state = 'ended', again_at = NULL, standing = ?, ended_at = ? "
        "WHERE lane = ? AND due = ?",
        (standing, now, lane, due),
    )
    state.execute("UPDATE lanes SET last_end = ? WHERE lane = ?", (now, lane))
