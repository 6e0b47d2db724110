"""A comparison as the part of a comment on a pull request: the same lines, wherever it is asked for. Pure.

Whatever comes from a run stands in code, as in a run's summary: it makes no link, no mention and no markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ci.report.compare.changes import Change, Kind, Test
from ci.report.compare.comparison import Comparison
from ci.report.compare.lines import (
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
            tests = (_test(one, kind) for one in found)
            lines.append(f"- **{len(found):,} {kind.words}**{_listed(tests, len(found), limit)}")
    return "\n".join([*lines, *(f"- {line}" for line in counted_lines(comparison))])


def _existence(comparison: Comparison[Test], limit: int) -> Iterator[str]:
    for words, ids in came_and_went(comparison):
        yield f"- **{words}**{_listed((code(one, 300) for one in ids), len(ids), limit)}"


def _times(comparison: Comparison[Test], limit: int) -> Iterator[str]:
    times = comparison.times
    for words, found in findings(times):
        rows = (f"{code(one.name, 300)}: {finding_line(one)}" for one in found)
        yield f"- **{words}**{_listed(rows, len(found), limit)}"
    notes = [*machine_lines(comparison, always=False), *time_lines(comparison)] if not times.too_few else []
    yield from (f"- {code(line, 300) if _foreign(line) else line}" for line in notes)
    if times.found:
        yield f"- {judged_line(comparison)}"


def _foreign(line: str) -> bool:
    """Whether a line holds a word of a run: what its cards are called."""
    return line.startswith("card ")


def _test(change: Change[Test], kind: Kind) -> str:
    return code(change.id, 300) + (f" ({because(change)})" if kind in _EXPLAINED else "")


def _listed(lines: Iterable[str], number: int, limit: int) -> str:
    """Lines below another, of so many; those beyond the limit are counted, and not made."""
    said = "".join(f"\n  - {line}" for line in islice(lines, limit or None))
    return said + (f"\n  - and {number - limit:,} more" if 0 < limit < number else "")
