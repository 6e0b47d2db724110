"""Say a run's progress, and how long it still takes, in the same words on a terminal and in a log. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ci.core.text import clean, counted, one_line, span
from ci.record.verdict import BROKEN, Verdict, counts_in_words
from ci.report.failure_line import short_cause, status_word
from ci.report.live.news import CardLost, Ended, FileBroken, FileEnded, News, Tally, WorkerLost
from ci.report.live.state import State, Worker

# What the overall figures always name, and what only where there is some.
_TOLD = (Verdict.FAILED, Verdict.HARDWARE, Verdict.INFRASTRUCTURE, Verdict.FLAKY, Verdict.NOT_RUN)
_MINUTE, _HOUR = 60, 3600
MAX_CARDS = 4
SHOWN_REASONS = 5
# A test is slow that takes longer than this, and so many times longer than expected.
SLOW_S = 60.0
SLOW_TIMES = 5


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


def overall(state: State, now: float) -> str:
    """`1,203 of 9,431, 2 failed, about 6 min left`."""
    parts = [f"{state.settled:,} of {state.planned:,}", *problems(state)]
    if state.left:
        parts.append(about(state.seconds_left(now)))
    return ", ".join(parts)


def problems(state: State) -> list[str]:
    """How many failed, and how many were hardware's, flaky and so on where there are some."""
    first, *others = _TOLD
    said = [f"{state.counts[first]:,} {first.words}"]
    return said + [f"{number:,} {one.words}" for one in others if (number := state.counts[one])]


def file_line(tally: Tally, state: State, now: float) -> str:
    """What became of a file, in one line."""
    took = f" in {span(tally.seconds)}" if tally.began_at is not None else ""
    counts = counts_in_words(tally.counts) or "nothing to run"
    return f"{one_line(tally.file)}: {counts}{took}{_on_cards(tally)} ({overall(state, now)})"


def news_line(news: News) -> str:
    """What is worth a line that stays, once: what went wrong, and what is flaky; empty for all other news."""
    match news:
        case Ended(outcome=outcome) if outcome in BROKEN and not news.repeated:
            word = status_word(outcome, news.cause)
            return _test_line(word, news, short_cause(news.message, news.detail))
        case Ended(verdict=Verdict.FLAKY):
            return _test_line(status_word(Verdict.FLAKY), news, f"{news.outcome.words} in try {news.attempt}")
        case FileBroken():
            on = f" on {one_line(news.card)}" if news.card else ""
            return f"{one_line(news.file)}: could not be set up{on}: {news.message}"
        case WorkerLost(id=None):  # else the line of the test says it
            return f"{status_word(Verdict.INFRASTRUCTURE)} worker of shard {news.shard}  {news.message}"
        case CardLost():
            card = one_line(news.card)
            return f"{status_word(Verdict.HARDWARE)} card {card} is out of use for this run  {news.message}"
        case _:
            return ""


def test_line(told: Ended) -> str:
    """A test that ended as it should, in one line."""
    return _test_line(status_word(told.outcome, told.cause), told, "").rstrip()


def slow_line(state: State, worker: Worker, now: float) -> str:
    """The test of a worker that takes much longer than expected; empty where it does not."""
    name, elapsed = worker.state.running, now - worker.since
    if name is None or elapsed <= max(SLOW_S, SLOW_TIMES * state.expected_s(name)):
        return ""
    return f"SLOW [>{elapsed:.0f}s] {one_line(name, 500)}  on {one_line(worker.card)}"


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
        said += ": " + "; ".join(work_of(worker, now) for worker in busy)
    return said


def work_of(worker: Worker, now: float) -> str:
    """What a card does: its name, the file, and for how long where that is worth a word."""
    state, elapsed = worker.state, now - worker.since
    said = f"{one_line(worker.card)} {one_line(state.file)}"
    if state.setting_up:
        return f"{said} (setting up, {span(elapsed)})"
    if elapsed >= 10 and state.running is not None:  # noqa: PLR2004  # what is slow has a name
        return f"{said} ({one_line(_short(state.running), 120)}, {span(elapsed)})"
    return said


def detail_lines(detail: str, most: int) -> Sequence[str]:
    """The end of a traceback or output, without control characters."""
    return clean(detail).rstrip().splitlines()[-most:]


def _test_line(word: str, told: Ended, why: str) -> str:
    return f"{word} [{told.seconds:.1f}s] {one_line(told.id, 500)}  {why}"


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
