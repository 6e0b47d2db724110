"""The worker's ledger: which times of lanes were begun or skipped, and how each attempt ended, in SQLite.

An attempt is noted before it is started, by its key (lane, due, attempt), and its end once it was seen: who
is killed between two notes is followed by a worker that finds out.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, BadFileError, SpyreCiError
from ci.lanes.decide import MOST_BACK_S, Decision, LaneState, OpenRun

# "lane" in ASCII: another program's database, or one of another version, is not written to.
APPLICATION_ID, VERSION = 0x6C616E65, 2
BUSY_TIMEOUT_S = 30.0
# A skipped time is an attempt with the number 0.
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS lanes (lane TEXT PRIMARY KEY, looked REAL);
CREATE TABLE IF NOT EXISTS attempts (
    lane TEXT NOT NULL,
    due INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL,
    why TEXT NOT NULL,
    begun_at REAL NOT NULL,
    ended_at REAL,
    exit_code INTEGER,
    reason TEXT NOT NULL DEFAULT '',
    counts INTEGER NOT NULL DEFAULT 1,
    retry_at REAL,
    PRIMARY KEY (lane, due, attempt)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
COMMIT;
"""
_LAST = "SELECT lane, due, max(attempt) FROM attempts GROUP BY lane, due"
_OPEN = f"""
SELECT lane, due, retry_at, (
    SELECT sum(counts) FROM attempts AS one WHERE one.lane = attempts.lane AND one.due = attempts.due
) AS tries FROM attempts
WHERE (lane, due, attempt) IN ({_LAST}) AND (status = 'running' OR retry_at IS NOT NULL)
"""  # noqa: S608  # ours
_FORGET = """
DELETE FROM attempts WHERE max(begun_at, due, coalesce(ended_at, 0)) < ? AND status != 'running'
AND retry_at IS NULL AND (lane, due) NOT IN (SELECT lane, max(due) FROM attempts GROUP BY lane, attempt > 0)
RETURNING *
"""


class Status(StrEnum):
    """How an attempt stands; all but the first are ends."""

    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"
    GONE = "gone"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt of a run of a lane.

    Attributes:
        lane: its name.
        due: when the run was due, in seconds since the epoch.
        attempt: its number, from 1; 0 is a time that was skipped.
        status: how it stands, as seen last.
        why: it began, or was skipped.
        begun_at: when that was noted.
        ended_at: when it ended.
        exit_code: None while it runs, or where nobody knows.
        reason: why it ended so; empty where the exit code says all.
        counts: whether it is one of the run's tries; one that ended with its worker is none.
        retry_at: when the next attempt begins, where this one gave no answer.
    """

    lane: str
    due: int
    attempt: int
    status: Status
    why: str
    begun_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    counts: bool = True
    retry_at: float | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells it apart."""
        return self.lane, self.due, self.attempt


class LedgerAwayError(SpyreCiError):
    """The ledger cannot be used now, such as on a full disk; another time may do."""

    exit_code = EXIT_INCOMPLETE


