"""Files of a run as the design has them, written and read by hand: catalogs, selections, plans, durations."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracle.conftest import Desk

Json = dict[str, Any]


def row(name: str, *, op: str | None = None, dtype: str | None = None) -> Json:
    """A test's line of a catalog, of its test id `file::Class::template[…]`."""
    file, cls, rest = name.split("::", 2)
    template = rest.partition("[")[0]
    return {
        "id": name, "node": name, "file": file, "class": cls, "template": template, "op": op, "dtype": dtype,
    }  # fmt: skip


def write_catalog(
    desk: Desk,
    name: str,
    rows: Sequence[Json],
    *,
    device: str = "spyre",
    errors: Mapping[str, str] | None = None,
) -> Path:
    """A catalog of these tests; `errors`: files that could not be collected, and why."""
    files: Json = {one["file"]: {"collect_s": 1.0, "error": None} for one in rows}
    files |= {file: {"collect_s": 0.5, "error": error} for file, error in (errors or {}).items()}
    header = {"schema": "spyre-ci/catalog/1", "pytorch": "2.13.0", "device": device, "files": files}
    return desk.write(name, "".join(json.dumps(one) + "\n" for one in (header, *rows)))


def write_selection(desk: Desk, name: str, ids: Iterable[str]) -> Path:
    """A selection of all of these."""
    return desk.write(
        name, {"schema": "spyre-ci/selection/1", "stage": None, "percent": 100, "ids": sorted(ids)}
    )


def write_durations(desk: Desk, name: str, tests: Mapping[str, float], files: Mapping[str, float]) -> Path:
    """Seconds of tests, and of the set-ups of files."""
    return desk.write(name, {"schema": "spyre-ci/durations/1", "tests": dict(tests), "files": dict(files)})


def planned(plan: Json) -> list[str]:
    """Every id of a plan, as often as it stands there."""
    return [one for shard in plan["shards"] for group in shard["groups"] for one in group["ids"]]


def fingerprint(shards: Sequence[Json]) -> str:
    """What a plan of these shards is known by."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(json.dumps([[one["file"], *one["ids"]] for one in shard["groups"]]).encode() + b"\n")
    return digest.hexdigest()


def lower_bound(tests: Mapping[str, float], files: Mapping[str, float], shards: int) -> float:
    """The least T with sum_f (D_f + s_f k_f(T)) <= m T and T >= max_i (s_f(i) + d_i), by the design."""
    totals: dict[str, float] = {}
    for name, seconds in tests.items():
        file = name.partition("::")[0]
        totals[file] = totals.get(file, 0.0) + seconds
    longest = max(files[name.partition("::")[0]] + seconds for name, seconds in tests.items())

    def fits(limit: float) -> bool:
        work = 0.0
        for file, total in totals.items():
            room = limit - files[file]
            if total > 0 and room <= 0:
                return False
            pieces = max(1, math.ceil(total / room - 1e-9)) if total > 0 else 1
            work += total + files[file] * pieces
        return work <= shards * limit * (1 + 1e-9)

    low, high = longest, longest + sum(totals.values()) + sum(files.values())
    if fits(low):
        return low
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
