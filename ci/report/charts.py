"""Charts as SVG text: lines over logarithmic axes, and bars over time.

Every label is escaped here; a chart is whole by itself and needs no script, style sheet or network.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import escape

from ci.core.svg import Axis
from ci.core.text import span

WIDTH, HEIGHT, MARGIN = 900.0, 420.0, 70.0
COLOURS = ("#0f62fe", "#8a3ffc", "#007d79", "#9f1853", "#b28600", "#198038")
KINDS = {"setup": "#c6c6c6", "tests": "#0f62fe", "stolen": "#ff832b"}
ROW = 6.0
# Round to people: seconds, minutes, hours, days.
MOMENTS = (
    *(0.001, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0),
    *(60.0, 180.0, 600.0, 1800.0),
    *(3600.0, 3 * 3600.0, 10 * 3600.0, 24 * 3600.0, 72 * 3600.0, 240 * 3600.0),
    *(1000 * 3600.0, 1e4 * 3600.0, 1e5 * 3600.0, 1e6 * 3600.0),
)


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


def line_chart(title: str, lines: Sequence[Line], *, x_label: str, y_label: str, mark_label: str = "") -> str:
    """Lines of seconds over counts, both in logarithms; lines that coincide are dashed in turn."""
    xs = [x for line in lines for x, _ in line.points] or [1.0]
    ys = [max(y, 1e-3) for line in lines for _, y in line.points] or [1.0]
    across = Axis(low=min(xs), high=max(xs), start=MARGIN, end=WIDTH - 160, log=True)
    up = Axis(low=min(ys), high=max(ys), start=HEIGHT - MARGIN, end=MARGIN, log=True)
    parts = [
        _text(MARGIN, 24, title, size=16),
        _text((across.start + across.end) / 2, HEIGHT - 26, x_label, anchor="middle"),
        _text(4, MARGIN - 16, y_label),
    ]
    for x in _doublings(across):
        parts.append(_rule(across.at(x), MARGIN, across.at(x), HEIGHT - MARGIN))
        parts.append(_text(across.at(x), HEIGHT - MARGIN + 18, f"{x:,.0f}", anchor="middle"))
    for y in (one for one in MOMENTS if up.low <= one <= up.high):
        parts.append(_rule(MARGIN, up.at(y), WIDTH - 160, up.at(y)))
        parts.append(_text(MARGIN - 6, up.at(y) + 4, span(y), anchor="end"))
    seen = Counter[tuple[tuple[float, float], ...]]()
    for number, line in enumerate(lines):
        parts += _line(line, across, up, number, dashed=seen[line.points] > 0)
        seen[line.points] += 1
    if mark_label and any(line.mark is not None for line in lines):
        y = MARGIN + 20 * len(lines)
        parts += [_dot(WIDTH - 145, y + 5, "#525252"), _text(WIDTH - 134, y + 9, mark_label)]
    return _svg(parts, HEIGHT)


def time_bars(title: str, stretches: Iterable[Stretch], *, rows: Sequence[str], end: float) -> str:
    """What each row did when; set-up, own and stolen work in their colours; the first and last row named."""
    across = Axis(low=0.0, high=max(end, 1e-3), start=MARGIN, end=WIDTH - 40)
    height = MARGIN + len(rows) * ROW + 40
    parts = [_text(MARGIN, 24, title, size=16)]
    for number, kind in enumerate(KINDS):
        parts.append(_box(MARGIN + 110 * number, 36, 10, 10, KINDS[kind]))
        parts.append(_text(MARGIN + 16 + 110 * number, 45, {"setup": "set-up"}.get(kind, kind)))
    named = sorted({0, len(rows) - 1}) if rows else []
    parts += [_text(MARGIN - 6, MARGIN + row * ROW + 8, rows[row], anchor="end") for row in named]
    for one in stretches:
        x = across.at(one.begin)
        width = max(across.at(one.end) - x, 0.0)
        parts.append(_box(x, MARGIN + one.row * ROW, width, ROW - 1, KINDS[one.kind]))
    moments = [end * number / 4 for number in range(5)]
    parts += [_text(across.at(moment), height - 12, span(moment), anchor="middle") for moment in moments]
    return _svg(parts, height)


def as_page(title: str, charts: Iterable[str]) -> str:
    """Charts as an HTML page."""
    body = "\n".join(charts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _line(line: Line, across: Axis, up: Axis, number: int, *, dashed: bool) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    points = " ".join(f"{across.at(x)},{up.at(y)}" for x, y in line.points)
    style = ' stroke-dasharray="6 6"' if dashed else ""
    parts = [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{style}/>']
    parts.append(_box(WIDTH - 150, MARGIN + 20 * number, 10, 10, colour))
    parts.append(_text(WIDTH - 134, MARGIN + 9 + 20 * number, line.label))
    if line.mark is not None:
        y = next((y for x, y in line.points if x >= line.mark), 0.0)
        parts.append(_dot(across.at(line.mark), up.at(y), colour))
    return parts


def _doublings(axis: Axis) -> list[float]:
    first = math.ceil(math.log2(axis.low) - 1e-9)
    last = math.floor(math.log2(axis.high) + 1e-9)
    return [2.0**power for power in range(first, last + 1)]


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{colour}"/>'


def _text(x: float, y: float, text: str, size: int = 11, anchor: str = "start") -> str:
    place = f'x="{x:g}" y="{y:g}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    return f'<text {place} font-size="{size}" font-family="sans-serif">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}"/>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#e0e0e0"/>'


def _svg(parts: Iterable[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"
