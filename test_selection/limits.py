"""What a plan keeps to besides the number of cards: who runs alone, in order, on how many cards, how fast."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from test_selection.errors import UsageError


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


def check_limits(limits: Limits, shards: int) -> None:
    """Refuse limits no plan over `shards` cards could be made with, whatever the tests.

    Raises:
        UsageError: a number is out of its range, or there is not one speed for each card.
    """
    if limits.speeds and len(limits.speeds) != shards:
        raise UsageError(
            f"{len(limits.speeds)} speeds are given for {shards} cards",
            where="speeds",
            remedy="give one factor for each card, or none",
        )
    for number, speed in enumerate(limits.speeds):
        if not _is_number(speed, int, float) or not 0 < speed < math.inf:
            raise UsageError(
                f"the speed of card {number} is {speed!r}",
                where="speeds",
                remedy="give a factor above 0, 1 for a card of usual speed",
            )
    if limits.max_files is not None and limits.max_files < 1:
        raise UsageError(
            f"at most {limits.max_files} files a shard leave nothing to run",
            where="max_files",
            remedy="allow 1 file a shard or more",
        )
    for name, cards in limits.cards.items():
        if not _is_number(cards, int) or cards < 1:
            raise UsageError(
                f"{name!r} needs {cards!r} cards", where="cards", remedy="give a whole number from 1"
            )
    for file, seconds in limits.timeouts.items():
        if not _is_number(seconds, int, float) or not 0 < seconds < math.inf:
            raise UsageError(
                f"the time-out of {file!r} is {seconds!r}", where="timeouts", remedy="give seconds above 0"
            )


def _is_number(value: object, *kinds: type) -> bool:
    # A flag is a whole number to Python and never one to a person.
    return isinstance(value, kinds) and not isinstance(value, bool)
