"""How queries name the rows of a job's tests, and how their answers become values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

from ci.store.database import Database, Row, Value

OF_JOB = "workflow_id = :workflow AND workflow_run_attempt = :attempt AND job_id = :job"
# By the index of a test's history, not by reading a job's rows; SQLite cannot know that it is the better one.
# For a column behind a `+` it looks in no index; ClickHouse reads over that.
OF_JOB_BY_KEY = "+workflow_id = :workflow AND +workflow_run_attempt = :attempt AND +job_id = :job"
# The key of a test as text: JavaScript's numbers cannot hold it.
KeyText = Annotated[str, "CAST(test_key AS TEXT)"]
# A test's key; of a second, third, … row of the same test, with how many rows stand before it. Nearly all are
# of the first kind, which is cheap: a run has hundreds of thousands.
Key = int | tuple[int, int]
# So many keys are asked for at a time.
_KEYS = 500
_Kind = TypeVar("_Kind")
_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


def records(
    database: Database,
    kind: type[_Kind],
    source: str,
    values: Mapping[str, Value] | None = None,
    /,
    **expressions: str,
) -> list[_Kind]:
    """The rows of a query as values of a dataclass.

    Args:
        database: what is asked.
        kind: the dataclass. A field is read from the column of its name, or where it is `Annotated` from what
            that says; one that has a default is not asked for.
        source: the query from its FROM on, in which the answer's own names are `o_` and the field's.
        values: what the query binds.
        expressions: by field what it is read from this time.
    """
    columns, flags = _columns(kind)  # type: ignore[arg-type]  # a class can be hashed
    columns = columns | expressions
    # The answer's names stand apart from those of the tables, which conditions name.
    named = ", ".join(f"{column} AS o_{name}" for name, column in columns.items())
    rows = database.tuples(f"SELECT {named} {source}", values)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    for name in flags:
        for row in found:
            # SQLite has numbers for truth values.
            row[name] = bool(row[name])
    return [kind(**row) for row in found]


@cache
def _columns(kind: type) -> tuple[dict[str, str], list[str]]:
    """What each field of a dataclass is read from, and those that are true or false."""
    hints = get_type_hints(kind, include_extras=True)
    asked = [one.name for one in fields(kind) if one.default is MISSING]
    columns = {name: getattr(hints[name], "__metadata__", (name,))[0] for name in asked}
    return columns, [name for name in asked if get_type_hints(kind)[name] is bool]


def grouped(values: Iterable[_Value], key: Callable[[_Value], _Name]) -> dict[_Name, list[_Value]]:
    """Values by what `key` says of each, in their order."""
    found: dict[_Name, list[_Value]] = {}
    for one in values:
        found.setdefault(key(one), []).append(one)
    return found


def job_values(job: Mapping[str, Any]) -> dict[str, Value]:
    """What finds the rows of tests of a job, a row of `crcr_workflow_job_ranked`."""
    return {"workflow": job["workflow_id"], "attempt": job["workflow_run_attempt"], "job": job["job_id"]}


def listed(numbers: Iterable[int | str]) -> str:
    """Whole numbers for an `IN (…)`; each once."""
    return ", ".join(sorted({str(int(number)) for number in numbers}))


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
        for row in database.rows(
            f"SELECT test_key, invoking_file, {columns} FROM settled_test_run "  # noqa: S608  # names and whole numbers
            f"WHERE {OF_JOB_BY_KEY} AND test_key IN ({listed(asked[start : start + _KEYS])})",
            job_values(job),
        ):
            by_key[row["test_key"]].append(row)
    for key, rows in by_key.items():
        rows.sort(key=lambda row: (row["invoking_file"], row["verdict"]))
        yield key, rows[0]
        for number, row in enumerate(rows[1:], 1):
            yield (key, number), row
