"""A card, and several as one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Positions of cards in the list the host gives, as CUDA_VISIBLE_DEVICES has them.
CARDS_VARIABLE = "SPYRE_DEVICES"
# The emulated device's own; `ci.device.faults` reads it.
EMULATED_VARIABLE = "SPYRE_CI_CARD"
# The device that can be emulated, and what asks for that (`1`) or rules it out (`0`).
EMULATED_DEVICE = "spyre"
EMULATE = "SPYRE_CI_EMULATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One accelerator: its name in reports, and what tells a process to use it."""

    name: str
    environment: Mapping[str, str]


def together(cards: Sequence[Card]) -> Card:
    """Several cards as one, for tests that need them at once."""
    if len(cards) == 1:
        return cards[0]
    environment: dict[str, str] = {}
    for card in cards:
        for name, value in card.environment.items():
            environment[name] = f"{environment[name]},{value}" if name in environment else value
    return Card(name="+".join(one.name for one in cards), environment=environment)


def at_fault(cards: Sequence[Card], reason: str) -> list[Card]:
    """Those of several cards, used as one, that a reason names; all of them where it names none."""
    named = [
        card for card in cards if re.search(rf"(?<![\w.:-]){re.escape(card.name)}(?![\w:-]|\.\w)", reason)
    ]
    return named or list(cards)
