"""What two runs are compared by: each test's verdict and time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ci.hud.server.queries.failures import job_values
from ci.store.database import Database, Row, Value

# A test's key; of a second, third, … row of the same test, with how many rows stand before it. Nearly all are
# of the first kind, which is cheap: a run has hundreds of thousands.
Key = int | tuple[int, int]
OF_JOB = "workflow_id = :workflow AND workflow_run_attempt = :attempt AND job_id = :job"
# By the index of a test's history, not by reading a job's rows; SQLite cannot know that it is the better one.
OF_JOB_BY_KEY = "workflow_id + 0 = :workflow AND workflow_run_attempt + 0 = :attempt AND job_id + 0 = :job"
# So many keys are asked for at a time.
_KEYS = 500


@dataclass(frozen=True, slots=True)
class Marks:
    """A run's tests.

    Attributes:
        verdicts: of each.
        seconds: of those whose time can be compared.
    """

    verdicts: Mapping[Key, str]
    seconds: Mapping[Key, float]


def marks_of(database: Database, job: Mapping[str, Value]) -> Marks:
    """What a job's tests are compared by.

    Nearly all tests passed, and their verdict costs as much to read as the rest of them, so it is not read.
    `NOT … <>`, because with `=` SQLite takes the index of verdicts and reads the wide rows.

    Args:
        database: what is asked.
        job: a row of `crcr_workflow_job_ranked`.
    """
    values = job_values(job)
    passed = database.tuples(
        f"SELECT test_key, time FROM settled_test_run WHERE {OF_JOB} AND NOT verdict <> 'passed'",  # noqa: S608  # our names
        values,
    )
    others = database.tuples(
        f"SELECT test_key, verdict FROM settled_test_run WHERE {OF_JOB} AND verdict <> 'passed'",  # noqa: S608
        values,
    )
    keys = [key for key, _ in passed]
    verdicts: dict[Key, str] = dict.fromkeys(keys, "passed")
    seconds: dict[Key, float] = {key: took for key, took in passed if took > 0}
    for key, verdict in others:
        keys.append(key)
        verdicts[key] = verdict
        seconds.pop(key, None)
    if len(verdicts) == len(keys):
        return Marks(verdicts, seconds)
    for key, row in rows_of_keys(database, job, _repeated(keys), "verdict, time"):
        verdicts[key] = row["verdict"]
        seconds.pop(key, None)
        if row["time"] > 0 and row["verdict"] == "passed":
            seconds[key] = row["time"]
    return Marks(verdicts, seconds)


def rows_of_keys(
    database: Database, job: Mapping[str, Value], keys: Iterable[int], columns: str
) -> Iterator[tuple[Key, Row]]:
    """The rows of some tests of a job.

    Two files of a job may tell of the same test: its rows are numbered by their files.

    Args:
        database: what is asked.
        job: a row of `crcr_workflow_job_ranked`.
        keys: of the tests, each once.
        columns: names, `verdict` among them.
    """
    asked = sorted(keys)
    by_key = defaultdict[int, list[Row]](list)
    for start in range(0, len(asked), _KEYS):
        some = ", ".join(str(int(key)) for key in asked[start : start + _KEYS])
        for row in database.rows(
            f"SELECT test_key, invoking_file, {columns} FROM settled_test_run "  # noqa: S608  # names and whole numbers
            f"WHERE {OF_JOB_BY_KEY} AND test_key IN ({some})",
            job_values(job),
        ):
            by_key[row["test_key"]].append(row)
    for key, rows in by_key.items():
        rows.sort(key=lambda row: (row["invoking_file"], row["verdict"]))
        yield key, rows[0]
        for number, row in enumerate(rows[1:], 1):
            yield (key, number), row


def _repeated(keys: Iterable[int]) -> set[int]:
    seen, again = set[int](), set[int]()
    for key in keys:
        (again if key in seen else seen).add(key)
    return again
