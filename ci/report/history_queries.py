"""Ask the history: what it holds by device, what one test came to in a lane, and what tests took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ci.report.history import LAST_RUNS
from ci.report.history_store import original, read_store, stored

_OUTCOMES = """
SELECT runs.pytorch_sha, results.verdict, results.attempts, runs.started_at
FROM results JOIN runs ON runs.number = results.run JOIN tests ON tests.number = results.test
WHERE tests.name = :test AND runs.device = :device AND runs.lane = :lane
ORDER BY runs.started_at, runs.number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastOutcome:
    """What became of a test in a run.

    Attributes:
        sha: PyTorch's commit.
        verdict: of the test.
        attempts: how often it was started.
        at: when the run began, seconds since the epoch.
    """

    sha: str
    verdict: str
    attempts: int
    at: float


def past_outcomes(path: Path, *, test: str, device: str, lane: str) -> list[PastOutcome]:
    """The outcomes of a test in a lane, the oldest first.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: the file cannot be used.
    """
    with read_store(path) as store:
        rows = store.execute(_OUTCOMES, {"test": stored(test), "device": device, "lane": lane}).fetchall()
    return [
        PastOutcome(sha=original(sha), verdict=verdict, attempts=attempts, at=at)
        for sha, verdict, attempts, at in rows
    ]


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


_LAST = """
SELECT results.seconds FROM results
JOIN runs ON runs.number = results.run JOIN tests ON tests.number = results.test
WHERE tests.name = :name AND runs.device = :device AND runs.started_at <= :until
    AND results.verdict = 'passed'
ORDER BY runs.started_at DESC, runs.number DESC LIMIT :last
"""


def past_seconds(path: Path, *, device: str, until: float, names: Iterable[str]) -> dict[str, list[float]]:
    """By test, the seconds of its last ten passing runs, the newest first; tests without any are left out.

    Args:
        path: the store.
        device: only runs on this device.
        until: only runs that began then or earlier, in seconds since the epoch.
        names: canonical ids.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    found = {}
    with read_store(path) as store:
        for name in names:
            wanted = {"name": stored(name), "device": device, "until": until, "last": LAST_RUNS}
            if times := [seconds for (seconds,) in store.execute(_LAST, wanted)]:
                found[name] = times
    return found
