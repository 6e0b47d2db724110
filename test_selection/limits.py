"""What a plan keeps to: which cards there are, and who runs alone, in order or on several of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from test_selection.catalog import CatalogTest
from test_selection.rule_fields import FIELDS, Masks, Reason, bits, read_patterns, read_reason
from test_selection.tiers import TierRule
from test_selection.yaml_reader import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Cards, fastest first.

    Attributes:
        count: how many there are.
        speeds: one factor a card, descending; empty where all are of speed 1.
    """

    count: int
    speeds: tuple[float, ...] = ()

    @property
    def total(self) -> float:
        """Seconds of work all cards do in a second."""
        return sum(self.speeds) if self.speeds else float(self.count)

    @property
    def fastest(self) -> float:
        """The factor of the fastest card."""
        return self.speeds[0] if self.speeds else 1.0

    def left(self) -> CardsLeft:
        """All of them, to be taken one shard after the other."""
        return CardsLeft(self)


class CardsLeft:
    """Cards no shard has taken yet."""

    def __init__(self, cards: Cards) -> None:
        self.count = cards.count
        self._speeds = list(cards.speeds)

    def best_speed(self, width: int) -> float:
        """The speed of the shard that `take` would give; 0 where too few cards are left."""
        if width > self.count:
            return 0.0
        return 1.0 if not self._speeds else self._speeds[self._window(width) + width - 1]

    def take(self, width: int) -> float:
        """Take `width` cards for one shard; its speed is that of the slowest of them."""
        self.count -= width
        if not self._speeds:
            return 1.0
        at = self._window(width)
        speed = self._speeds[at + width - 1]
        del self._speeds[at : at + width]
        return speed

    def _window(self, width: int) -> int:
        """Neighbours in speed that waste least by waiting for the slowest, the faster ones on a tie."""
        if width == 1:
            return 0
        speeds = self._speeds
        starts = range(len(speeds) - width + 1)
        return min(starts, key=lambda at: (sum(speeds[at : at + width]) - width * speeds[at + width - 1], at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Constraints on a plan; the default constrains nothing. Ids that are not planned count for nothing.

    Attributes:
        alone: ids that run in a group of their own, in a fresh process; each pays its file's set-up itself.
        in_order: the chain each id belongs to. The tests of one chain and file stay together on one shard,
            side by side, in the order in which this mapping lists them.
        cards: how many cards a test needs at once, 1 where it is not listed.
        speeds: one factor a card, 1 for a card that takes the expected seconds and 0.5 for one that takes
            twice as long; empty for equal cards. Set-up counts as work of the card like the tests.
        max_files: at most so many different files a shard.
        timeouts: seconds by file, handed on with each of its groups; they do not shape the plan.
    """

    alone: Collection[str] = ()
    in_order: Mapping[str, str] = field(default_factory=dict)
    cards: Mapping[str, int] = field(default_factory=dict)
    speeds: tuple[float, ...] = ()
    max_files: int | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)


NO_LIMITS = Limits()


CHAINS = ("class", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRule(Reason):
    """How the tests it matches run.

    Attributes:
        alone: whether each runs in a process of its own.
        in_order: `class` or `file`, whose tests stay together in source order; empty where they need not.
    """

    alone: bool = False
    in_order: str = ""


def read_order(row: Reader) -> OrderRule:
    """Read one entry of `order`.

    Raises:
        SettingsError: a key or value that cannot be taken, or an entry that says nothing or both.
    """
    row.known("code", "text", "alone", "in_order", *FIELDS)
    reason, alone = read_reason(row), row.flag("alone")
    in_order = row.choice("in_order", CHAINS) if "in_order" in row.content else ""
    if alone == bool(in_order):
        said = "both alone and in_order" if alone else "neither alone nor in_order"
        raise row.error("code", f"order rule {reason['code']!r} has {said}", "give it one of them")
    patterns = read_patterns(row, FIELDS)
    if not patterns:
        raise row.error(
            "code", f"order rule {reason['code']!r} matches every test", f"give it one of {', '.join(FIELDS)}"
        )
    return OrderRule(**reason, patterns=patterns, alone=alone, in_order=in_order)


def limits_of(tests: Iterable[CatalogTest], order: Sequence[OrderRule], tiers: Sequence[TierRule]) -> Limits:
    """What a plan of these tests keeps to; the first rule that matches a test decides how it runs.

    Args:
        tests: in source order, which chains keep.
        order: `Rules.order`.
        tiers: `Rules.tiers`; of those that match a test, the first with needs says how many cards.
    """
    rows = list(tests)
    alone: set[str] = set()
    in_order: dict[str, str] = {}
    for test, mask in zip(rows, Masks([one.patterns for one in order]).each(rows), strict=True):
        if not mask:
            continue
        rule = order[next(bits(mask))]
        if rule.alone:
            alone.add(test.id)
        else:
            in_order[test.id] = test.cls if rule.in_order == "class" else ""
    return Limits(alone=alone, in_order=in_order, cards=_cards(rows, tiers))


def _cards(tests: Sequence[CatalogTest], tiers: Sequence[TierRule]) -> dict[str, int]:
    rules = [one for one in tiers if one.needs is not None]
    found = {}
    for test, mask in zip(tests, Masks([one.patterns for one in rules]).each(tests), strict=True):
        needs = rules[next(bits(mask))].needs if mask else None
        if needs is not None and needs.cards > 1:
            found[test.id] = needs.cards
    return found
