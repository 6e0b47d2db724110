"""The cards a plan may use: how many, how fast, and taking several at once for a wide shard."""

from __future__ import annotations

from dataclasses import dataclass


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
    def equal(self) -> bool:
        """Whether all cards are of speed 1."""
        return not self.speeds

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
        self._equal = cards.equal

    def best_speed(self, width: int) -> float:
        """The speed of the shard that `take` would give; 0 where too few cards are left."""
        if width > self.count:
            return 0.0
        return 1.0 if self._equal else self._speeds[self._window(width) + width - 1]

    def take(self, width: int) -> float:
        """Take `width` cards for one shard; its speed is that of the slowest of them."""
        self.count -= width
        if self._equal:
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
