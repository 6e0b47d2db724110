"""What a comparison says in lines that a terminal, a comment and a page share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ci.core.text import counted, span
from ci.report.compare.changes import Change, Kind, Test
from ci.report.compare.comparison import Comparison
from ci.report.compare.times import Finding, Times

# Kinds that are listed test by test, in this order; the others are only counted.
LISTED = (
    Kind.NEW_FAILURES, Kind.NEW_TESTS_FAILING, Kind.NEWLY_FLAKY, Kind.FAILING_UNKNOWN, Kind.FLAKY_UNKNOWN,
    Kind.FAILING_DIFFERENTLY, Kind.QUARANTINED, Kind.STILL_FAILING, Kind.FIXED, Kind.NO_LONGER_FLAKY,
    Kind.NEWLY_SKIPPED,
)  # fmt: skip
# A machine that is less than this off is no news.
_WORTH_TELLING = 0.05
_WORTH_A_CARD = 0.15


def because(change: Change[Test]) -> str:
    """What a test was there."""
    return "not planned there" if change.base is None else f"{change.base.verdict.words} there"


def nothing_line(comparison: Comparison[Test]) -> str:
    """What is said where nothing of note changed, as far as it was looked at."""
    longer = "" if comparison.times.too_few else ", and none takes longer"
    return f"Nothing changed: no test fails or is flaky that was not so there{longer}."


def unlike_lines(comparison: Comparison[Test]) -> list[str]:
    """What the runs themselves do not have in common, a line each."""
    return [
        f"{one.what}: {one.now or 'not told'} here, {one.base or 'not told'} there"
        for one in comparison.unlike
    ]


def tested_line(comparison: Comparison[Test]) -> str:
    """What was under test in each run; empty where it was the same, or neither says."""
    now, base = comparison.now.under_test, comparison.base.under_test
    return "" if now == base else f"under test: {now or 'not told'} here, {base or 'not told'} there"


def counted_lines(comparison: Comparison[Test]) -> Iterator[str]:
    """What is counted and not listed."""
    changes, existence = comparison.changes, comparison.existence
    counts = changes.counts
    if changes.gone:
        yield f"{changes.gone:,} failing there, not planned here"
    if counts[Kind.OTHERWISE]:
        yield f"{counts[Kind.OTHERWISE]:,} {Kind.OTHERWISE.words}"
    if counts[Kind.UNKNOWN]:
        words = f"{Kind.UNKNOWN.words} (hardware, infrastructure, not run)"
        yield f"{counts[Kind.UNKNOWN]:,} not compared: {words}"
    if existence.known:
        for number, words in (
            (len(existence.moved), "moved: the same test in another file or class, compared as one"),
            (existence.untold, "appeared or vanished perhaps: their files were not looked at in both runs"),
        ):
            if number:
                yield f"{number:,} {words}"
        for where, other, files in (
            ("here", "there", existence.uncollected_here),
            ("there", "here", existence.uncollected_there),
        ):
            if files:
                yield f"{counted(len(files), 'file')} could not be collected {where}, and could {other}"
    yield from _not_compared(comparison)


def came_and_went(comparison: Comparison[Test]) -> list[tuple[str, Sequence[str]]]:
    """The tests that appeared and those that vanished, each under its title; only what there is."""
    existence = comparison.existence
    titled = (
        (f"{len(existence.appeared):,} appeared: there is no such test there", existence.appeared),
        (f"{len(existence.vanished):,} vanished: there is no such test here", existence.vanished),
    )
    return [(words, ids) for words, ids in titled if ids]


def _not_compared(comparison: Comparison[Test]) -> Iterator[str]:
    """Tests that one run had not planned: no news of the tests."""
    counts, existence = comparison.changes.counts, comparison.existence
    came, went = set(existence.appeared), set(existence.vanished)
    here = sum(one.id not in came for one in comparison.changes[Kind.ONLY_HERE])
    there = sum(one.id not in went for one in comparison.changes[Kind.ONLY_THERE])
    for number, where in ((here, "here"), (there, "there")):
        if number:
            yield f"{number:,} not compared: planned {where} only"
    if not existence.known and counts[Kind.ONLY_HERE] + counts[Kind.ONLY_THERE]:
        yield "whether tests appeared or vanished is not known: there is no catalog of both runs"


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
            f"the whole run takes {machines.ratio:.2f} times as long, by the median of "
            f"{counted(machines.tests, 'test')} that passed in both; single tests are measured beyond that"
        )
    for one in machines.lengths:
        if abs(one.ratio / machines.ratio - 1) > _WORTH_TELLING:
            below = (
                f"{one.least_s:g} to {one.below_s:g} s"
                if one.below_s < float("inf")
                else f"{one.least_s:g} s and more"
            )
            yield f"tests of {below}: {one.ratio:.2f} times as long ({counted(one.tests, 'test')})"
    for cards, where in ((machines.cards_now, "here"), (machines.cards_base, "there")):
        for card, ratio in sorted(cards.items(), key=lambda item: (-abs(item[1] - 1), item[0])):
            if abs(ratio - 1) > _WORTH_A_CARD:
                yield f"card {card} is {ratio:.2f} times as slow as the others {where}"
    if times.setups and abs(times.setup_ratio - 1) > _WORTH_TELLING:
        files = counted(times.setups, "file")
        yield f"setting files up takes {times.setup_ratio:.2f} times as long ({files})"


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
            f"{slower:,} are slower and {faster:,} faster by as much: so do machines that stall now and then"
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
                titled.append((f"{counted(len(rows), one)} {doing}, by more than noise", rows))
    return titled


def finding_line(one: Finding) -> str:
    """What a test or a file takes: `12 s instead of 4.1 s (2.93 times; 3.9 s there)`."""
    said = f"{one.ratio:.2f} times; {span(one.base_s)} there"
    return f"{span(one.now_s)} instead of {span(one.expected_s)} ({said})"


def judged_line(comparison: Comparison[Test]) -> str:
    """By what times were judged, with the rate of false alarms."""
    times = comparison.times
    return (
        f"more than noise: beyond what {counted(len(times.pairs), 'test')} that passed in both vary by, and "
        f"by {times.least_s:g} s at least; were nothing changed, noise would make about "
        f"{times.alarms:g} findings a comparison"
    )
