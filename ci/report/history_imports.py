"""What the history was told from outside: seconds of another checkout or machine, and PyTorch's class times.

They are kept beside the runs, not among them: a run of our own is worth more than any of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from ci.report.history_store import must_exist, open_store, original, read_store, stored
from test_selection.durations import Durations

_TABLES = ("imported_tests", "imported_setups", "imported_classes")


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
