"""What the history holds, counted by device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ci.report.history_store import read_store

_RUNS = """
SELECT device, count(*), min(started_at), max(started_at),
       (SELECT count(DISTINCT test) FROM results JOIN runs AS one ON one.number = results.run
        WHERE one.device = runs.device AND verdict = 'passed')
FROM runs GROUP BY device
"""
_IMPORTED = "SELECT device, count(*) FROM imported_tests GROUP BY device"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHistory:
    """The runs of one device.

    Attributes:
        device: its name.
        runs: how many there are.
        tests: how many tests have a measured time.
        imported: how many tests have an imported time.
        oldest: start of the first run, seconds since the epoch; None without a run.
        newest: start of the last run.
    """

    device: str
    runs: int = 0
    tests: int = 0
    imported: int = 0
    oldest: float | None = None
    newest: float | None = None


def overview(path: Path) -> tuple[list[DeviceHistory], int]:
    """Count what is there: a row a device, sorted, and how many classes have an imported time.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    with read_store(path) as store:
        runs = {row[0]: row[1:] for row in store.execute(_RUNS)}
        imported = dict(store.execute(_IMPORTED).fetchall())
        (classes,) = store.execute("SELECT count(*) FROM imported_classes").fetchone()
    rows = []
    for device in sorted({*runs, *imported}):
        count, oldest, newest, tests = runs.get(device, (0, None, None, 0))
        rows.append(
            DeviceHistory(
                device=device,
                runs=count,
                tests=tests,
                imported=imported.get(device, 0),
                oldest=oldest,
                newest=newest,
            )
        )
    return rows, classes
