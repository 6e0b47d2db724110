"""Where the parts of a chart stand: pure geometry; a template draws it, and escapes what it says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ci.core.svg import Segment
from ci.hud.server.pages.render import VERDICTS

WIDTH, HEIGHT = 640.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 8.0, 10.0, 22.0
SPARK_WIDTH, SPARK_HEIGHT = 300.0, 40.0
BAR, LEAST = 1000.0, 6.0
LEAST_AXIS = 1e-6
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line: its name, its style and its points as (epoch seconds, value), in the order of time."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over time with their axes; their points are pixels."""

    width: float
    height: float
    lines: Sequence[Series]
    across: Sequence[tuple[float, str]]
    up: Sequence[tuple[float, str]]
    limit: float | None
    label: str


def verdict_bar(counts: Mapping[str, int]) -> list[Segment]:
    """Verdicts as one full bar in the order of words.VERDICTS; none that is there is too thin to see."""
    present = [name for name in VERDICTS if counts.get(name, 0) > 0]
    total = sum(counts[name] for name in present)
    spare = BAR - LEAST * len(present)
    made, x = [], 0.0
    for name in present:
        width = LEAST + spare * counts[name] / total
        title = f"{counts[name]:,} {VERDICTS[name].word}"
        made.append(Segment(x=round(x, 1), width=round(width, 1), kind=name, title=title))
        x += width
    return made


def time_chart(
    series: Sequence[Series], *, label: str, unit: str, top: float | None = None, limit: float | None = None
) -> Chart | None:
    """Lines over one time axis from 0 up; None where there is no point.

    Args:
        series: the lines.
        label: what the chart says, for who cannot see it.
        unit: of the values: `s`, `%` (values from 0 to 1) or empty for plain numbers.
        top: the upper end of the axis; else what the values need.
        limit: a value to draw a line at.
    """
    points = [point for line in series for point in line.points]
    if not points:
        return None
    begin, end = min(x for x, _ in points), max(x for x, _ in points)
    most = max([y for _, y in points] + ([limit] if limit is not None else []))
    ticks = _ticks(top if top is not None else most, unit)
    high = top if top is not None else ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - begin) / (end - begin) if end > begin else 0.5
        return (
            round(LEFT + across * (WIDTH - LEFT - RIGHT), 1),
            round(HEIGHT - BOTTOM - min(max(y / high, 0.0), 1.0) * (HEIGHT - TOP - BOTTOM), 1),
        )

    return Chart(
        width=WIDTH,
        height=HEIGHT,
        lines=[replace(line, points=[place(x, y) for x, y in line.points]) for line in series],
        across=[(place(x, 0)[0], _day(x)) for x in _moments(begin, end)],
        up=[(place(begin, value)[1], say(value, unit)) for value in ticks],
        limit=None if limit is None else place(begin, limit)[1],
        label=label,
    )


def spark(values: Sequence[float]) -> str:
    """Values in their order as the points of a line from 0 up; empty where there are fewer than two."""
    if len(values) < 2:  # noqa: PLR2004  # a line has two ends
        return ""
    most = max(values) or 1.0
    step = SPARK_WIDTH / (len(values) - 1)
    return " ".join(
        f"{number * step:.1f},{SPARK_HEIGHT - 2 - value / most * (SPARK_HEIGHT - 4):.1f}"
        for number, value in enumerate(values)
    )


def say(value: float, unit: str) -> str:
    """A value of an axis."""
    if unit == "%":
        return f"{100 * value:g} %"
    if unit == "s":
        if value >= 3600:  # noqa: PLR2004  # an hour
            return f"{value / 3600:g} h"
        return f"{value / 60:g} min" if value >= 60 else f"{value:g} s"  # noqa: PLR2004  # a minute
    return f"{value:,.12g}"


def _ticks(most: float, unit: str) -> list[float]:
    """Round values from 0 to at least `most`, about four."""
    most = most if most > LEAST_AXIS and math.isfinite(most) else 1.0
    if unit == "s" and 4 < most <= 4 * _SECONDS[-1]:  # noqa: PLR2004  # else powers of ten do
        step = next(float(one) for one in _SECONDS if one * 4 >= most)
    else:
        power = 10.0 ** math.floor(math.log10(most / 4))
        step = next(one * power for one in _STEPS if one * power * 4 >= most * (1 - 1e-9))
    count = max(1, math.ceil(most / step - 1e-9))
    return [round(step * number, 12) for number in range(count + 1)]


def _moments(begin: float, end: float) -> list[float]:
    return [begin + (end - begin) * part / 4 for part in range(5)] if end > begin else [begin]


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%d %b")
