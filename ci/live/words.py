"""Say a run's progress, and how long it still takes, in the same words on a terminal and in a log. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ci.core.text import clean, counted, one_line, span
from ci.live.ledger import Stream
from ci.live.news import CardLost, Ended, FileBroken, FileEnded, Tally, WorkerLost
from ci.live.state import State
from ci.record.verdict import BROKEN, Verdict

# So many expected seconds must have ended before what they took outweighs the estimates.
PRIOR_S = 20.0
Again = Callable[[str, int], str]
# What the overall figures always name, and what only where there is some.
_TOLD = (Verdict.FAILED, Verdict.HARDWARE, Verdict.INFRASTRUCTURE, Verdict.FLAKY, Verdict.NOT_RUN)
_MINUTE, _HOUR = 60, 3600
MAX_CARDS = 4
SHOWN_REASONS = 5


def about(seconds: float | None) -> str:
    """How long is left, no more exact than it is known: `about 40 s left`, `about 6 min left`."""
    if seconds is None or not math.isfinite(seconds):
        return "no card left"
    if seconds < _MINUTE:
        step = 5 if seconds < 20 else 10  # noqa: PLR2004  # rounder where it is longer
        return f"about {max(step, step * math.ceil(seconds / step))} s left"
    minutes = math.ceil(seconds / _MINUTE)
    if minutes < _HOUR / _MINUTE:
        return f"about {minutes} min left"
    return f"about {minutes // 60} h {minutes % 60:02d} min left"


def tally_counts(tally: Tally) -> str:
    """`812 passed, 2 failed, 3 skipped`."""
    said = [f"{number:,} {verdict.words}" for verdict in Verdict if (number := tally.counts[verdict])]
    return ", ".join(said) or "nothing to run"


def overall(state: State, now: float) -> str:
    """`1,203 of 9,431, 2 failed, about 6 min left`."""
    parts = [f"{state.settled:,} of {state.planned:,}", *problems(state)]
    if state.left:
        parts.append(about(seconds_left(state, now)))
    return ", ".join(parts)


def problems(state: State) -> list[str]:
    """How many failed, and how many were hardware's, flaky and so on where there are some."""
    first, *others = _TOLD
    said = [f"{state.counts[first]:,} {first.words}"]
    return said + [f"{number:,} {one.words}" for one in others if (number := state.counts[one])]


def file_line(tally: Tally, state: State, now: float) -> str:
    """What became of a file, in one line."""
    took = f" in {span(tally.seconds)}" if tally.began_at is not None else ""
    return f"{one_line(tally.file)}: {tally_counts(tally)}{took}{_on_cards(tally)} ({overall(state, now)})"


def failure_lines(told: Ended, again: Again, *, verdict: Verdict | None = None) -> list[str]:
    """A failure: the test, why and where; the command that repeats it.

    Args:
        told: the try that failed.
        again: gives the command by id and try.
        verdict: of the test now, where that is known better than when the try ended.
    """
    now = verdict or told.verdict
    what = told.outcome.words if now is told.outcome else f"{now.words}, once {told.outcome.words}"
    cause = f" ({told.cause})" if told.cause and told.cause != told.outcome else ""
    where = f" on card {one_line(told.card)}" if told.card else ""
    head = f"  {what}{cause}{where}: {one_line(told.id, 500)}"
    return [
        head,
        f"    {one_line(told.message) or 'no reason given'}",
        f"    again: {again(told.id, told.attempt)}",
    ]


def test_line(told: Ended) -> str:
    """`a.py::T::test PASSED (0.2 s)`, as pytest's -v has it."""
    return f"{one_line(told.id, 500)} {told.outcome.words.upper()} ({span(told.seconds)})"


def late_line(told: Ended) -> str:
    """What became of a test of a file that was told of already."""
    where = f" on card {one_line(told.card)}" if told.card else ""
    reason = f": {one_line(told.message)}" if told.outcome in BROKEN and told.message else ""
    again = told.outcome is told.verdict and told.outcome in BROKEN
    became = f"{told.outcome.words} again" if again else f"{told.outcome.words}, so {told.verdict.words}"
    return f"{one_line(told.file)}: attempt {told.attempt}{where} {became}: {one_line(told.id, 500)}{reason}"


