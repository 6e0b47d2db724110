"""Slices of a plan: what one of many machines has to know of it, and the plan put together of them again.

A slice's size is that of its own shards, however many others there are. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from test_selection.errors import BadFileError
from test_selection.plan import Plan, plan_from_json, plan_to_json, slice_size

_ALIKE = ("fingerprint", "bound_s", "makespan_s", "binds")


def slice_of(plan: Plan, indexes: Iterable[int]) -> dict[str, Any]:
    """What the file of a slice holds: some of a plan's shards, with the whole plan's fingerprint.

    Args:
        plan: whole.
        indexes: of the shards.
    """
    return plan_to_json(plan, set(indexes))


def merged(slices: Iterable[tuple[Mapping[str, Any], Path | str]]) -> Plan:
    """The plan whose slices these are, all of them; a shard that none has is empty.

    Args:
        slices: what each holds, and what errors name; at least one.

    Raises:
        BadFileError: one was changed, is of another plan, or has what another has; or some are missing.
    """
    said: tuple[Any, ...] = ()
    rows: dict[Any, Any] = {}
    first: Path | str = ""
    for content, where in slices:
        found = (slice_size(content, where), content.get("seed"), *(content[key] for key in _ALIKE))
        said, first = said or found, first or where
        if found != said:
            raise _bad(f"is a slice of another plan than {first}", where)
        for row in content["shards"]:
            index = row.get("index") if isinstance(row, dict) else None
            if type(index) is not int or index in rows:
                raise _bad(f"its shard {index!r} is in another slice as well, or is none", where)
            rows[index] = row
    of, seed, *alike = said
    missing = set(range(of)) - rows.keys()
    rows |= {index: {"index": index, "expected_s": 0.0, "groups": []} for index in missing}
    shards = [rows[index] for index in sorted(rows)]
    whole = {**dict(zip(_ALIKE, alike, strict=True)), "seed": seed, "shards": shards}
    return plan_from_json(whole, first)


def _bad(what: str, where: Path | str) -> BadFileError:
    return BadFileError(what, where=where, remedy="make the job's slices again: submit it anew")
