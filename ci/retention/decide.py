"""Which things go: too old, or beyond the space they may take, the oldest first. Pure.

A thing that another one names is as young as that one, and stays where that one stays; so what goes is
always the first part of one order, and more room or more days never make more go. Space is counted once for
files with several names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ci.retention.things import DAY_S, GIB, Decision, Rule, Thing

# A clock may be that much behind another one's.
SLACK_S = 300.0


@dataclass(slots=True)
class Freed:
    """What the disk gets back while one thing after the other goes.

    A file's space comes back with the last of its names; a name outside all of these keeps it.
    """

    _gone: Counter[tuple[int, int]] = field(default_factory=Counter)

    def take(self, thing: Thing) -> int:
        """Bytes that come back when this goes too."""
        back = thing.own
        for one in thing.shared:
            self._gone[one.key] += one.inside
            if self._gone[one.key] >= one.links:
                back += one.bytes
                self._gone[one.key] = -(1 << 62)  # it comes back once
        return back


def space(things: Iterable[Thing]) -> int:
    """Bytes that would come back if all of these went; what names elsewhere hold is not theirs."""
    freed = Freed()
    return sum(freed.take(one) for one in things)


def decide(things: Sequence[Thing], rule: Rule, *, now: float) -> list[Decision]:
    """What becomes of each thing of one kind, in the order they are given.

    Args:
        things: all of a kind; names are unique.
        rule: how much of it is kept.
        now: seconds since the epoch.
    """
    held = _held(things, rule, now)
    ages = _as_young_as_namers(things)
    free = [one for one in things if one.name not in held]
    order = sorted(free, key=lambda one: (ages[one.name], -_at(one), one.name))
    before = None if rule.keep_days is None else now - rule.keep_days * DAY_S
    old = {one.name for one in order if before is not None and ages[one.name] < before}
    goes = _wanted(things, order, old, rule)
    goes = _without_named(things, goes)
    whys = {name: _age(rule) if name in old else _room(rule) for name in goes}
    freed = Freed()
    frees = {one.name: freed.take(one) for one in order if one.name in goes}
    return [
        Decision(
            thing=one,
            goes=one.name in goes,
            why=whys.get(one.name) or held.get(one.name, "within what is kept"),
            frees=frees.get(one.name, 0),
        )
        for one in things
    ]


def _at(thing: Thing) -> float:
    return float("-inf") if thing.at is None else thing.at


def _held(things: Sequence[Thing], rule: Rule, now: float) -> dict[str, str]:
    """Why each thing that no rule may take stays."""
    held: dict[str, str] = {}
    dated = sorted((one for one in things if one.at is not None), key=lambda one: (-_at(one), one.name))
    newest = {one.name for one in [one for one in dated if _at(one) <= now + SLACK_S][: rule.keep_last]}
    for one in things:
        if one.held:
            held[one.name] = "; ".join(one.held)
        elif one.at is None:
            held[one.name] = "nothing tells how old it is"
        elif one.at > now + SLACK_S:
            held[one.name] = "its date is in the future: a clock was wrong"
        elif one.name in newest:
            held[one.name] = f"one of the newest {rule.keep_last}"
        elif one.cut_off and (why := _not_yet(one, rule, now)):
            held[one.name] = why
    return _with_named(things, held)


def _not_yet(thing: Thing, rule: Rule, now: float) -> str:
    """Why something that was cut off stays; empty where it may go."""
    if not rule.cut_off:
        return "not finished: it can be resumed (--cut-off lets it go)"
    if rule.keep_days is None or _at(thing) >= now - rule.keep_days * DAY_S:
        return "not finished, and younger than what may go so"
    return ""


def _with_named(things: Sequence[Thing], held: Mapping[str, str]) -> dict[str, str]:
    """With all that those which stay name, and what these name."""
    by_name = {one.name: one for one in things}
    found = dict(held)
    waiting = [one for one in things if one.name in found]
    while waiting:
        namer = waiting.pop()
        for name in sorted(namer.names - found.keys()):
            if name in by_name:
                found[name] = f"{namer.name} names it, and stays"
                waiting.append(by_name[name])
    return found


def _as_young_as_namers(things: Sequence[Thing]) -> dict[str, float]:
    """The time of each thing, or of the youngest that names it over however many others."""
    by_name = {one.name: one for one in things}
    ages = {one.name: _at(one) for one in things}
    # The youngest first: what it reaches is as young as it is, and is never reached better.
    done: set[str] = set()
    for first in sorted(things, key=lambda one: (-_at(one), one.name)):
        waiting = [first.name]
        while waiting:
            name = waiting.pop()
            if name in done:
                continue
            done.add(name)
            ages[name] = max(ages[name], _at(first))
            waiting += [one for one in by_name[name].names if one in by_name]
    return ages


def _wanted(things: Sequence[Thing], order: Sequence[Thing], old: set[str], rule: Rule) -> set[str]:
    """Names of what is too old, and then of the oldest until the rest fits."""
    goes = set(old)
    if rule.keep_bytes is None:
        return goes
    freed = Freed()
    left = space(things) - sum(freed.take(one) for one in order if one.name in old)
    for one in order:
        if left <= rule.keep_bytes:
            break
        if one.name not in goes:
            left -= freed.take(one)
            goes.add(one.name)
    return goes


def _without_named(things: Sequence[Thing], goes: set[str]) -> set[str]:
    """Without what something that stays names."""
    while True:
        wanted = {name for one in things if one.name not in goes for name in one.names}
        if not goes & wanted:
            return goes
        goes = goes - wanted


def _age(rule: Rule) -> str:
    return f"older than {rule.keep_days:g} days"


def _room(rule: Rule) -> str:
    return f"beyond {(rule.keep_bytes or 0) / GIB:g} GiB"


def hold(things: Iterable[Thing], names: Mapping[str, str]) -> list[Thing]:
    """The things, with a reason to stay for those that are named.

    Args:
        things: of a kind.
        names: the reason by name.
    """
    return [replace(one, held=(*one.held, names[one.name])) if one.name in names else one for one in things]
