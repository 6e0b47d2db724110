"""The history of runs: one SQLite file, written by `report`, read through exported durations.

Seconds of another checkout or machine, and PyTorch's class times, are kept beside the runs, not among them:
a run of our own is worth more than any of them. A run that was reported elsewhere is a run of the history.
"""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ci.core.errors import BadFileError
from ci.record.identity import RunIdentity
from ci.record.journal import gathered_journals
from ci.record.result import Result
from ci.record.run_state import replay
from ci.report.history_store import must_exist, open_store, original, read_store, stored
from ci.report.results import RESULTS_FILE, SUMMARY_FILE, read_results, read_summary
from test_selection.durations import MAX_S, Durations
from test_selection.estimates import SPREAD_AT, quantile

_TABLES = ("imported_tests", "imported_setups", "imported_classes")
LAST_RUNS = 10
DAY_S = 24 * 3600
# SQLite's whole numbers end here.
_MOST = 2**63 - 1
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
    with open_store(path) as store:
        number = _replace_run(store, identity)
        rows = [(one, stored(one.id)) for one in results]
        store.executemany("INSERT OR IGNORE INTO tests (name) VALUES (?)", ((name,) for _, name in rows))
        store.executemany(
            "INSERT INTO results SELECT ?, number, ?, ?, ?, ? FROM tests WHERE name = ?",
            (
                (number, one.verdict.value, one.seconds, one.card and stored(one.card), one.attempts, name)
                for one, name in rows
            ),
        )
        store.executemany(
            "INSERT INTO setups VALUES (?, ?, ?)",
            (
                (number, stored(file), statistics.median(times))
                for file, times in file_setups.items()
                if times
            ),
        )


def export_durations(path: Path, *, device: str | None = None) -> Durations:
    """Median and 95th percentile of each test's last ten passing runs, and of each file's last ten set-ups.

    What no run has measured comes from what was imported.

    Args:
        path: the store.
        device: only runs on this device; None takes all.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    with read_store(path) as store:
        wanted = {"device": device, "last": LAST_RUNS}
        tests = _by_name(store.execute(_LAST_TESTS, wanted))
        files = _by_name(store.execute(_LAST_SETUPS, wanted))
        told = imported_durations(store, device)
    return Durations(
        tests={**told.tests, **_medians(tests)},
        files={**told.files, **_medians(files)},
        # A spread belongs to the runs its median is of.
        spread={
            **{name: seconds for name, seconds in told.spread.items() if name not in tests},
            **{name: quantile(times, SPREAD_AT) for name, times in tests.items()},
        },
        classes=told.classes,
    )


def failure_shares(path: Path, *, device: str) -> dict[str, float]:
    """Of a test's runs on a device that passed, failed or were flaky, the share that did not simply pass.

    Tests that always passed are left out.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    with read_store(path) as store:
        return {original(name): share for name, share in store.execute(_FAILURES, {"device": device})}


def prune(
    path: Path,
    keep_days: int,
    now: float,
    *,
    dry_run: bool = False,
    keeps: Callable[[str, int], bool] = lambda _run, _run_id: False,
) -> int:
    """Take runs that started more than `keep_days` before `now` (seconds since the epoch) out of the history.

    Args:
        path: the store.
        keep_days: what is younger stays.
        now: seconds since the epoch.
        dry_run: only count them.
        keeps: whether a run stays however old, by its readable id, behind workflow and lane where a CI ran
            it, and its number.

    Returns:
        How many runs left, or would leave.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    before = now - keep_days * DAY_S
    if dry_run:
        with read_store(path) as store:
            return len(_old(store, before, keeps))
    must_exist(path)
    with open_store(path) as store:
        gone = _old(store, before, keeps)
        store.executemany("DELETE FROM runs WHERE number = ?", ((number,) for number in gone))
        store.execute("DELETE FROM tests WHERE number NOT IN (SELECT test FROM results)")
    return len(gone)


def _old(store: sqlite3.Connection, before: float, keeps: Callable[[str, int], bool]) -> list[int]:
    rows = store.execute("SELECT number, run, run_id FROM runs WHERE started_at < ?", (before,))
    return [number for number, run, run_id in rows if not keeps(run, run_id)]


def _replace_run(store: sqlite3.Connection, identity: RunIdentity) -> int:
    store.execute("DELETE FROM runs WHERE (run_id, run_attempt, run) = (?, ?, ?)", identity.key)
    kept = ("lane", "device", "stage", "percent", "pytorch_version", "pytorch_sha", "started_at", "commit")
    cursor = store.execute(
        "INSERT INTO runs (run_id, run_attempt, run, lane, device, stage, percent, pytorch_version, "
        "pytorch_sha, started_at, checkout) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*identity.key, *(getattr(identity, name) for name in kept)),
    )
    if cursor.lastrowid is None:  # pragma: no cover  # an INSERT always has one
        raise RuntimeError("the run got no row")
    return cursor.lastrowid


def _by_name(rows: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, seconds in rows:
        found.setdefault(original(name), []).append(seconds)
    return found


def _medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def import_durations(path: Path, durations: Durations, *, device: str) -> None:
    """Keep exported durations for a device; names that are there already are replaced.

    Raises:
        BadFileError: the store is no history, or one of a newer version.
        SpyreCiError: the store cannot be written, or another process holds it for too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_store(path) as store:
        store.executemany(
            "INSERT OR REPLACE INTO imported_tests VALUES (?, ?, ?, ?)",
            (
                (device, stored(name), seconds, durations.spread.get(name))
                for name, seconds in durations.tests.items()
            ),
        )
        store.executemany(
            "INSERT OR REPLACE INTO imported_setups VALUES (?, ?, ?)",
            ((device, stored(file), seconds) for file, seconds in durations.files.items()),
        )
        _keep_classes(store, durations.classes)


