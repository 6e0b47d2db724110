"""A comparison as the part of a comment on a pull request: the same lines, wherever it is asked for. Pure.

Whatever comes from a run stands in code, as in a run's summary: it makes no link, no mention and no markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ci.compare.comparison import Comparison
from ci.compare.times import Finding
from ci.compare.verdicts import Change, Kind, Test
from ci.compare.words import (
    LISTED,
    because,
    came_and_went,
    counted_lines,
    finding_line,
    findings,
    judged_line,
    machine_lines,
    nothing_line,
    time_lines,
    unlike_lines,
)
from ci.report.summary import code

MAX_NAMES = 10
# Where it matters what a test was.
_EXPLAINED = frozenset({Kind.FAILING_UNKNOWN, Kind.FLAKY_UNKNOWN, Kind.NEWLY_SKIPPED})


def render_markdown(comparison: Comparison[Test], against: str, *, limit: int = MAX_NAMES) -> str:
    """What changed, whole.

    Args:
        comparison: of two runs.
        against: what the other run is called.
        limit: how many tests of a kind are named; 0 for all.
    """
    return "\n\n".join(sections(comparison, against, limit=limit))


def sections(comparison: Comparison[Test], against: str, *, limit: int = MAX_NAMES) -> list[str]:
    """What changed: first what became of tests; then, where there is any, which tests and seconds are others.

    Args:
        comparison: of two runs.
        against: what the other run is called.
        limit: how many tests of a kind are named; 0 for all.
    """
    rest = [*_existence(comparison, limit), *_times(comparison, limit)]
    title = f"#### Tests and seconds against {code(against, 200)}"
    return [_verdicts(comparison, against, limit), *(["\n".join([title, "", *rest])] if rest else [])]


def _verdicts(comparison: Comparison[Test], against: str, limit: int) -> str:
    lines = [f"#### Against {code(against, 200)}", ""]
    if comparison.unlike:
        lines += [f"Not alike: {'; '.join(code(one, 200) for one in unlike_lines(comparison))}", ""]
    if comparison.nothing:
        lines.append(f"- {nothing_line(comparison)}")
    for kind in LISTED:
        if found := comparison.changes[kind]:
            lines.append(f"- **{len(found):,} {kind.words}**{_tests(found, kind, limit)}")
    return "\n".join([*lines, *(f"- {line}" for line in counted_lines(comparison))])


def _existence(comparison: Comparison[Test], limit: int) -> Iterator[str]:
    for words, ids in came_and_went(comparison):
        shown = ids[: limit or None]
        names = "".join(f"\n  - {code(one, 300)}" for one in shown)
        yield f"- **{words}**{names}{_more(len(ids) - len(shown))}"


def _times(comparison: Comparison[Test], limit: int) -> Iterator[str]:
    times = comparison.times
    for words, found in findings(times):
        yield f"- **{words}**{_found(found, limit)}"
    notes = [*machine_lines(comparison, always=False), *time_lines(comparison)] if not times.too_few else []
    yield from (f"- {code(line, 300) if _foreign(line) else line}" for line in notes)
    if times.found:
        yield f"- {judged_line(comparison)}"


def _foreign(line: str) -> bool:
    """Whether a line holds a word of a run: what its cards are called."""
    return line.startswith("card ")


def _tests(found: Sequence[Change[Test]], kind: Kind, limit: int) -> str:
    shown = found[: limit or None]
    said = "".join(
        f"\n  - {code(one.id, 300)}" + (f" ({because(one)})" if kind in _EXPLAINED else "") for one in shown
    )
    return said + _more(len(found) - len(shown))


def _found(found: Sequence[Finding], limit: int) -> str:
    shown = found[: limit or None]
    said = "".join(f"\n  - {code(one.name, 300)}: {finding_line(one)}" for one in shown)
    return said + _more(len(found) - len(shown))


def _more(left: int) -> str:
    return f"\n  - and {left:,} more" if left > 0 else ""
