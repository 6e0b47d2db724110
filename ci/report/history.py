"""The history of runs: what planning, comparing and bisecting ask the store of results.

A run is a job of the store that says its device. Seconds of another checkout or machine, and PyTorch's class
times, are kept beside the runs: a run of our own is worth more than any of them.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, MissingInputError, SpyreCiError
from ci.store.database import Database, SqliteDatabase, StoreUnavailableError, moment, unusable
from ci.store.identity import key_of_test, original, stored
from ci.store.store import Store
from test_selection.durations import Durations
from test_selection.estimates import SPREAD_AT, quantile

LAST_RUNS = 10
DAY_S = 24 * 3600
_IMPORTS = ("imported_test", "imported_setup", "imported_class")
# SQLite takes a CROSS JOIN in the order it is written: the jobs, then the rows of each by an index.
JOBS = """
    SELECT j.id AS o_run, j.workflow_id AS o_workflow, j.run_attempt AS o_attempt, j.job_id AS o_job,
        j.started_at AS o_started, j.pytorch_head_sha AS o_sha, d.pytorch AS o_version,
        d.checkout AS o_checkout
    FROM crcr_workflow_job_ranked AS j JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey
    WHERE d.device != '' AND (:device = '' OR d.device = :device) AND (:lane = '' OR d.lane = :lane)
        AND j.started_at >= :since AND j.started_at <= :until
"""
OF_JOBS = """
    FROM jobs AS b CROSS JOIN settled_test_run AS t
    WHERE t.workflow_id = b.o_workflow AND t.workflow_run_attempt = b.o_attempt AND t.job_id = b.o_job
"""
_LAST = f"""
WITH jobs AS ({JOBS}), timed AS (
    SELECT t.test_key AS o_key, t.test_id AS o_name, t.time AS o_seconds,
        row_number() OVER (PARTITION BY t.test_key ORDER BY b.o_started DESC, b.o_run DESC) AS standing
    {OF_JOBS} AND t.verdict = 'passed'
)
SELECT o_name, o_seconds FROM timed WHERE standing <= :last ORDER BY o_name, standing
"""  # noqa: S608  # our names
_LAST_OF_SOME = f"""
WITH jobs AS ({JOBS})
SELECT t.time FROM jobs AS b JOIN settled_test_run AS t
    ON t.workflow_id = b.o_workflow AND t.workflow_run_attempt = b.o_attempt AND t.job_id = b.o_job
WHERE t.test_key = :key AND t.verdict = 'passed' ORDER BY b.o_started DESC, b.o_run DESC LIMIT :last
"""  # noqa: S608  # the same
_FAILURES = f"""
WITH jobs AS ({JOBS})
SELECT min(t.test_id) AS o_name, sum(CASE WHEN t.verdict = 'passed' THEN 0 ELSE 1 END) AS bad,
    count(*) AS all_runs
{OF_JOBS} AND t.verdict IN ('passed', 'failed', 'flaky')
GROUP BY t.test_key HAVING sum(CASE WHEN t.verdict = 'passed' THEN 0 ELSE 1 END) > 0 ORDER BY o_name
"""  # the same
_OUTCOMES = f"""
WITH jobs AS ({JOBS})
SELECT b.o_sha, t.verdict, t.attempts, b.o_started FROM jobs AS b JOIN settled_test_run AS t
    ON t.workflow_id = b.o_workflow AND t.workflow_run_attempt = b.o_attempt AND t.job_id = b.o_job
WHERE t.test_key = :key ORDER BY b.o_started, b.o_run
"""  # noqa: S608  # the same
_LAST_SETUPS = f"""
WITH jobs AS ({JOBS}), timed AS (
    SELECT s.file AS o_file, s.seconds AS o_seconds,
        row_number() OVER (PARTITION BY s.file ORDER BY b.o_started DESC, b.o_run DESC) AS standing
    FROM jobs AS b JOIN file_setup AS s ON s.workflow_id = b.o_workflow
        AND s.workflow_run_attempt = b.o_attempt AND s.job_id = b.o_job
)
SELECT o_file, o_seconds FROM timed WHERE standing <= :last ORDER BY o_file, standing
"""  # noqa: S608  # the same
_DEVICES = """
SELECT d.device AS o_device, count(*) AS all_runs,
    min(CASE WHEN j.started_at = '' THEN NULL ELSE j.started_at END) AS oldest, max(j.started_at) AS newest
