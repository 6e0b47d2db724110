"""Some shards of a plan: as short text (`0-7,12`), as a file of their own, and merged again. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from test_selection.errors import BadFileError, UsageError
from test_selection.plan import WHOLE, Plan, plan_from_json, plan_to_json, slice_size

# int() would take signs, blanks, underscores and digits of other scripts as well.
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def format_ranges(indices: Iterable[int]) -> str:
    """Whole numbers of 0 or more as `0-7,12`: sorted, each once."""
    parts: list[list[int]] = []
    for index in sorted(set(indices)):
        if parts and parts[-1][-1] == index - 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(str(one) for one in part) for part in parts)


def parse_ranges(texts: Iterable[str], count: int) -> list[int]:
    """The shards that `0-7,12` names, each once, in the order of their first naming.

    Args:
        texts: one or more such lists.
        count: how many shards there are, so that a huge range is refused and never spelled out.

    Raises:
        UsageError: a part is no number and no range, or names a shard there is not.
    """
    found: dict[int, None] = {}
    for part in (part for text in texts for part in text.split(",")):
        match = _PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UsageError(
                f"{part!r} names no shards", where="--shard", remedy="give numbers and ranges such as 0-7,12"
            )
        if last >= count:
            raise UsageError(f"there is no shard {last}", remedy=f"the plan's shards are 0 to {count - 1}")
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


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
        found = (slice_size(content, where), content.get("seed"), *(content[key] for key in WHOLE))
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
    whole = {**dict(zip(WHOLE, alike, strict=True)), "seed": seed, "shards": shards}
    return plan_from_json(whole, first)


def _bad(what: str, where: Path | str) -> BadFileError:
    return BadFileError(what, where=where, remedy="make the job's slices again: submit it anew")
