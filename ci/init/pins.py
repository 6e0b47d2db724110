"""Pins of workflows: which side's `uses: NAME@REF # version` a merge takes; pure.

Dependabot renews a pin in a checkout and an upgrade renews it in our text: to a merge of lines both have
changed the same line. So the pin is decided by itself, and the lines around it are merged as if it had not
changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

# `uses: NAME@REF # v1.2.3`: what it names, and all behind it.
_USES = re.compile(
    r"^(?P<begin>[ \t]*(?:-[ \t]+)?uses:[ \t]*['\"]?)(?P<name>[^\s@'\"#]+)@(?P<pin>[^\n]*)$", re.MULTILINE
)


def settle(base: str, theirs: str, ours: str) -> tuple[str, str, str]:
    """The three texts of a merge with each pin the same in all, where it can be decided.

    What only one side changed is that side's. Of two changed pins that of a newer version holds; where that
    cannot be told, theirs.

    Args:
        base: what we last wrote.
        theirs: what is there now.
        ours: what we would write now.
    """
    found = [pins(text) for text in (base, theirs, ours)]
    chosen = {}
    for name in found[0].keys() & found[1].keys() & found[2].keys():
        before, now, new = (one[name] for one in found)
        if len(before) == len(now) == len(new) == 1:
            chosen[name] = _choose(*before, *now, *new)
    settled = [_with(text, chosen) for text in (base, theirs, ours)]
    return settled[0], settled[1], settled[2]


def pins(text: str) -> dict[str, set[str]]:
    """What each action or workflow of a text is pinned to, with the comment behind it."""
    found: dict[str, set[str]] = {}
    for use in _USES.finditer(text):
        found.setdefault(use["name"], set()).add(use["pin"])
    return found


def _choose(before: str, now: str, new: str) -> str:
    if now == before:
        return new
    if new == before:
        return now
    ours, theirs = _version(new), _version(now)
    return new if ours is not None and theirs is not None and ours > theirs else now


def _version(pin: str) -> Version | None:
    said = re.search(r"#\s*v?(\S+)", pin)
    try:
        return Version(said[1]) if said else None
    except InvalidVersion:
        return None


def _with(text: str, chosen: Mapping[str, str]) -> str:
    return _USES.sub(lambda use: f"{use['begin']}{use['name']}@{chosen.get(use['name'], use['pin'])}", text)