FROM crcr_workflow_job_ranked AS j JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey
WHERE d.device != '' GROUP BY d.device
"""
_TIMED = f"WITH jobs AS ({JOBS}) SELECT count(DISTINCT t.test_key) {OF_JOBS} AND t.verdict = 'passed'"


@dataclass(frozen=True, slots=True)
class History:
    """The store of results, to be asked for past runs; it need not be there yet.

    Attributes:
        path: of its SQLite file.
        opens: opens what keeps the tests; None: the file as well.
    """

    path: Path
    opens: Callable[[], AbstractContextManager[Database]] | None = None

    @property
    def there(self) -> bool:
        """Whether anything was ever written."""
        return _is_written(self.path)

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[Database, Database]]:
        """What answers for tests, and the file itself.

        Raises:
            MissingInputError: there is no history yet.
            BadFileError: the file is no store, or one of another version.
            SpyreCiError: it cannot be used, or what keeps the tests does not answer.
        """
        must_exist(self.path)
        with told(self.path):
            file = SqliteDatabase(self.path)
            file.check()
            with contextlib.nullcontext(file) if self.opens is None else self.opens() as answers:
                yield answers, file

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the file, which is made where it is not found.

        Raises:
            BadFileError: the file is no store, or cannot take what it is given.
            SpyreCiError: it cannot be used, or another process holds it for too long.
        """
        with (
            told(self.path),
            contextlib.closing(Store(self.path)) as store,
            store.transaction() as connection,
        ):
            yield connection


def must_exist(path: Path) -> None:
    """Refuse to read what was never written.

    Raises:
        MissingInputError: there is no history yet.
    """
    if not _is_written(path):
        raise MissingInputError(
            "there is no history yet",
            where=path,
            remedy="it is made by the first `spyre-ci report` or `spyre-ci history import`",
        )


def _is_written(path: Path) -> bool:
    # One whose maker was killed before its first table is empty.
    return path.is_file() and path.stat().st_size > 0


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """SQLite's errors in words for people."""
    try:
        yield
    except StoreUnavailableError as error:
        raise SpyreCiError(
            f"the store of results does not answer: {error}",
            where=path,
            remedy="check that ClickHouse runs (store.clickhouse), or try again",
        ) from error
    except (sqlite3.InterfaceError, sqlite3.ProgrammingError, OverflowError, UnicodeEncodeError) as error:
        raise BadFileError(
            f"refused the rows, and is unchanged: {error}",
            where=path,
            remedy="the store is intact; check the run that is reported or imported",
        ) from error
    except sqlite3.Error as error:
        raise unusable(error, path) from error


def asked(
    *, device: str = "", lane: str = "", since: float = 0.0, until: float | None = None
) -> dict[str, Any]:
    """What the conditions of JOBS bind; times are seconds since the epoch."""
    return {
        "device": device,
        "lane": lane,
        "since": moment(since),
        "until": "9999" if until is None else moment(until),
    }


