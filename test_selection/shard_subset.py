"""Some shards of a plan as short text (`0-7,12`). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from test_selection.errors import UsageError

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
                f"{part!r} is not a list of shards",
                where="--shard",
                remedy="give numbers and ranges such as 0-7,12",
            )
        if last >= count:
            raise UsageError(f"there is no shard {last}", remedy=f"the plan's shards are 0 to {count - 1}")
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)
