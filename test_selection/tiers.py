"""Tiers: a test that needs more time, cards or memory than a tier allows moves to a later one.

Nothing is dropped: what a tier keeps and what it moves are together what it was given. In selections, whose
format is older, a tier is `bucket`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from test_selection.catalog import CatalogTest
from test_selection.rule_fields import FIELDS, Masks, Reason, bits, read_patterns, read_reason
from test_selection.yaml_reader import Reader

# From the one that runs most often to the one that may take longest; a rule moves tests to a later one.
TIERS = ("pr", "nightly", "weekly")
LATER = TIERS[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a test needs to run at all: cards at once, and memory in GiB."""

    cards: int = 1
    memory_gib: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule(Reason):
    """Moves the tests it matches to a tier, or says what they need, or both.

    Attributes:
        seconds_above: it moves only tests expected to take longer than this.
        tier: the first tier the tests may run in; empty where they are only said to need something.
        needs: what they need, or None where that is not said.
    """

    seconds_above: float | None = None
    tier: str = ""
    needs: Needs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """What a tier allows one test: seconds, cards at once, GiB of memory; None is without limit."""

    test_s: float | None = None
    cards: int | None = None
    memory_gib: float | None = None

    def refusal(self, seconds: float, needs: Needs) -> str:
        """What a test needs above what the tier allows, in words; empty where it fits."""
        if self.test_s is not None and seconds > self.test_s:
            return f"takes {seconds:.1f} s, above {self.test_s:g} s"
        if self.cards is not None and needs.cards > self.cards:
            return f"needs {needs.cards} cards, above {self.cards}"
        if self.memory_gib is not None and needs.memory_gib > self.memory_gib:
            return f"needs {needs.memory_gib:g} GiB, above {self.memory_gib:g} GiB"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSplit:
    """What a tier runs of some tests, and where the rest runs.

    Attributes:
        kept: the tests of this tier, in the order given.
        moved: by tier, the ids that run there and the reason why not here.
        beyond: the ids that need more than any tier allows, and what; they run in the last tier.
    """

    kept: list[CatalogTest]
    moved: Mapping[str, Mapping[str, str]]
    beyond: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The tier a test runs in, why where that is not the one asked for, and what no tier allows."""

    bucket: str
    reason: str = ""
    beyond: str = ""


def read_tier(row: Reader) -> TierRule:
    """Read one entry of `tiers`.

    Raises:
        SettingsError: a key or value that cannot be taken, or an entry that says nothing.
    """
    row.known("code", "text", "issue", "tier", "seconds_above", "needs", *FIELDS)
    rule = TierRule(
        **read_reason(row),
        patterns=read_patterns(row, FIELDS),
        seconds_above=row.number("seconds_above") if "seconds_above" in row.content else None,
        tier=row.choice("tier", LATER) if "tier" in row.content else "",
        needs=_needs(row.table("needs", required=True)) if "needs" in row.content else None,
    )
    if not rule.tier and rule.needs is None:
        raise row.error("code", f"tier rule {rule.code!r} has neither tier nor needs", "give it one of them")
    if not rule.patterns and rule.seconds_above is None:
        raise row.error(
            "code",
            f"tier rule {rule.code!r} matches every test",
            f"give it seconds_above or {', '.join(FIELDS)}",
        )
    return rule


def split_by_tier(
    tests: Iterable[CatalogTest],
    seconds: Mapping[str, float],
    rules: Sequence[TierRule],
    tiers: Mapping[str, Tier],
    tier: str,
) -> TierSplit:
    """Keep what a tier allows, and move every other test to the first later tier that allows it.

    Args:
        tests: what there is to run.
        seconds: what each is expected to take, by id; a test that is not in it counts as 0.
        rules: tier rules; of those that match a test, the first with a tier and the first with needs
            count.
        tiers: what each tier allows, from the most frequent to the most patient.
        tier: the tier asked for, one of `tiers`.
    """
    rows = list(tests)
    kept: list[CatalogTest] = []
    moved: dict[str, dict[str, str]] = {}
    beyond: dict[str, str] = {}
    # Most tests meet no rule that holds; what meets one often shares its rules and its estimate.
    quiet: dict[int, float] = {}
    known: dict[tuple[int, float], Destination] = {}
    for test, mask in zip(rows, Masks([one.patterns for one in rules]).each(rows), strict=True):
        takes = seconds.get(test.id, 0.0)
        if mask not in quiet:
            quiet[mask] = _quiet_below(mask, rules, tiers[tier])
        if takes <= quiet[mask]:
            kept.append(test)
            continue
        if (found := known.get((mask, takes))) is None:
            found = known[mask, takes] = destination(mask, takes, rules, tiers, tier)
        if found.bucket == tier:
            kept.append(test)
        else:
            moved.setdefault(found.bucket, {})[test.id] = found.reason
        if found.beyond:
            beyond[test.id] = found.beyond
    return TierSplit(kept=kept, moved={name: moved[name] for name in tiers if name in moved}, beyond=beyond)


def destination(
    mask: int, seconds: float, rules: Sequence[TierRule], tiers: Mapping[str, Tier], tier: str
) -> Destination:
    """Where one test runs.

    Args:
        mask: bit i is set where the patterns of rule i match the test.
        seconds: what it is expected to take.
        rules: tier rules.
        tiers: what each tier allows, in order.
        tier: the tier asked for, one of `tiers`.
    """
    matching = [rules[index] for index in bits(mask)]
    holds = [one for one in matching if one.seconds_above is None or seconds > one.seconds_above]
    needs = next((one.needs for one in holds if one.needs is not None), _MODEST)
    mover = next((one for one in holds if one.tier in tiers), None)
    names = list(tiers)
    later = names[names.index(tier) :]
    earliest = later.index(mover.tier) if mover is not None and mover.tier in later else 0
    refused = {name: tiers[name].refusal(seconds, needs) for name in later}
    fitting = [name for name in later[earliest:] if not refused[name]]
    reasons = [f"{mover.code}: {mover.text}"] if mover is not None and earliest else []
    reasons += [f"{refused[tier]} in tier {tier}"] if refused[tier] else []
    return Destination(
        bucket=fitting[0] if fitting else later[-1],
        reason="; ".join(reasons),
        beyond="" if fitting else f"{refused[later[-1]]} in tier {later[-1]}",
    )


_MODEST = Needs()


def _quiet_below(mask: int, rules: Sequence[TierRule], tier: Tier) -> float:
    """Up to how many seconds no rule of the mask holds and the tier allows a test that needs nothing."""
    if tier.refusal(0.0, _MODEST):
        return -math.inf
    limits = [rules[index].seconds_above for index in bits(mask)]
    if None in limits:
        return -math.inf
    allowed = math.inf if tier.test_s is None else tier.test_s
    return min([allowed, *(one for one in limits if one is not None)])


def _needs(row: Reader) -> Needs:
    row.known("cards", "memory_gib")
    if not row.content:
        raise row.error("needs", "needs is empty", "give cards or memory_gib")
    cards = row.content.get("cards", 1)
    if not isinstance(cards, int) or isinstance(cards, bool) or cards < 1:
        raise row.error("cards", f"cards is {cards!r}", "give a whole number of 1 or more")
    return Needs(cards=cards, memory_gib=row.number("memory_gib") if "memory_gib" in row.content else 0)
