"""Two runs compared test by test, as plainly as it can be said: what the server's way must come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ci.hud.server.queries.compare import KINDS, Change, Comparison, Side
from ci.record.verdict import Verdict
from ci.report.compare.changes import kind_of
from ci.report.compare.machines import LEAST_TIMED_S, Pair
from ci.report.compare.times import compare_times
from ci.store.database import Row

# A test's key, and how many rows of it stand before this one.
Key = tuple[int, int]


def sides_of(rows: Sequence[Row]) -> dict[Key, Side]:
    """A job's tests, of its rows of `test_run`."""
    ordered = sorted(rows, key=lambda row: (row["test_key"], row["invoking_file"], row["verdict"]))
    return dict(_numbered(ordered))


def _numbered(rows: Sequence[Row]) -> Iterator[tuple[Key, Side]]:
    for key, same in groupby(rows, key=lambda row: row["test_key"]):
        for number, row in enumerate(same):
            told: dict[str, Any] = {
                name: row[name] for name in ("test_id", "place", "verdict", "card", "message")
            }
            yield (key, number), Side(seconds=row["time"], **told)


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
    times = compare_times(
        [
            Pair(
                str(key), "", max(after[key].seconds, LEAST_TIMED_S), max(before[key].seconds, LEAST_TIMED_S)
            )
            for key in both
            if all(side[key].verdict == "passed" and side[key].seconds > 0 for side in (before, after))
        ]
    )
    off = {one.name: "slower" if one.more_s > 0 else "faster" for one in times.tests}
    found: dict[str, list[Change]] = {name: [] for name in KINDS}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        one = new or old
        assert one is not None  # the key is of one of them
        for name in _kinds(old, new, off.get(str(key))):
            found[name].append(Change(kind=name, test_id=one.test_id, place=one.place, before=old, after=new))
    chosen = sorted(found[kind], key=_order)
    return Comparison(
        before=len(before),
        after=len(after),
        both=len(both),
        counts={name: len(found[name]) for name in KINDS},
        pace=times.machines.ratio,
        changes=chosen[offset : offset + limit],
    )


def _kinds(old: Side | None, new: Side | None, off: str | None) -> list[str]:
    now, base = (None if one is None else Verdict(one.verdict) for one in (new, old))
    found = [kind_of(now, base, new=base is None).words]
    found = [name for name in found if name in KINDS]
    if old is None or new is None:
        return [*found, "appeared" if old is None else "vanished"]
    return found if off is None else [*found, off]


def _order(change: Change) -> tuple[float, str, int]:
    old, new = change.before, change.after
    worth = -abs(new.seconds - old.seconds) if change.kind in {"slower", "faster"} and old and new else 0.0
    return worth, change.test_id, change.place
