"""The page of a search: one file that needs nothing else, whatever commits and tests say; pure."""

from __future__ import annotations

from dataclasses import dataclass

from ci.bisect.record import Record
from ci.bisect.text import binned, command_of, effort, percent
from ci.core.templates import harmless_environment

FILE = "report.html"
WIDTH, HEIGHT, BINS, TRIES = 1000.0, 100.0, 200, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A rectangle of the drawing, and what it says when pointed at."""

    x: float
    width: float
    title: str
    y: float = 0.0
    height: float = 0.0
    kind: str = ""


def render(record: Record) -> str:
    """The page as HTML."""
    result = record.result
    headline = "not ended"
    if result is not None:
        headline = (
            "" if result["sure"] else "not clear: "
        ) + f"{result['words']}: {percent(result['probability'])}"
    page = harmless_environment("ci.bisect").get_template("bisect.html")
    return page.render(
        record=record,
        result=result,
        headline=headline,
        effort=effort(record),
        masses=masses(record),
        marks=marks(record),
        tries=record.tries[-TRIES:],
        hidden=max(len(record.tries) - TRIES, 0),
        barred=sorted(record.barred.items()),
        again=command_of(record),
    )


def masses(record: Record) -> list[Mark]:
    """The probabilities of the candidates, neighbours together where there are many."""
    inner = record.belief().masses[1:-1]
    bins = binned(inner, BINS)
    top, width = max(bins) or 1.0, WIDTH / len(bins)
    found = []
    for number, one in enumerate(bins):
        first, after = (-(-edge * len(inner) // len(bins)) for edge in (number, number + 1))
        height = round(HEIGHT * one / top, 2)
        title = f"{record.commits[first + 1][:12]}" + (
            f" to {record.commits[after][:12]}" if after > first + 1 else ""
        )
        found.append(
            Mark(
                x=round(number * width, 2),
                width=round(width, 2),
                y=round(HEIGHT - height, 2),
                height=height,
                title=f"{title}: {percent(one)}",
            )
        )
    return found


def marks(record: Record) -> list[Mark]:
    """Where something was tried."""
    found = []
    for position in sorted({one.position for one in record.tries}):
        seen = record.seen(position)
        if seen.tries:
            found.append(
                Mark(
                    x=round(WIDTH * max(position - 1, 0) / record.last, 2),
                    width=round(max(WIDTH / record.last, 3), 2),
                    kind="failed" if seen.failed else "passed",
                    title=f"{record.commits[position][:12]}: {seen.passed} passed, {seen.failed} failed",
                )
            )
    return found
