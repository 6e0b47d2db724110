"""What two runs are compared by: each test's verdict and time, and what is noise between the times."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ci.hud.server.database import Database, Row, Value
from ci.hud.server.queries.failures import job_values
from ci.record.verdict import GOOD

# Below, a clock says more of the machine than of the test.
LEAST_S = 0.05
# The scale of the normal law's median absolute deviation, and how many of it are more than noise.
MAD_SCALE, NOISE = 1.4826, 4.0
# Where all tests of two equal runs take the same time, a tenth still is noise.
LEAST_SPREAD = math.log(1.1) / NOISE
# A test's key; of a second, third, … row of the same test, with how many rows stand before it. Nearly all are
# of the first kind, which is cheap: a run has hundreds of thousands.
Key = int | tuple[int, int]
OF_JOB = "workflow_id = :workflow AND workflow_run_attempt = :attempt AND job_id = :job"
# By the index of a test's history, not by reading a job's rows; SQLite cannot know that it is the better one.
OF_JOB_BY_KEY = "workflow_id + 0 = :workflow AND workflow_run_attempt + 0 = :attempt AND job_id + 0 = :job"
# So many keys are asked for at a time.
_KEYS = 500
_SAMPLE = 1000


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
        f"SELECT test_key, verdict, time FROM settled_test_run WHERE {OF_JOB} AND verdict <> 'passed'",  # noqa: S608
        values,
    )
    keys = [key for key, _ in passed]
    verdicts: dict[Key, str] = dict.fromkeys(keys, "passed")
    seconds: dict[Key, float] = {key: took for key, took in passed if took >= LEAST_S}
    for key, verdict, took in others:
        keys.append(key)
        verdicts[key] = verdict
        if took >= LEAST_S and verdict in GOOD:
            seconds[key] = took
    if len(verdicts) == len(keys):
        return Marks(verdicts, seconds)
    for key, row in rows_of_keys(database, job, _repeated(keys), "verdict, time"):
        verdicts[key] = row["verdict"]
        seconds.pop(key, None)
        if row["time"] >= LEAST_S and row["verdict"] in GOOD:
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


def noise(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The pace of the second run, and the spread of the ratios around it, of their logarithms.

    Args:
        times: seconds of the same test in both.
    """
    logs = [math.log(new / old) for old, new in times]
    if not logs:
        return 1.0, LEAST_SPREAD
    middle = middle_of(logs)
    spread = MAD_SCALE * middle_of([abs(one - middle) for one in logs])
    return math.exp(middle), max(spread, LEAST_SPREAD)


def middle_of(values: Sequence[float]) -> float:
    """The median; of many values only those near it are sorted, which a sample finds.

    Args:
        values: at least one.
    """
    step = len(values) // _SAMPLE
    if step < 2:  # noqa: PLR2004  # the sample would be all of them
        return median(values)
    sample = sorted(values[::step])
    low, high = sample[len(sample) * 2 // 5], sample[len(sample) * 3 // 5]
    near = sorted([one for one in values if low <= one <= high])
    place = len(values) // 2 - len([one for one in values if one < low])
    if not 1 <= place < len(near):
        return median(values)
    return near[place] if len(values) % 2 else (near[place - 1] + near[place]) / 2


def _repeated(keys: Iterable[int]) -> set[int]:
    seen, again = set[int](), set[int]()
    for key in keys:
        (again if key in seen else seen).add(key)
    return again
