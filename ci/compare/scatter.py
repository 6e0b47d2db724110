"""Where the points of the page stand: seconds there against seconds here, both logarithmic; pure geometry."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ci.compare.machines import Pair
from ci.compare.times import Times
from ci.core.svg import Axis
from ci.core.text import span

SIZE = 640.0
MARGIN = 56.0
MAX_POINTS = 5_000
# What is shorter stands at the edge: a clock says no more of it.
_LEAST_S = 0.001


class Point(NamedTuple):
    """A test: where it stands, its style, and what it says when pointed at; empty for the many."""

    x: float
    y: float
    kind: str
    title: str


class Tick(NamedTuple):
    """A mark of both axes, and its words."""

    at: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """The drawing, in the units of its square.

    Attributes:
        size: of each side.
        margin: where the axes stand.
        points: what is unusual last, so that it lies on top.
        ticks: of both axes, from the margin on.
        alike: ends of the line on which nothing differs.
        run: ends of the line that the whole run lies on.
        hidden: how many points are left out.
    """

    points: tuple[Point, ...]
    ticks: tuple[Tick, ...]
    alike: tuple[float, float, float, float]
    run: tuple[float, float, float, float]
    hidden: int
    size: float = SIZE
    margin: float = MARGIN


def scatter(times: Times) -> Scatter | None:
    """The drawing; None where no test passed in both runs."""
    if not times.pairs:
        return None
    seconds = [value for one in times.pairs for value in (one.base_s, one.now_s)]
    low = math.floor(math.log10(max(min(seconds), _LEAST_S)))
    high = max(math.ceil(math.log10(max(*seconds, _LEAST_S))), low + 1)
    # Along an axis, powers of ten.
    scale = Axis(low=low, high=high, start=MARGIN, end=SIZE - MARGIN)
    kinds = {one.name: "slower" if one.more_s > 0 else "faster" for one in times.tests}
    usual = [one for one in times.pairs if one.name not in kinds]
    shown = _thinned(usual, max(MAX_POINTS - len(kinds), 0))
    odd = [one for one in times.pairs if one.name in kinds][:MAX_POINTS]
    points = [*(_point(one, "usual", scale) for one in shown)]
    points += [_point(one, kinds[one.name], scale) for one in odd]
    shift = math.log10(times.machines.ratio)
    return Scatter(
        points=tuple(points),
        ticks=tuple(Tick(scale.at(power), _seconds(power)) for power in range(low, high + 1)),
        alike=_line(scale, 0.0),
        run=_line(scale, shift),
        hidden=len(times.pairs) - len(points),
    )


def _line(scale: Axis, shift: float) -> tuple[float, float, float, float]:
    """The ends of a line on which what is here is so many powers of ten of what is there; y upwards."""
    left, right = max(scale.low, scale.low - shift), min(scale.high, scale.high - shift)
    if left >= right:  # it does not cross the drawing
        return (MARGIN, MARGIN, MARGIN, MARGIN)
    return (scale.at(left), scale.at(left + shift), scale.at(right), scale.at(right + shift))


def _point(one: Pair, kind: str, scale: Axis) -> Point:
    title = "" if kind == "usual" else f"{one.name}: {span(one.now_s)} here, {span(one.base_s)} there"
    x, y = (scale.at(math.log10(max(seconds, _LEAST_S))) for seconds in (one.base_s, one.now_s))
    return Point(x, y, kind, title)


def _thinned(pairs: Sequence[Pair], most: int) -> Collection[Pair]:
    """At most so many, evenly, and the same ones each time."""
    if len(pairs) <= most:
        return pairs
    return [*_every(pairs, most)]


def _every(pairs: Sequence[Pair], most: int) -> Iterator[Pair]:
    for number in range(most):
        yield pairs[number * len(pairs) // most]


def _seconds(power: int) -> str:
    return f"{10**power:g} s" if power >= 0 else f"{10 ** (power + 3):g} ms"