class Ledger:
    """The ledger in a file, which is made where it is not found.

    Args:
        path: of the file.
        synchronous: SQLite's setting; by default a note stays when the power goes.

    Every method raises LedgerAwayError where the file cannot be used now, BadFileError where it is no ledger.
    """

    def __init__(self, path: Path, *, synchronous: str = "FULL") -> None:
        self.path, self._synchronous = path, synchronous

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            with contextlib.closing(file):
                file.row_factory = sqlite3.Row
                self._prepare(file)
                file.execute(f"PRAGMA synchronous = {self._synchronous}")
                file.execute(begin)
                yield file
                file.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise LedgerAwayError(
                f"the ledger of lanes cannot be used: {error}",
                where=self.path,
                remedy="free space on its disk, or check the folder's rights and that its disk is local",
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._foreign(str(error)) from error

    def _prepare(self, file: sqlite3.Connection) -> None:
        names = ("application_id", "user_version", "schema_version")
        application, version, schema = (file.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        if (application, version) == (APPLICATION_ID, VERSION):
            return
        if schema:
            raise self._foreign(f"a database of another program or version ({version})")
        file.executescript(_TABLES)

    def _foreign(self, found: str) -> BadFileError:
        remedy = (
            "set `state` to another folder, or move this file away: lanes then start as if they never ran"
        )
        return BadFileError(f"is not a ledger of lanes: {found}", where=self.path, remedy=remedy)

    def set_back(self, now: float) -> None:
        """Let what lies ahead of a clock that went back be of now; a run that waits is tried at once."""
        with self._transaction() as file:
            file.execute("UPDATE lanes SET looked = ? WHERE looked > ?", (now, now))
            waits = "retry_at IS NOT NULL AND ended_at > ?"
            file.execute(f"UPDATE attempts SET retry_at = ? WHERE {waits}", (now, now))  # noqa: S608  # ours
            file.execute("UPDATE attempts SET ended_at = ? WHERE ended_at > ?", (now, now))

    def states(self, now: float) -> dict[str, LaneState]:
        """What is known of each lane, for a look at the clock."""
        with self._reading() as file:
            looked = {row["lane"]: row["looked"] for row in file.execute("SELECT * FROM lanes")}
            ends = "SELECT lane, max(ended_at) AS at FROM attempts WHERE retry_at IS NULL GROUP BY lane"
            last_end = {row["lane"]: row["at"] for row in file.execute(ends)}
            runs = {
                row["lane"]: OpenRun(due=row["due"], tries=row["tries"], retry_at=row["retry_at"])
                for row in file.execute(_OPEN)
            }
            begun: dict[str, set[int]] = {}
            since = min([now, *(at for at in [*looked.values(), *last_end.values()] if at is not None)])
            recent = "SELECT DISTINCT lane, due FROM attempts WHERE attempt > 0 AND due >= ?"
            for row in file.execute(recent, (since - MOST_BACK_S,)):
                begun.setdefault(row["lane"], set()).add(row["due"])
        return {
            lane: LaneState(
                looked=looked.get(lane),
                last_end=last_end.get(lane),
                begun=frozenset(begun.get(lane, ())),
                open=runs.get(lane),
            )
            for lane in looked.keys() | last_end.keys()
        }

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """A transaction that a full disk does not hinder."""
        return self._transaction("BEGIN")

    def note(self, decision: Decision, now: float) -> list[Attempt]:
        """Note what a look at the clock came to; the attempts that are to be started."""
        with self._transaction() as file:
            rows = decision.looked.items()
            file.executemany("INSERT OR REPLACE INTO lanes (lane, looked) VALUES (?, ?)", rows)
            for note in decision.skip:
                file.execute(
                    "INSERT OR REPLACE INTO attempts (lane, due, attempt, status, why, begun_at, counts) "
                    "VALUES (?, ?, 0, 'skipped', ?, ?, 0)",
                    (note.lane, note.due, note.why, now),
                )
            for note in decision.give_up:
                file.execute(
                    "UPDATE attempts SET retry_at = NULL, ended_at = ? WHERE lane = ? AND due = ?",
                    (now, note.lane, note.due),
                )
            return [self._begin(file, note.lane, note.due, note.why, now) for note in decision.begin]

    @staticmethod
    def _begin(file: sqlite3.Connection, lane: str, due: int, why: str, now: float) -> Attempt:
        run = (lane, due)
        file.execute("INSERT OR IGNORE INTO lanes (lane) VALUES (?)", (lane,))
        file.execute("DELETE FROM attempts WHERE lane = ? AND due = ? AND attempt = 0", run)
        file.execute("UPDATE attempts SET retry_at = NULL WHERE lane = ? AND due = ?", run)
        last = file.execute("SELECT max(attempt) FROM attempts WHERE lane = ? AND due = ?", run).fetchone()[0]
        attempt = Attempt(
            lane=lane, due=due, attempt=(last or 0) + 1, status=Status.RUNNING, why=why, begun_at=now
        )
        file.execute(
            "INSERT INTO attempts (lane, due, attempt, status, why, begun_at) VALUES (?, ?, ?, ?, ?, ?)",
            (*attempt.key, attempt.status, why, now),
        )
        return attempt

    def tries(self, attempt: Attempt) -> int:
        """How many attempts of its run count, with this one."""
        with self._reading() as file:
            counted = "SELECT sum(counts) FROM attempts WHERE lane = ? AND due = ?"
            return int(file.execute(counted, attempt.key[:2]).fetchone()[0])

    def ended(self, attempt: Attempt) -> None:
        """Note an attempt's end."""
        with self._transaction() as file:
            file.execute(
                "UPDATE attempts SET status = ?, ended_at = ?, exit_code = ?, reason = ?, counts = ?, "
                "retry_at = ? WHERE lane = ? AND due = ? AND attempt = ?",
                (
                    attempt.status,
                    attempt.ended_at,
                    attempt.exit_code,
                    attempt.reason,
                    attempt.counts,
                    attempt.retry_at,
                    *attempt.key,
                ),
            )

    def running(self) -> list[Attempt]:
        """Attempts whose end nobody has seen, the oldest first."""
        with self._reading() as file:
            rows = file.execute("SELECT * FROM attempts WHERE status = 'running' ORDER BY begun_at, lane")
            return _attempts(rows)

    def history(self, lanes: Sequence[str] | None, limit: int) -> list[list[Attempt]]:
        """The last runs and skipped times of some lanes, or of all, the newest first, as their attempts."""
        names = None if lanes is None else json.dumps(lanes)
        with self._reading() as file:
            rows = file.execute(
                "SELECT attempts.* FROM attempts JOIN (SELECT DISTINCT lane, due FROM attempts "
                "WHERE ? IS NULL OR lane IN (SELECT value FROM json_each(?)) "
                "ORDER BY due DESC, lane LIMIT ?) USING (lane, due) ORDER BY due DESC, lane, attempt",
                (names, names, limit),
            )
            runs = itertools.groupby(_attempts(rows), key=lambda one: (one.lane, one.due))
            return [list(run) for _, run in runs]

    def prune(self, before: float) -> list[Attempt]:
        """Forget what was over before a time, but for each lane's last run; what was forgotten."""
        with self._transaction() as file:
            return _attempts(file.execute(_FORGET, (before,)))


def _attempts(rows: Sequence[Mapping[str, object]] | sqlite3.Cursor) -> list[Attempt]:
    found = [dict(row) for row in rows]
    return [
        Attempt(**{**row, "status": Status(row["status"]), "counts": bool(row["counts"])}) for row in found
    ]
