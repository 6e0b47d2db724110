"""Numbers for a search that is to find the same in every run: neither secret nor of any statistical claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

# Knuth's multiplier and increment, MMIX (The Art of Computer Programming, volume 2, 3.3.4).
MULTIPLIER, INCREMENT, MODULUS = 6364136223846793005, 1442695040888963407, 1 << 64

Item = TypeVar("Item")


class Draws:
    """A linear congruential sequence, the high bits of which are used."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * MULTIPLIER + INCREMENT) % MODULUS

    def below(self, count: int) -> int:
        """A whole number from 0 to `count` less 1."""
        self._state = (self._state * MULTIPLIER + INCREMENT) % MODULUS
        return (self._state >> 32) * count >> 32

    def part(self) -> float:
        """A number from 0 up to, not including, 1."""
        return self.below(1 << 32) / (1 << 32)

    def heat(self) -> float:
        """An exponential draw of mean 1."""
        return -math.log(1 - self.part())

    def choice(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffle(self, items: list[Item]) -> None:
        """Put the items into another order, in place."""
        for at in range(len(items) - 1, 0, -1):
            other = self.below(at + 1)
            items[at], items[other] = items[other], items[at]
