"""How Jenkins narrows an answer to what the query's `tree` names; what is not named is not there."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any


def narrowed(content: Any, tree: str) -> Any:
    """What a tree leaves of a content."""
    if isinstance(content, list):
        return [narrowed(one, tree) for one in content]
    found = {}
    for name, inside, last in _branches(tree):
        if name in content:
            value = narrowed(content[name], inside) if inside else content[name]
            found[name] = value[: int(last)] if last else value
    return found


def _branches(tree: str) -> list[tuple[str, str, str]]:
    """`a,b[c,d[e]]{0,100}` as its names, what is wanted below each, and where a range ends."""
    found, rest = [], tree
    while rest:
        name = re.match(r"\w+", rest)
        assert name, f"no tree of Jenkins: {tree}"
        rest, inside = rest[name.end() :], ""
        if rest.startswith("["):
            depths = accumulate({"[": 1, "]": -1}.get(letter, 0) for letter in rest)
            end = next(place for place, depth in enumerate(depths) if depth == 0)
            inside, rest = rest[1:end], rest[end + 1 :]
        limit = re.match(r"\{0,(\d+)\}", rest)
        rest = rest[limit.end() :] if limit else rest
        found.append((name[0], inside, limit[1] if limit else ""))
        assert not rest or rest[0] == ",", f"no tree of Jenkins: {tree}"
        rest = rest[1:]
    return found
