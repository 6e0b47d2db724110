"""Where the parts of a drawing stand: pure geometry; who draws it escapes what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of a bar: where it starts, how wide it is, its style and what it says when pointed at."""

    x: float
    width: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values from `low` to `high` over pixels from `start` to `end`, in logarithms where `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value; what lies outside is put at the edge."""
        low, high, one = (
            (math.log(v) if self.log else v) for v in (self.low, self.high, max(value, self.low))
        )
        share = 0.0 if high <= low else min((one - low) / (high - low), 1.0)
        return round(self.start + share * (self.end - self.start), 2)
