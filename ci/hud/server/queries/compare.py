"""Compare two runs: what became of tests since, what is slower, came or went.

What is slower is said by the rule of `spyre-ci compare`, of tests alone: their files and cards stand in the
wide rows, which are not read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from ci.hud.server.queries.rows import OF_JOB, Key, job_values, rows_of_keys
from ci.record.verdict import Verdict
from ci.report.compare.changes import kind_of
from ci.report.compare.machines import LEAST_TIMED_S, Pair
from ci.report.compare.times import compare_times
from ci.store.database import Database, Value

# The words of `ci.report.compare.changes.Kind`; messages are not read, so what fails differently still fails.
Kind = Literal[
    "newly failing",
    "new and failing",
    "newly flaky",
    "failing, outcome in base unknown",
    "flaky, outcome in base unknown",
    "still failing",
    "fixed",
    "no longer flaky",
    "newly skipped",
    "without an outcome in one of the runs",
    "slower",
    "faster",
    "appeared",
    "vanished",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Beyond so many tests a whole run is read rather than each of them looked up.
MANY = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A test in one run."""

    test_id: str
    place: int
    verdict: str
    seconds: float
    card: str
    message: str


@dataclass(frozen=True, slots=True)
class Marks:
    """What a run's tests are compared by.

    Attributes:
        verdicts: of each.
        seconds: of those whose time can be compared.
    """

    verdicts: Mapping[Key, str]
    seconds: Mapping[Key, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A test that is not the same in both runs; a side is None where the run does not have the test."""

    kind: str
    test_id: str
    place: int
    before: Side | None
    after: Side | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Compare two runs.

    Attributes:
        before: tests of the first run.
        after: tests of the second.
        both: tests of both.
        counts: by kind, how many tests.
        pace: how much longer the tests of the second run took, as the median of the ratios; 1 is the same.
        changes: a page of the changes asked for.
    """

    before: int
    after: int
    both: int
    counts: Mapping[str, int]
    pace: float
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """What is known of two runs, whatever kind of change and page of them is shown.

    Attributes:
        before: tests of the first run.
        after: tests of the second.
        kinds: by kind the tests of it.
        off: by how many seconds tests are slower or faster.
        pace: see Comparison.
    """

    before: int
    after: int
    kinds: Mapping[str, Collection[Key]]
    off: Mapping[Key, float]
    pace: float


class _Tests(NamedTuple):
    """The tests of a job, which are the same as long as all of this is."""

    workflow_id: Value
    workflow_run_attempt: Value
    job_id: Value
    number: int
    newest_upload: int


def compare_runs(
    database: Database,
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    *,
    kind: str,
    limit: int,
    offset: int,
) -> Comparison:
    """Compare two jobs.

    All tests are compared by what is narrow of them; what is wide is read of the changes that are given.

    Args:
        database: what is asked.
        before: a row of `crcr_workflow_job_ranked`.
        after: another.
        kind: one of KINDS, whose changes are given; times by how much they differ, all else by id.
        limit: changes at most.
        offset: changes left out before.
    """
    found = _compare(database, _tests(database, before), _tests(database, after))
    named = before if kind == "vanished" else after
    chosen = _page(database, named, found.kinds[kind], found.off, limit=limit, offset=offset)
    sides = _sides(database, before, chosen), _sides(database, after, chosen)
    return Comparison(
        before=found.before,
        after=found.after,
        both=found.before - len(found.kinds["vanished"]),
        counts={name: len(found.kinds[name]) for name in KINDS},
        pace=found.pace,
        changes=[
            Change(
                kind=kind,
                test_id=sides[named is after][key].test_id,
                place=sides[named is after][key].place,
                before=sides[0].get(key),
                after=sides[1].get(key),
            )
            for key in chosen
        ],
    )


def _tests(database: Database, job: Mapping[str, Value]) -> _Tests:
    values = job_values(job)
    query = f"SELECT count(*), max(upload_id) FROM settled_test_run WHERE {OF_JOB}"  # noqa: S608  # our names
    ((number, upload),) = database.tuples(query, values)
    return _Tests(values["workflow"], values["attempt"], values["job"], number, upload or 0)


# Every kind and every page of them is a request of its own.
@lru_cache(maxsize=4)
def _compare(database: Database, before: _Tests, after: _Tests) -> _Compared:
    old, new = (marks_of(database, tests._asdict()) for tests in (before, after))
    slower, faster, pace = _times(old, new)
    kinds: dict[str, Collection[Key]] = {
        **_verdict_kinds(old.verdicts, new.verdicts),
        "slower": slower,
        "faster": faster,
        "appeared": new.verdicts.keys() - old.verdicts.keys(),
        "vanished": old.verdicts.keys() - new.verdicts.keys(),
    }
    return _Compared(
        before=len(old.verdicts), after=len(new.verdicts), kinds=kinds, off=slower | faster, pace=pace
    )


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


def _repeated(keys: Iterable[int]) -> set[int]:
    seen, again = set[int](), set[int]()
    for key in keys:
        (again if key in seen else seen).add(key)
    return again


def _times(before: Marks, after: Marks) -> tuple[dict[Key, float], dict[Key, float], float]:
    """What is slower and faster, by how many seconds, and how many times as long all tests took."""
    now = after.seconds
    keys = {str(key): key for key in before.seconds if key in now}
    pairs = [
        Pair(name, "", max(now[key], LEAST_TIMED_S), max(before.seconds[key], LEAST_TIMED_S))
        for name, key in keys.items()
    ]
    times = compare_times(pairs)
    slower, faster = (
        {keys[one.name]: abs(one.now_s - one.base_s) for one in some} for some in (times.slower, times.faster)
    )
    return slower, faster, times.machines.ratio


def _verdict_kinds(old: Mapping[Key, str], new: Mapping[Key, str]) -> dict[str, list[Key]]:
    """By kind the tests of it; what passed in both, as nearly all did, is not asked about."""
    found: dict[str, list[Key]] = {name: [] for name in KINDS}
    odd = {key for side in (old, new) for key, verdict in side.items() if verdict != Verdict.PASSED}
    for key in odd:
        now, base = (Verdict(side[key]) if key in side else None for side in (new, old))
        kind = kind_of(now, base, new=base is None)
        if kind.words in found:
            found[kind.words].append(key)
    return found


def _page(
    database: Database,
    job: Mapping[str, Value],
    keys: Collection[Key],
    off: Mapping[Key, float],
    *,
    limit: int,
    offset: int,
) -> list[Key]:
    """Those far off come first, then ids in their order, which are asked for only where they decide."""
    worths = sorted(-off.get(key, 0.0) for key in keys)
    within = worths[offset : offset + limit]
    if not within:
        return []
    near = [key for key in keys if within[0] <= -off.get(key, 0.0) <= within[-1]]
    names = _names(database, job, near)
    near.sort(key=lambda key: (-off.get(key, 0.0), names[_test_key(key)], _number(key)))
    start = offset - bisect_left(worths, within[0])
    return near[start : start + limit]


def _names(
    database: Database, job: Mapping[str, Value], keys: Collection[Key]
) -> Mapping[int, tuple[str, int]]:
    """Id and place of tests, by key."""
    asked = {_test_key(key) for key in keys}
    if len(asked) > MANY:
        query = f"SELECT test_key, test_id, place FROM settled_test_run WHERE {OF_JOB}"  # noqa: S608  # our names
        every = database.tuples(query, job_values(job))
        return {key: (test_id, place) for key, test_id, place in every}
    rows = rows_of_keys(database, job, asked, "verdict, test_id, place")
    return {_test_key(key): (row["test_id"], row["place"]) for key, row in rows}


def _sides(database: Database, job: Mapping[str, Value], keys: Sequence[Key]) -> dict[Key, Side]:
    columns = "test_id, place, verdict, time AS seconds, card, message"
    rows = rows_of_keys(database, job, {_test_key(key) for key in keys}, columns)
    names = [one.name for one in fields(Side)]
    return {key: Side(**{name: row[name] for name in names}) for key, row in rows}


def _test_key(key: Key) -> int:
    return key if isinstance(key, int) else key[0]


def _number(key: Key) -> int:
    return 0 if isinstance(key, int) else key[1]
