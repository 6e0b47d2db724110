"""A comparison in text: at a terminal, and as part of a comment on a pull request; a page has the same lines.

In Markdown whatever comes from a run stands in code, as in a run's summary: it makes no link, no mention and
no markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.core.text import counted, one_line, span
from ci.report.compare.changes import Change, Kind, Test
from ci.report.compare.comparison import Comparison
from ci.report.compare.machines import FALSE_ALARMS, TELLING_S
from ci.report.compare.times import LEAST_S, Finding, Times
from ci.report.summary import code

# Kinds that are listed test by test, in this order; the others are only counted.
LISTED = (
    Kind.NEW_FAILURES, Kind.NEW_TESTS_FAILING, Kind.NEWLY_FLAKY, Kind.FAILING_UNKNOWN, Kind.FLAKY_UNKNOWN,
    Kind.FAILING_DIFFERENTLY, Kind.QUARANTINED, Kind.STILL_FAILING, Kind.FIXED, Kind.NO_LONGER_FLAKY,
    Kind.NEWLY_SKIPPED,
)  # fmt: skip
_STYLES = {
    "red": {Kind.NEW_FAILURES, Kind.NEW_TESTS_FAILING, Kind.FAILING_UNKNOWN, Kind.FAILING_DIFFERENTLY},
    "yellow": {Kind.NEWLY_FLAKY, Kind.FLAKY_UNKNOWN, Kind.NEWLY_SKIPPED, Kind.QUARANTINED},
    "green": {Kind.FIXED, Kind.NO_LONGER_FLAKY},
}
# Where it matters in a comment what a test was.
_EXPLAINED = frozenset({Kind.FAILING_UNKNOWN, Kind.FLAKY_UNKNOWN, Kind.NEWLY_SKIPPED})
_MESSAGE, _LONGEST = 160, 2_000
MAX_NAMES = 10
# A machine that is less than this off is no news.
_WORTH_TELLING = 0.05
_WORTH_A_CARD = 0.15


def because(change: Change[Test]) -> str:
    """The outcome in base."""
    return "not planned in base" if change.base is None else f"{change.base.verdict.words} in base"


def nothing_line(comparison: Comparison[Test]) -> str:
    """What is said where nothing of note changed, as far as it was looked at."""
    longer = "" if comparison.times.too_few else ", and none is slower"
    return f"Nothing changed: no test is newly failing or newly flaky{longer}."


def unlike_lines(comparison: Comparison[Test]) -> list[str]:
    """What the runs themselves do not have in common, a line each."""
    return [
        f"{one.what}: base {one.base or 'not recorded'}, new {one.now or 'not recorded'}"
        for one in comparison.unlike
    ]


def tested_line(comparison: Comparison[Test]) -> str:
    """What was under test in each run; empty where it was the same or is not recorded."""
    now, base = comparison.now.under_test, comparison.base.under_test
    return "" if now == base else f"under test: base {base or 'not recorded'}, new {now or 'not recorded'}"


def counted_lines(comparison: Comparison[Test]) -> Iterator[str]:
    """What is counted and not listed."""
    changes, existence = comparison.changes, comparison.existence
    counts = changes.counts
    if changes.gone:
        yield f"{changes.gone:,} failing in base, not planned in the new run"
    if counts[Kind.OTHERWISE]:
        yield f"{counts[Kind.OTHERWISE]:,} {Kind.OTHERWISE.words}"
    if counts[Kind.UNKNOWN]:
        words = f"{Kind.UNKNOWN.words} (hardware, infrastructure, not run)"
        yield f"{counts[Kind.UNKNOWN]:,} not compared: {words}"
    if existence.known:
        for number, words in (
            (len(existence.moved), "moved: the same test in another file or class, compared as one"),
            (existence.untold, "perhaps added or removed: their files were not collected in both runs"),
        ):
            if number:
                yield f"{number:,} {words}"
        for where, other, files in (
            ("the new run", "base", existence.uncollected_here),
            ("base", "the new run", existence.uncollected_there),
        ):
            if files:
                yield f"{counted(len(files), 'file')} could not be collected in {where}, but could in {other}"
    yield from _not_compared(comparison)


class Row(NamedTuple):
    """A test or file of a list.

    Attributes:
        name: what it is called.
        said: what a comment has to say of it.
        more: what a terminal says in its place.
    """

    name: str
    said: str = ""
    more: str = ""


class Listing(NamedTuple):
    """Tests or files of which the same is said: a title, rows, and the kind where it is one of changes."""

    title: str
    rows: Sequence[Row]
    kind: Kind | None = None


def verdict_listings(comparison: Comparison[Test]) -> Iterator[Listing]:
    """The tests that something became of."""
    for kind in LISTED:
        if found := comparison.changes[kind]:
            rows = [_row(one, f" ({because(one)})" if kind in _EXPLAINED else "") for one in found]
            yield Listing(f"{len(found):,} {kind.words}", rows, kind)


def other_listings(comparison: Comparison[Test]) -> Iterator[Listing]:
    """The tests that appeared and vanished, then what takes longer and what takes less."""
    existence = comparison.existence
    for ids, words in (
        (existence.appeared, "added: not in base"),
        (existence.vanished, "removed: in base only"),
    ):
        if ids:
            yield Listing(f"{len(ids):,} {words}", [Row(one) for one in ids])
    for title, found in findings(comparison.times):
        said = [(one.name, f": {finding_line(one)}") for one in found]
        yield Listing(title, [Row(name, line, line) for name, line in said])


def _row(change: Change[Test], said: str) -> Row:
    now = change.now
    about = [because(change), *((now.cause or "", one_line(now.message, _MESSAGE)) if now else ())]
    return Row(change.id, said, f": {'; '.join(one for one in about if one)}")


def _not_compared(comparison: Comparison[Test]) -> Iterator[str]:
    """Tests that one run had not planned: no news of the tests."""
    counts, existence = comparison.changes.counts, comparison.existence
    came, went = set(existence.appeared), set(existence.vanished)
    here = sum(one.id not in came for one in comparison.changes[Kind.ONLY_NEW])
    there = sum(one.id not in went for one in comparison.changes[Kind.ONLY_BASE])
    for number, where in ((here, "the new run"), (there, "base")):
        if number:
            yield f"{number:,} not compared: planned in {where} only"
    if not existence.known and counts[Kind.ONLY_NEW] + counts[Kind.ONLY_BASE]:
        yield "whether tests were added or removed is unknown: not both runs have a catalog"


def machine_lines(comparison: Comparison[Test], *, always: bool = True) -> Iterator[str]:
    """What all tests have in common, which single tests are not blamed for.

    Args:
        comparison: of two runs.
        always: tell of machines that are about the same, too.
    """
    times = comparison.times
    machines = times.machines
    if machines.tests and (always or times.found or abs(machines.ratio - 1) > _WORTH_TELLING):
        yield (
            f"the whole run is {_pace(machines.ratio)}, by the median of "
            f"{counted(machines.tests, 'test')} of {TELLING_S:g} s and more that passed in both; "
            "single tests are compared beyond that"
        )
    for one in machines.lengths:
        if abs(one.ratio / machines.ratio - 1) > _WORTH_TELLING:
            below = (
                f"{one.least_s:g} to {one.below_s:g} s"
                if one.below_s < float("inf")
                else f"{one.least_s:g} s and more"
            )
            yield f"tests of {below}: {_pace(one.ratio)} ({counted(one.tests, 'test')})"
    for cards, where in ((machines.cards_now, "the new run"), (machines.cards_base, "base")):
        for card, ratio in sorted(cards.items(), key=lambda item: (-abs(item[1] - 1), item[0])):
            if abs(ratio - 1) > _WORTH_A_CARD:
                yield f"card {card} is {ratio:.2f} times as slow as the others in {where}"
    if times.setups and abs(times.setup_ratio - 1) > _WORTH_TELLING:
        files = counted(times.setups, "file")
        yield f"setting files up is {_pace(times.setup_ratio)} ({files})"


def _pace(ratio: float) -> str:
    """A ratio of seconds in words: `2.20× slower`, `1.30× faster`."""
    if abs(ratio - 1) < 0.005:  # noqa: PLR2004  # what two digits show as 1.00
        return "as fast as base"
    return f"{ratio:.2f}× slower" if ratio >= 1 else f"{1 / ratio:.2f}× faster"


def time_lines(comparison: Comparison[Test]) -> Iterator[str]:
    """What is to be known of how times were judged."""
    times = comparison.times
    if times.too_few:
        if times.pairs:
            passed = counted(len(times.pairs), "test")
            yield f"times are not compared: {passed} passed in both runs, too few to know what is noise"
        return
    if times.steady:
        yield f"{counted(times.steady, 'test')} no further off than they vary in the history"
    slower, faster = len(times.slower), len(times.faster)
    if min(slower, faster) >= 3 and min(slower, faster) * 2 >= max(slower, faster):  # noqa: PLR2004  # a few by chance
        yield (
            f"{slower:,} are slower and {faster:,} faster by as much, as on machines that stall now and then"
        )


def findings(times: Times) -> list[tuple[str, Sequence[Finding]]]:
    """What takes longer, then what takes less, each under its title; only what there is."""
    titled: list[tuple[str, Sequence[Finding]]] = []
    for how, sign in (("slower", 1), ("faster", -1)):
        for found, one, doing in (
            (times.tests, "test", how),
            (times.files, "file", f"{how} as a whole"),
            (times.setup_files, "file", f"{how} to set up"),
        ):
            if rows := [row for row in found if row.more_s * sign > 0][::sign]:
                titled.append((f"{counted(len(rows), one)} {doing}, beyond noise", rows))
    return titled


def finding_line(one: Finding) -> str:
    """What a test or a file takes: `12 s instead of 4.1 s (2.93×; base 3.9 s)`."""
    said = f"{one.ratio:.2f}×; base {span(one.base_s)}"
    return f"{span(one.now_s)} instead of {span(one.expected_s)} ({said})"


def judged_line(comparison: Comparison[Test]) -> str:
    """By what times were judged, with the rate of false alarms."""
    times = comparison.times
    return (
        f"beyond noise: more than {counted(len(times.pairs), 'test')} that passed in both vary by, and "
        f"by {LEAST_S:g} s at least; were nothing changed, noise would make about "
        f"{FALSE_ALARMS:g} findings a comparison"
    )


def show(console: Console, comparison: Comparison[Test], *, limit: int) -> None:
    """Print a comparison, with a table at a terminal; text from tests is never read as markup.

    Args:
        console: where to.
        comparison: of two runs.
        limit: how many tests of a kind are named; 0 for all.
    """
    for line in _head(comparison):
        _say(console, line, "bold yellow" if line.startswith("differs") else "")
    if console.is_terminal:
        console.print(_counts(comparison))
    for title, rows, kind in (*verdict_listings(comparison), *other_listings(comparison)):
        _say(console, title, "bold" if kind is None else f"bold {_style(kind)}")
        for row in rows[: limit or None]:
            _say(console, f"  {one_line(row.name)}{row.more}")
        if 0 < limit < len(rows):
            _say(console, f"  and {len(rows) - limit:,} more; --limit 0 shows all")
    for line in (*counted_lines(comparison), *machine_lines(comparison), *time_lines(comparison)):
        _say(console, line)
    if comparison.times.found:
        _say(console, judged_line(comparison))
    if comparison.nothing:
        _say(console, nothing_line(comparison), "green")


def _head(comparison: Comparison[Test]) -> Iterator[str]:
    now, base = comparison.now, comparison.base
    yield f"base {base.run}, new {now.run}"
    for side, where in ((now, "the new run"), (base, "base")):
        if side.lacking:
            yield f"{where} is incomplete: {side.lacking}"
    if tested := tested_line(comparison):
        yield tested
    yield from (f"differs: {line}" for line in unlike_lines(comparison))


def _counts(comparison: Comparison[Test]) -> Table:
    """The tests of both runs by kind; the rows add up to all of them."""
    counts = {kind: number for kind, number in comparison.changes.counts.items() if number}
    table = Table("", "tests", show_edge=False)
    table.columns[1].justify = "right"
    for kind, number in counts.items():
        table.add_row(Text(kind.words, style=_style(kind)), f"{number:,}")
    table.add_row(Text("tests of either run", style="bold"), f"{sum(counts.values()):,}")
    return table


def _style(kind: Kind) -> str:
    return next((style for style, kinds in _STYLES.items() if kind in kinds), "")


def _say(console: Console, line: str, style: str = "") -> None:
    # Long ids stay on one line, so that they can be copied.
    indent = "  " if line.startswith("  ") else ""
    text = Text(indent + one_line(line, _LONGEST), style=style)
    console.print(text, soft_wrap=True, highlight=False)


def render_markdown(comparison: Comparison[Test], against: str, *, limit: int = MAX_NAMES) -> str:
    """What changed as Markdown, whole; the arguments are those of `sections`."""
    return "\n\n".join(sections(comparison, against, limit=limit))


def sections(comparison: Comparison[Test], against: str, *, limit: int = MAX_NAMES) -> list[str]:
    """What changed: first what became of tests; then, where there is any, which tests and seconds are others.

    Args:
        comparison: of two runs.
        against: what the other run is called.
        limit: how many tests of a kind are named; 0 for all.
    """
    times = comparison.times
    first = [f"#### Compared with {code(against, 200)}", ""]
    if comparison.unlike:
        first += [f"Differs: {'; '.join(code(one, 200) for one in unlike_lines(comparison))}", ""]
    if comparison.nothing:
        first.append(f"- {nothing_line(comparison)}")
    first += _listed(verdict_listings(comparison), limit)
    first += [f"- {line}" for line in counted_lines(comparison)]
    rest = [*_listed(other_listings(comparison), limit)]
    notes = [*machine_lines(comparison, always=False), *time_lines(comparison)] if not times.too_few else []
    # A line of a card holds what the run calls it.
    rest += [f"- {code(line, 300) if line.startswith('card ') else line}" for line in notes]
    if times.found:
        rest.append(f"- {judged_line(comparison)}")
    if rest:
        rest = ["\n".join([f"#### Tests and seconds compared with {code(against, 200)}", "", *rest])]
    return ["\n".join(first), *rest]


def _listed(listings: Iterable[Listing], limit: int) -> Iterator[str]:
    """Each listing with its rows below; those beyond the limit are counted, and not made."""
    for title, rows, _ in listings:
        yield f"- **{title}**"
        yield from (f"  - {code(row.name, 300)}{row.said}" for row in islice(rows, limit or None))
        if 0 < limit < len(rows):
            yield f"  - and {len(rows) - limit:,} more"
