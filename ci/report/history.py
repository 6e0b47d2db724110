"""The history of runs: one SQLite file, written by `report` alone, read through exported durations.

Names of tests and files are stored as JSON writes them (without the quotes): for nearly all that is the
name itself, and names that are no valid UTF-8 come back exactly as they were.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ci.errors import BadFileError, MissingInputError, SpyreCiError
from ci.report.identity import RunIdentity
from ci.report.verdict import Result
from test_selection.durations import Durations

VERSION = 1
LAST_RUNS = 10
BUSY_TIMEOUT_S = 30.0
DAY_S = 24 * 3600
_TABLES = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    run_id INTEGER NOT NULL,
    run_attempt INTEGER NOT NULL,
    lane TEXT NOT NULL,
    device TEXT NOT NULL,
    stage INTEGER,
    percent REAL NOT NULL,
    pytorch_version TEXT NOT NULL,
    pytorch_sha TEXT NOT NULL,
    started_at REAL NOT NULL,
    UNIQUE (run_id, run_attempt, run)
);
CREATE TABLE tests (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE results (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    test INTEGER NOT NULL REFERENCES tests (number),
    verdict TEXT NOT NULL,
    seconds REAL NOT NULL,
    card TEXT,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (test, run)
) WITHOUT ROWID;
CREATE INDEX results_of_run ON results (run);
CREATE TABLE setups (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    file TEXT NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (file, run)
) WITHOUT ROWID;
CREATE INDEX setups_of_run ON setups (run);
"""
_LAST = """
SELECT name, seconds FROM (
    SELECT {name} AS name, {table}.seconds AS seconds,
           row_number() OVER (PARTITION BY {name} ORDER BY runs.started_at DESC, runs.number DESC) AS place
    FROM {table} JOIN runs ON runs.number = {table}.run {join}
    WHERE (:device IS NULL OR runs.device = :device) {only}
) WHERE place <= :last ORDER BY name
"""
_LAST_TESTS = _LAST.format(
    table="results",
    name="tests.name",
    join="JOIN tests ON tests.number = results.test",
    only="AND results.verdict = 'passed'",
)
_FAILURES = """
SELECT tests.name, AVG(results.verdict IN ('failed', 'flaky'))
FROM results JOIN runs ON runs.number = results.run JOIN tests ON tests.number = results.test
WHERE runs.device = :device AND results.verdict IN ('passed', 'failed', 'flaky')
GROUP BY tests.number HAVING MAX(results.verdict IN ('failed', 'flaky')) ORDER BY tests.name
"""
_LAST_SETUPS = _LAST.format(table="setups", name="setups.file", join="", only="")


def record(
    path: Path, identity: RunIdentity, results: Iterable[Result], file_setups: Mapping[str, Sequence[float]]
) -> None:
    """Write a run into the history; the same run again replaces what it wrote before (law 6).

    Args:
        path: the store; it is made where it is not there.
        identity: who the run is.
        results: every planned test's verdict.
        file_setups: by file, the seconds of each time it was set up; the median is kept.

    Raises:
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: the file cannot be written, or another process holds it for too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _store(path) as store:
        number = _replace_run(store, identity)
        rows = [(one, _stored(one.id)) for one in results]
        store.executemany("INSERT OR IGNORE INTO tests (name) VALUES (?)", ((name,) for _, name in rows))
        store.executemany(
            "INSERT INTO results SELECT ?, number, ?, ?, ?, ? FROM tests WHERE name = ?",
            (
                (
                    number,
                    one.verdict.value,
                    one.seconds,
                    None if one.card is None else _stored(one.card),
                    one.attempts,
                    name,
                )
                for one, name in rows
            ),
        )
        store.executemany(
            "INSERT INTO setups VALUES (?, ?, ?)",
            (
                (number, _stored(file), statistics.median(times))
                for file, times in file_setups.items()
                if times
            ),
        )


def export_durations(path: Path, *, device: str | None = None) -> Durations:
    """Median seconds of each test's last ten passing runs, and of each file's last ten set-ups.

    Args:
        path: the store.
        device: only runs on this device; None takes all.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    _must_exist(path)
    with _store(path) as store:
        wanted = {"device": device, "last": LAST_RUNS}
        return Durations(
            tests=_medians(store.execute(_LAST_TESTS, wanted)),
            files=_medians(store.execute(_LAST_SETUPS, wanted)),
        )


def failure_shares(path: Path, *, device: str) -> dict[str, float]:
    """Of a test's runs on a device that passed, failed or were flaky, the share that did not simply pass.

    Tests that always passed are left out.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    _must_exist(path)
    with _store(path) as store:
        return {_original(name): share for name, share in store.execute(_FAILURES, {"device": device})}


def prune(path: Path, keep_days: int, now: float) -> int:
    """Take runs that started more than `keep_days` before `now` (seconds since the epoch) out of the history.

    Returns:
        How many runs left.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    _must_exist(path)
    with _store(path) as store:
        gone = store.execute("DELETE FROM runs WHERE started_at < ?", (now - keep_days * DAY_S,)).rowcount
        store.execute("DELETE FROM tests WHERE number NOT IN (SELECT test FROM results)")
    return gone


@contextlib.contextmanager
def _store(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction on the store: all of it or nothing."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as store:
            # Readers go on while a report is written.
            store.execute("PRAGMA journal_mode = WAL")
            store.execute("PRAGMA foreign_keys = ON")
            store.execute("BEGIN IMMEDIATE")
            _prepare(store, path)
            yield store
            store.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise SpyreCiError(
            f"the history cannot be used: {error}",
            where=path,
            remedy="check the folder's rights and disk, or try again when no other report is written",
        ) from error
    except sqlite3.DatabaseError as error:
        raise BadFileError(
            f"is not a history of runs: {error}",
            where=path,
            remedy="set `history.path` to another file, or move this one away",
        ) from error


def _prepare(store: sqlite3.Connection, path: Path) -> None:
    (version,) = store.execute("PRAGMA user_version").fetchone()
    if version == 0:
        for statement in _TABLES.split(";"):
            store.execute(statement)
        store.execute(f"PRAGMA user_version = {VERSION}")
    elif version != VERSION:
        raise BadFileError(
            f"is a history of version {version}, not {VERSION}",
            where=path,
            remedy="use the spyre-ci that wrote it, or set `history.path` to another file",
        )


def _replace_run(store: sqlite3.Connection, identity: RunIdentity) -> int:
    store.execute("DELETE FROM runs WHERE (run_id, run_attempt, run) = (?, ?, ?)", identity.key)
    cursor = store.execute(
        "INSERT INTO runs (run, run_id, run_attempt, lane, device, stage, percent, pytorch_version, "
        "pytorch_sha, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            identity.run,
            identity.run_id,
            identity.run_attempt,
            identity.lane,
            identity.device,
            identity.stage,
            identity.percent,
            identity.pytorch_version,
            identity.pytorch_sha,
            identity.started_at,
        ),
    )
    if cursor.lastrowid is None:  # pragma: no cover  # an INSERT always has one
        raise RuntimeError("the run got no row")
    return cursor.lastrowid


def _medians(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for name, seconds in rows:
        found.setdefault(name, []).append(seconds)
    return {_original(name): statistics.median(times) for name, times in found.items()}


def _stored(name: str) -> str:
    return json.dumps(name)[1:-1]


def _original(stored: str) -> str:
    return str(json.loads(f'"{stored}"'))


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise MissingInputError(
            "there is no history yet", where=path, remedy="it is made by the first `spyre-ci report`"
        )
