"""Two runs side by side: what fails anew, what is fixed, flaky, slower, there for the first time, or gone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ci.hud.server.database import Database, Row, Value
from ci.hud.server.queries.failures import job_values

KINDS = ("new failures", "fixed", "flaky", "slower", "faster", "appeared", "vanished", "still failing")
BAD = frozenset({"failed", "hardware", "infrastructure", "not_run"})
GOOD = frozenset({"passed", "flaky", "xpassed", "xfailed"})
TIMED = frozenset({"passed", "xfailed", "xpassed"})
# Below, a clock says more of the machine than of the test.
LEAST_S = 0.05
# The scale of the normal law's median absolute deviation, and how many of it are more than noise.
MAD_SCALE, NOISE = 1.4826, 4.0
# Where all tests of two equal runs take the same time, a tenth still is noise.
LEAST_SPREAD = math.log(1.1) / NOISE
# A test's key, and how many rows of it stand before this one.
Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A test in one run."""

    test_id: str
    place: int
    verdict: str
    seconds: float
    card: str
    message: str


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
    """Two runs side by side.

    Attributes:
        before: tests of the first run.
        after: tests of the second.
        both: tests of both.
        counts: by kind, how many tests.
        pace: how much longer the tests of the second run took, as the median of the ratios; 1 is the same.
        limit: a ratio above it is more than noise: the pace times e to the four median absolute deviations of
            the ratios' logarithms.
        changes: a page of the changes asked for.
    """

    before: int
    after: int
    both: int
    counts: Mapping[str, int]
    pace: float
    limit: float
    changes: Sequence[Change]


def compare_runs(
    database: Database,
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    *,
    kind: str,
    limit: int,
    offset: int,
) -> Comparison:
    """Compare two jobs, rows of `crcr_workflow_job_ranked`; see `compare`."""
    return compare(_side(database, before), _side(database, after), kind=kind, limit=limit, offset=offset)


def compare(
    before: Mapping[Key, Side], after: Mapping[Key, Side], *, kind: str, limit: int, offset: int = 0
) -> Comparison:
    """Compare two runs' tests by their keys; pure.

    Args:
        before: of the first run.
        after: of the second.
        kind: one of KINDS, whose changes are given; times by how much they differ, all else by id.
        limit: changes at most.
        offset: changes left out before.
    """
    both = before.keys() & after.keys()
    pace, spread = _noise(
        [(before[key].seconds, after[key].seconds) for key in both if _timed(before[key], after[key])]
    )
    found: dict[str, list[Change]] = {name: [] for name in KINDS}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        one = new or old
        assert one is not None  # noqa: S101  # the key is of one of them
        for name in _kinds(old, new, pace, spread):
            found[name].append(Change(kind=name, test_id=one.test_id, place=one.place, before=old, after=new))
    chosen = sorted(found[kind], key=_order)
    return Comparison(
        before=len(before),
        after=len(after),
        both=len(both),
        counts={name: len(found[name]) for name in KINDS},
        pace=pace,
        limit=pace * math.exp(NOISE * spread),
        changes=chosen[offset : offset + limit],
    )


def _kinds(old: Side | None, new: Side | None, pace: float, spread: float) -> list[str]:
    if old is None:
        bad = new is not None and new.verdict in BAD
        return ["appeared", *(["new failures"] if bad else [])]
    if new is None:
        return ["vanished"]
    found = []
    if new.verdict in BAD:
        found.append("still failing" if old.verdict in BAD else "new failures")
    elif old.verdict in BAD and new.verdict in GOOD:
        found.append("fixed")
    if new.verdict == "flaky":
        found.append("flaky")
    if _timed(old, new):
        off = math.log(new.seconds / old.seconds / pace)
        if abs(off) > NOISE * spread and abs(new.seconds - old.seconds * pace) > LEAST_S:
            found.append("slower" if off > 0 else "faster")
    return found


def _timed(old: Side, new: Side) -> bool:
    return old.verdict in TIMED and new.verdict in TIMED and old.seconds >= LEAST_S and new.seconds >= LEAST_S


def _noise(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The pace of the second run, and the spread of the ratios around it, of their logarithms."""
    logs = [math.log(new / old) for old, new in times]
    if not logs:
        return 1.0, LEAST_SPREAD
    middle = median(logs)
    spread = MAD_SCALE * median(abs(one - middle) for one in logs)
    return math.exp(middle), max(spread, LEAST_SPREAD)


def _order(change: Change) -> tuple[float, str, int]:
    old, new = change.before, change.after
    worth = -abs(new.seconds - old.seconds) if change.kind in {"slower", "faster"} and old and new else 0.0
    return worth, change.test_id, change.place


def _side(database: Database, job: Mapping[str, Value]) -> dict[Key, Side]:
    rows = database.rows(
        "SELECT test_key, invoking_file, test_id, place, verdict, time, card, message FROM test_run "
        "WHERE workflow_id = :workflow AND workflow_run_attempt = :attempt AND job_id = :job",
        job_values(job),
    )
    by_key: dict[int, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row["test_key"], []).append(row)
    # Two files of a job may tell of the same test: its first row is compared with its first, and so on.
    return {
        (key, number): Side(
            test_id=row["test_id"],
            place=row["place"],
            verdict=row["verdict"],
            seconds=row["time"],
            card=row["card"],
            message=row["message"],
        )
        for key, same in by_key.items()
        for number, row in enumerate(
            same if len(same) == 1 else sorted(same, key=lambda row: (row["invoking_file"], row["verdict"]))
        )
    }
