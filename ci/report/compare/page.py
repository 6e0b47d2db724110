"""Render a comparison as one file that needs nothing else, safe to open whatever tests call themselves.

Everything that comes from runs passes the template engine's escaping, and the page's own policy forbids
scripts and any request. Lists are capped. The drawing is geometry here, which the template draws: seconds
there against seconds here, both logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ci.core.svg import Axis
from ci.core.templates import harmless_environment
from ci.core.text import span
from ci.report.compare.changes import Test
from ci.report.compare.comparison import Check, Comparison
from ci.report.compare.lines import (
    LISTED,
    because,
    counted_lines,
    finding_line,
    findings,
    judged_line,
    machine_lines,
    tested_line,
    time_lines,
    unlike_lines,
)
from ci.report.compare.machines import Pair
from ci.report.compare.times import Times

SIZE = 640.0
MARGIN = 56.0
MAX_POINTS = 5_000
# What is shorter stands at the edge: a clock says no more of it.
_LEAST_S = 0.001
MAX_ROWS = 200


def render_page(comparison: Comparison[Test], outcome: Check) -> str:
    """The whole page; the same comparison gives the same text."""
    existence = comparison.existence
    context = {
        "now": comparison.now,
        "base": comparison.base,
        "outcome": outcome,
        "tested": tested_line(comparison),
        "unlike": unlike_lines(comparison),
        "counts": [(kind, number) for kind, number in comparison.changes.counts.items() if number],
        "kinds": [(kind, comparison.changes[kind]) for kind in LISTED if comparison.changes[kind]],
        "notes": [*counted_lines(comparison), *time_lines(comparison)],
        "machines": list(machine_lines(comparison)),
        "findings": findings(comparison.times),
        "judged": "" if comparison.times.too_few else judged_line(comparison),
        "existence": [
            ("Appeared", existence.appeared),
            ("Vanished", existence.vanished),
            ("Moved", tuple(f"{old} → {new}" for new, old in existence.moved.items())),
        ],
        "drawing": scatter(comparison.times),
        "most": MAX_ROWS,
    }
    environment = harmless_environment("ci.report.compare")
    environment.filters |= {"because": because, "finding": finding_line}
    return environment.get_template("compare.html").render(context) + "\n"


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
    title = "" if kind == "usual" else f"{one.name}: base {span(one.base_s)}, new {span(one.now_s)}"
    x, y = (scale.at(math.log10(max(seconds, _LEAST_S))) for seconds in (one.base_s, one.now_s))
    return Point(x, y, kind, title)


def _thinned(pairs: Sequence[Pair], most: int) -> Sequence[Pair]:
    """At most so many, evenly, and the same ones each time."""
    if len(pairs) <= most:
        return pairs
    return [pairs[number * len(pairs) // most] for number in range(most)]


def _seconds(power: int) -> str:
    return f"{10**power:g} s" if power >= 0 else f"{10 ** (power + 3):g} ms"
