"""Items that can be removed, and the rules that decide which of them are. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ci.core.errors import SpyreCiError

DAY_S = 24 * 3600.0
GIB = 1 << 30
# Clocks of two machines may differ by this much.
CLOCK_SKEW_S = 300.0


class KeptError(SpyreCiError):
    """An item that was to be removed and stays; the reason is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that is removed as a whole: a run folder, a cache entry, an image, a stored run.

    Attributes:
        kind: such as `runs`.
        name: unique within its kind.
        path: a file or folder; of an image its id.
        at: when it was last used, in seconds since the epoch; None if unknown.
        bytes: disk space.
        held: why no rule may remove it; empty if rules decide.
        unfinished: whether it can be resumed.
        called: what others may name it by.
        names: words in its files, which may name others.
        in_use: why it is in use now; empty if it is not.
        remove: removes it; raises KeptError if it was used since it was found, or OSError.
    """

    kind: str
    name: str
    path: str
    at: float | None
    bytes: int
    held: str = ""
    unfinished: bool = False
    called: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    in_use: Callable[[Item], str] = field(default=lambda _: "", repr=False)
    remove: Callable[[Item], object] = field(default=lambda _: None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How much of a kind is kept; None: no limit.

    Attributes:
        keep_days: older items are removed.
        keep_gib: the oldest items beyond this size are removed.
        keep_last: this many of the newest stay.
        unfinished: whether unfinished items older than `keep_days` are removed too.
    """

    keep_days: float | None = None
    keep_gib: float | None = None
    keep_last: int = 0
    unfinished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether an item is removed, and why."""

    item: Item
    goes: bool
    why: str


def is_young(item: Item, now: float) -> bool:
    """True if an item was used within the last day, or may have been."""
    return item.at is None or now - item.at < DAY_S


def decide(items: Sequence[Item], rule: Rule, *, now: float) -> list[Decision]:
    """Decide on each item of one kind, in the order given; the oldest are removed first."""
    dates = sorted(one.at for one in items if one.at is not None and one.at <= now + CLOCK_SKEW_S)
    newest = dates[-rule.keep_last :][0] if dates and rule.keep_last else math.inf
    decided = {}
    left = sum(one.bytes for one in items)
    for item in sorted(items, key=lambda one: (one.at or 0.0, one.name)):
        old = item.at is not None and rule.keep_days is not None and item.at < now - rule.keep_days * DAY_S
        large = rule.keep_gib is not None and left > rule.keep_gib * GIB
        why = _why_kept(item, rule, now=now, newest=newest, old=old)
        goes = not why and (old or large)
        if goes:
            why = f"older than {rule.keep_days:g} days" if old else f"beyond {rule.keep_gib:g} GiB"
            left -= item.bytes
        decided[item.name] = Decision(item=item, goes=goes, why=why or "within the limits")
    return [decided[one.name] for one in items]


def decide_all(items: Sequence[Item], rules: Mapping[str, Rule], *, now: float) -> dict[str, list[Decision]]:
    """Decide on the items of each kind that has a rule; what one that stays names, or is in use, stays.

    Only of what is to go it is asked whether it is in use.
    """
    while True:
        decided = {
            kind: decide([one for one in items if one.kind == kind], rules[kind], now=now) for kind in rules
        }
        going = [one.item for ones in decided.values() for one in ones if one.goes]
        gone = {one.path for one in going}
        named = {name: one.name for one in items if one.path not in gone for name in one.names}
        held = {}
        for item in going:
            namer = min((named[name] for name in item.called & named.keys()), default="")
            if why := f"{namer} names it, and stays" if namer else item.in_use(item):
                held[item.path] = why
        if not held:
            return decided
        items = [replace(one, held=held.get(one.path, one.held)) for one in items]


def _why_kept(item: Item, rule: Rule, *, now: float, newest: float, old: bool) -> str:
    if item.held:
        return item.held
    if item.at is None or item.at > now + CLOCK_SKEW_S:
        return "its age is unknown" if item.at is None else "dated in the future: a clock was wrong"
    if item.at >= newest:
        return f"one of the newest {rule.keep_last}"
    if item.unfinished and (is_young(item, now) or not (rule.unfinished and old)):
        return "unfinished: it can be resumed (--unfinished removes it once it is too old)"
    return ""