def epoch_of(text: str) -> float:
    """A time of a row in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def export_durations(history: History, *, device: str | None = None) -> Durations:
    """Median and 95th percentile of each test's last ten passing runs, and of each file's last ten set-ups.

    What no run has measured comes from what was imported.

    Args:
        history: of runs.
        device: only runs on this device; None takes all.

    Raises:
        MissingInputError: there is no history yet.
        SpyreCiError: as `History.reading` says.
    """
    wanted = {**asked(device=device or ""), "last": LAST_RUNS}
    with history.reading() as (answers, file):
        tests = _by_name(answers.tuples(_LAST, wanted))
        files = _by_name((original(name), took) for name, took in file.tuples(_LAST_SETUPS, wanted))
        imported = imported_durations(file, device)
    return Durations(
        tests={**imported.tests, **_medians(tests)},
        files={**imported.files, **_medians(files)},
        # A spread belongs to the runs its median is of.
        spread={
            **{name: seconds for name, seconds in imported.spread.items() if name not in tests},
            **{name: quantile(times, SPREAD_AT) for name, times in tests.items()},
        },
        classes=imported.classes,
    )


def failure_shares(history: History, *, device: str) -> dict[str, float]:
    """Of a test's runs on a device that passed, failed or were flaky, the share that did not simply pass.

    Tests that always passed are left out.

    Raises:
        MissingInputError: there is no history yet.
        SpyreCiError: as `History.reading` says.
    """
    with history.reading() as (answers, _):
        return {name: bad / number for name, bad, number in answers.tuples(_FAILURES, asked(device=device))}


def past_seconds(
    history: History, *, device: str, until: float, names: Iterable[str]
) -> dict[str, list[float]]:
    """By test, the seconds of its last ten passing runs, the newest first; tests without any are left out.

    Args:
        history: of runs.
        device: only runs on this device.
        until: only runs that began then or earlier, in seconds since the epoch.
        names: test ids.

    Raises:
        MissingInputError: there is no history yet.
        SpyreCiError: as `History.reading` says.
    """
    wanted = {**asked(device=device, until=until), "last": LAST_RUNS}
    with history.reading() as (answers, _):
        found = {name: answers.tuples(_LAST_OF_SOME, {**wanted, "key": key_of_test(name)}) for name in names}
    return {name: [seconds for (seconds,) in rows] for name, rows in found.items() if rows}


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


def past_outcomes(history: History, *, test: str, device: str, lane: str) -> list[PastOutcome]:
    """The outcomes of a test in a lane, the oldest first.

    Raises:
        MissingInputError: there is no history yet.
        SpyreCiError: as `History.reading` says.
    """
    with history.reading() as (answers, _):
        rows = answers.tuples(_OUTCOMES, {**asked(device=device, lane=lane), "key": key_of_test(test)})
    return [
        PastOutcome(sha=sha, verdict=verdict, attempts=attempts, at=epoch_of(started))
        for sha, verdict, attempts, started in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHistory:
    """The runs of one device.

    Attributes:
        device: its name.
        runs: how many there are.
        tests: how many tests have a measured time.
        imported: how many tests have an imported time.
        oldest: start of the first run, seconds since the epoch; None where no run says one.
        newest: start of the last run.
    """

    device: str
    runs: int = 0
    tests: int = 0
    imported: int = 0
    oldest: float | None = None
    newest: float | None = None


def overview(history: History) -> tuple[list[DeviceHistory], int]:
    """Count what is there: a row a device, sorted, and how many classes have an imported time.

    Raises:
        MissingInputError: there is no history yet.
        SpyreCiError: as `History.reading` says.
    """
    with history.reading() as (answers, file):
        runs = {device: told for device, *told in answers.tuples(_DEVICES)}
        imported = dict(file.tuples("SELECT device, count(*) FROM imported_test GROUP BY device"))
        timed = {device: answers.tuples(_TIMED, asked(device=device))[0][0] for device in runs}
        ((classes,),) = file.tuples("SELECT count(*) FROM imported_class")
    rows = []
    for device in sorted({*runs, *imported}):
        count, oldest, newest = runs.get(device, (0, None, None))
        rows.append(
            DeviceHistory(
                device=device,
                runs=count,
                tests=timed.get(device, 0),
                imported=imported.get(device, 0),
                # A job may say no start: HUD takes it, and so do we.
                oldest=epoch_of(oldest) if oldest else None,
                newest=epoch_of(newest) if newest else None,
            )
        )
    return rows, classes


def import_durations(history: History, durations: Durations, *, device: str) -> None:
    """Keep exported durations for a device; names that are there already are replaced.

    Raises:
        SpyreCiError: as `History.writing` says.
    """
    tests = [
        (device, stored(name), seconds, durations.spread.get(name))
        for name, seconds in durations.tests.items()
    ]
    files = [(device, stored(file), seconds) for file, seconds in durations.files.items()]
    with history.writing() as file:
        file.executemany("INSERT OR REPLACE INTO imported_test VALUES (?, ?, ?, ?)", tests)
        file.executemany("INSERT OR REPLACE INTO imported_setup VALUES (?, ?, ?)", files)
        _keep_classes(file, durations.classes)


def import_classes(history: History, classes: Mapping[str, float]) -> None:
    """Keep the seconds of whole classes, by `file::Class`; names that are there already are replaced.

    Raises:
        SpyreCiError: as `History.writing` says.
    """
    with history.writing() as file:
        _keep_classes(file, classes)


def _keep_classes(file: sqlite3.Connection, classes: Mapping[str, float]) -> None:
    rows = [(stored(name), seconds) for name, seconds in classes.items()]
    file.executemany("INSERT OR REPLACE INTO imported_class VALUES (?, ?)", rows)


def forget_imports(history: History) -> int:
    """Drop all that was imported, and return how many names that were.

    Raises:
        SpyreCiError: as `History.writing` says.
    """
    with history.writing() as file:
        return sum(file.execute(f"DELETE FROM {table}").rowcount for table in _IMPORTS)  # noqa: S608  # our own names


def imported_durations(file: Database, device: str | None) -> Durations:
    """All that was imported for a device; None takes every device, the greatest seconds of a name."""
    only = "WHERE :device = '' OR device = :device"
    wanted = {"device": device or ""}
    tests = file.tuples(
        f"SELECT name, max(seconds), max(spread) FROM imported_test {only} GROUP BY name ORDER BY name",  # noqa: S608  # our names
        wanted,
    )
    setups = file.tuples(
        f"SELECT file, max(seconds) FROM imported_setup {only} GROUP BY file ORDER BY file",  # noqa: S608  # our names
        wanted,
    )
    classes = file.tuples("SELECT name, seconds FROM imported_class ORDER BY name")
    return Durations(
        tests={original(name): seconds for name, seconds, _ in tests},
        files={original(file): seconds for file, seconds in setups},
        spread={original(name): spread for name, _, spread in tests if spread is not None},
        classes={original(name): seconds for name, seconds in classes},
    )


def _by_name(rows: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, seconds in rows:
        found.setdefault(name, []).append(seconds)
    return found


def _medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}
