"""Charts as SVG text: lines over logarithmic axes, and bars over time. The one place that scales axes.

Every label is escaped here; a chart is whole by itself and needs no script, style sheet or network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import escape

from ci.report.text import span

WIDTH, HEIGHT, MARGIN = 900.0, 420.0, 70.0
COLOURS = ("#0f62fe", "#8a3ffc", "#007d79", "#9f1853", "#b28600", "#198038")
KINDS = {"setup": "#c6c6c6", "tests": "#0f62fe", "stolen": "#ff832b"}
ROW = 6.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A named line through (x, y), and a marked x where one is."""

    label: str
    points: tuple[tuple[float, float], ...]
    mark: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of a row: from when to when, in seconds, and what it is."""

    row: int
    begin: float
    end: float
    kind: str


def line_chart(title: str, lines: Sequence[Line], *, x_label: str) -> str:
    """Lines of seconds over counts, both in logarithms."""
    xs = [x for line in lines for x, _ in line.points] or [1.0]
    ys = [max(y, 1e-3) for line in lines for _, y in line.points] or [1.0]
    across = Axis(low=min(xs), high=max(xs), start=MARGIN, end=WIDTH - 160, log=True)
    up = Axis(low=min(ys), high=max(ys), start=HEIGHT - MARGIN, end=MARGIN, log=True)
    parts = [_text(MARGIN, 24, title, size=16), _text(WIDTH / 2 - 60, HEIGHT - 16, x_label)]
    for x in _ticks(across, 2.0):
        parts.append(_rule(across.at(x), MARGIN, across.at(x), HEIGHT - MARGIN))
        parts.append(_text(across.at(x) - 8, HEIGHT - MARGIN + 18, f"{x:,.0f}"))
    for y in _ticks(up, 10.0):
        parts.append(_rule(MARGIN, up.at(y), WIDTH - 160, up.at(y)))
        parts.append(_text(4, up.at(y) + 4, span(y)))
    for number, line in enumerate(lines):
        parts += _line(line, across, up, COLOURS[number % len(COLOURS)], number)
    return _svg(parts, HEIGHT)


def time_bars(title: str, stretches: Iterable[Stretch], *, rows: int, end: float, row_name: str) -> str:
    """What each row did when; set-up, own and stolen work in their colours."""
    across = Axis(low=0.0, high=max(end, 1e-3), start=MARGIN, end=WIDTH - 20)
    height = MARGIN + rows * ROW + 40
    parts = [_text(MARGIN, 24, title, size=16)]
    for number, kind in enumerate(KINDS):
        parts.append(_box(MARGIN + 110 * number, 36, 10, 10, KINDS[kind]))
        parts.append(_text(MARGIN + 16 + 110 * number, 45, {"setup": "set-up"}.get(kind, kind)))
    parts.append(_text(4, MARGIN + 8, f"{row_name} 0"))
    parts.append(_text(4, MARGIN + rows * ROW, f"{row_name} {rows - 1}"))
    for one in stretches:
        x = across.at(one.begin)
        width = max(across.at(one.end) - x, 0.0)
        parts.append(_box(x, MARGIN + one.row * ROW, width, ROW - 1, KINDS[one.kind]))
    moments = [end * number / 4 for number in range(5)]
    parts += [_text(across.at(moment) - 10, height - 12, span(moment)) for moment in moments]
    return _svg(parts, height)


def as_page(title: str, charts: Iterable[str]) -> str:
    """Charts as an HTML page."""
    body = "\n".join(charts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _line(line: Line, across: Axis, up: Axis, colour: str, number: int) -> list[str]:
    points = " ".join(f"{across.at(x)},{up.at(y)}" for x, y in line.points)
    parts = [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>']
    parts.append(_box(WIDTH - 150, MARGIN + 20 * number, 10, 10, colour))
    parts.append(_text(WIDTH - 134, MARGIN + 9 + 20 * number, line.label))
    if line.mark is not None:
        y = next((y for x, y in line.points if x >= line.mark), 0.0)
        x, height = across.at(line.mark), up.at(y)
        parts.append(f'<circle cx="{x}" cy="{height}" r="5" fill="{colour}"/>')
    return parts


def _ticks(axis: Axis, factor: float) -> list[float]:
    first = math.ceil(math.log(axis.low, factor) - 1e-9)
    last = math.floor(math.log(axis.high, factor) + 1e-9)
    return [factor**power for power in range(first, last + 1)]


def _text(x: float, y: float, text: str, size: int = 11) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-family="sans-serif">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}"/>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#e0e0e0"/>'


def _svg(parts: Iterable[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"