def import_classes(path: Path, classes: Mapping[str, float]) -> None:
    """Keep the seconds of whole classes, by `file::Class`; names that are there already are replaced.

    Raises:
        BadFileError: the store is no history, or one of a newer version.
        SpyreCiError: the store cannot be written, or another process holds it for too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_store(path) as store:
        _keep_classes(store, classes)


def forget_imports(path: Path, *, dry_run: bool = False) -> int:
    """Drop all that was imported, or only count it, and return how many names that are.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the store is no history, or one of a newer version.
        SpyreCiError: another process holds the store for too long.
    """
    if dry_run:
        with read_store(path) as store:
            count = "SELECT count(*) FROM "
            return sum(store.execute(count + table).fetchone()[0] for table in _TABLES)
    must_exist(path)
    with open_store(path) as store:
        return sum(store.execute(f"DELETE FROM {table}").rowcount for table in _TABLES)  # noqa: S608  # our own names


def imported_durations(store: sqlite3.Connection, device: str | None) -> Durations:
    """All that was imported for a device; None takes every device, the greatest seconds of a name."""
    only = "WHERE :device IS NULL OR device = :device"
    wanted = {"device": device}
    tests = store.execute(
        f"SELECT name, max(seconds), max(spread) FROM imported_tests {only} GROUP BY name ORDER BY name",  # noqa: S608  # the same
        wanted,
    ).fetchall()
    setups = store.execute(
        f"SELECT file, max(seconds) FROM imported_setups {only} GROUP BY file ORDER BY file",  # noqa: S608  # the same
        wanted,
    )
    classes = store.execute("SELECT name, seconds FROM imported_classes ORDER BY name")
    return Durations(
        tests={original(name): seconds for name, seconds, _ in tests},
        files={original(file): seconds for file, seconds in setups},
        spread={original(name): spread for name, _, spread in tests if spread is not None},
        classes={original(name): seconds for name, seconds in classes},
    )


def _keep_classes(store: sqlite3.Connection, classes: Mapping[str, float]) -> None:
    store.executemany(
        "INSERT OR REPLACE INTO imported_classes VALUES (?, ?)",
        ((stored(name), seconds) for name, seconds in classes.items()),
    )


def import_run(path: Path, folder: Path, *, now: float, run: str = "", lane: str = "") -> RunIdentity:
    """Write a run into the history as its own report did elsewhere; again changes nothing (law 6).

    Where its journals came along, what its files took to set up is kept as well.

    Args:
        path: the store.
        folder: of the run, with its summary and results.
        now: seconds since the epoch.
        run: what it is known by here; empty: as its report has it.
        lane: it was begun for; empty: as its report has it.

    Raises:
        MissingInputError: there is no summary, or there are no results.
        BadFileError: one of them is not what it has to be, or the store is no history.
        SpyreCiError: the store cannot be written, or another process holds it for too long.
    """
    identity = read_summary(folder / SUMMARY_FILE).identity
    identity = replace(identity, run=run or identity.run, lane=lane or identity.lane)
    results = read_results(folder / RESULTS_FILE)
    _check_run(identity, results, folder, now)
    setups: dict[str, list[float]] = {}
    for journal in gathered_journals(folder):
        for group in replay(journal.shard, journal.attempt, journal.events).groups:
            if group.setup_s is not None and group.setup_s < MAX_S:
                setups.setdefault(group.file, []).append(group.setup_s)
    record(path, identity, results, setups)
    return identity


def _check_run(identity: RunIdentity, results: Sequence[Result], folder: Path, now: float) -> None:
    """Refuse what would stand in the way of every plan that is made of the history.

    Raises:
        BadFileError: a value is none that a run can have.
    """
    bounded = {
        "run_id": 1 <= identity.run_id <= _MOST,
        "run_attempt": 1 <= identity.run_attempt <= _MOST,
        "stage": identity.stage is None or 0 <= identity.stage <= _MOST,
        "percent": 0 <= identity.percent <= 100,  # noqa: PLR2004  # a share
        # Of a later run than all that come, no plan would ever get rid.
        "started_at": 0 <= identity.started_at <= now + DAY_S,
    }
    for name, good in bounded.items():
        if not good:
            raise _not_of_a_run(folder / SUMMARY_FILE, f"{name} is {getattr(identity, name)!r:.40}")
    for number, one in enumerate(results, start=2):
        if not (0 <= one.attempts <= _MOST and 0 <= one.seconds < MAX_S):
            seen = f"{one.id!r:.80}, {one.seconds!r:.40} s, attempts {one.attempts!r:.40}"
            raise _not_of_a_run(f"{folder / RESULTS_FILE}:{number}", f"a result is {seen}")


def _not_of_a_run(where: Path | str, what: str) -> BadFileError:
    return BadFileError(
        f"{what}, which no run can have", where=where, remedy="report the run again with `spyre-ci report`"
    )