def trouble_line(news: FileBroken | WorkerLost | CardLost) -> str:
    """A worker, a card or a file that was lost."""
    match news:
        case FileBroken():
            on = f" on card {one_line(news.card)}" if news.card else ""
            return f"{one_line(news.file)}: could not be set up{on}: {news.message}"
        case WorkerLost():
            while_at = f" while it ran {one_line(news.id, 500)}" if news.id else ""
            return f"shard {news.shard}: worker lost{while_at}: {news.message}"
        case CardLost():
            return f"card {one_line(news.card)} is lost for this run: {news.message}"


def reason_lines(told: FileEnded) -> list[str]:
    """Why tests of a file were skipped or not run, the most frequent first."""
    return [
        f"  {verdict.words}: {counted(number, 'test')}: {one_line(message) or 'no reason given'}"
        for verdict, message, number in told.reasons[:SHOWN_REASONS]
    ]


def cards_line(state: State, now: float) -> str:
    """`3 of 4 cards at work`, and what each does where they are few."""
    busy = state.at_work
    said = f"{len(busy)} of {counted(len(state.cards), 'card')} at work"
    if state.lost:
        said += f", {len(state.lost)} lost"
    if 0 < len(busy) <= MAX_CARDS:
        said += ": " + "; ".join(work_of(stream, now) for stream in busy)
    return said


def work_of(stream: Stream, now: float) -> str:
    """What a card does: its name, the file, and for how long where that is worth a word."""
    elapsed = now - stream.since
    said = f"{one_line(stream.card)} {one_line(stream.file)}"
    if stream.setting_up:
        return f"{said} (setting up, {span(elapsed)})"
    if elapsed >= 10 and stream.running is not None:  # noqa: PLR2004  # what is slow has a name
        return f"{said} ({one_line(_short(stream.running), 120)}, {span(elapsed)})"
    return said


def detail_lines(detail: str, most: int) -> Sequence[str]:
    """The end of a traceback or output, without control characters."""
    return clean(detail).rstrip().splitlines()[-most:]


def _short(name: str) -> str:
    return name.rpartition("::")[2] if "[" not in name else name.partition("[")[0].rpartition("::")[2]


def _on_cards(tally: Tally) -> str:
    names = [one_line(card) for card in tally.cards]
    if not names:
        return ""
    if len(names) == 1:
        return f" on card {names[0]}"
    more = f" and {len(names) - MAX_CARDS} more" if len(names) > MAX_CARDS else ""
    return f" on cards {', '.join(names[:MAX_CARDS])}{more}"


def seconds_left(state: State, now: float) -> float | None:
    """Seconds until every test is settled; None where no card is left to settle them.

    The seconds left, corrected by what ended tests took (a file's own where it has some), over the cards;
    never less than the longest thing that one card must do by itself.

    Args:
        state: of the run.
        now: monotonic seconds.
    """
    if not state.left:
        return 0.0
    cards = len(state.able)
    if not cards:
        return None
    pace = (state.ran_s + PRIOR_S) / (state.told_s + PRIOR_S)
    total = longest = 0.0
    scales: dict[str, float] = {}
    for name, tally in state.unended.items():
        scale = (tally.ran_s + PRIOR_S * pace) / (tally.told_s + PRIOR_S)
        scales[name] = scale
        total += max(tally.left_s, 0.0) * scale
        if tally.began_at is None:
            total += tally.setup_s
            longest = max(longest, tally.setup_s + tally.longest_s * scale)
    for stream in state.at_work:
        elapsed = now - stream.since
        if stream.running is not None and state.verdict(stream.running) is None:
            expected = state.expected_s(stream.running) * scales.get(stream.file, pace)
            total -= min(elapsed, expected)
            longest = max(longest, expected - elapsed)
        elif stream.setting_up and stream.file in state.files:
            remaining = max(state.files[stream.file].setup_s - elapsed, 0.0)
            total += remaining
            longest = max(longest, remaining)
    return max(total / min(cards, state.left), longest, 0.0)
