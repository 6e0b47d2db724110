"""A search in words: its result, lines for a log, a page, and the text of an issue; pure.

What commits and tests say stands in code only, so that it is no markup, no mention, and closes no issue. The
page is one file that needs nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ci.bisect.asking import Finding
from ci.bisect.commits import About
from ci.bisect.record import Record
from ci.core.templates import harmless_environment
from ci.core.text import clip, counted, one_line, shell_line, span
from ci.report.summary import code, fence

_LEVELS = " ▁▂▃▄▅▆▇█"
BAR_WIDTH = 64
# Below this a commit is as good as out, and is not drawn.
_LEAST = 1e-3
_LISTED = 20
FILE = "report.html"
DRAWN_WIDTH, HEIGHT, BINS, TRIES = 1000.0, 100.0, 200, 500
# What PyTorch's merge bot writes, and what GitHub puts behind a subject.
_RESOLVED = re.compile(
    r"^Pull Request resolved: "
    r"(https://github\.com/[A-Za-z0-9-]{1,39}/(?!\.)[A-Za-z0-9_.-]{1,100}/pull/([1-9][0-9]{0,9}))\s*$",
    re.MULTILINE,
)
_NUMBER = re.compile(r"\(#([1-9][0-9]{0,9})\)\s*$")
WORDS = {
    "found": "this commit broke the test",
    "range": "one of these commits broke the test",
    "never": "the test is not broken at the bad end",
    "before": "the test was broken before the good end",
}


def bar(masses: Sequence[float], width: int = BAR_WIDTH) -> str:
    """What is believed, from the oldest commit to the newest: high where the break is likely to be."""
    bins = binned(masses, width)
    top = max(bins, default=0.0) or 1.0
    last = len(_LEVELS) - 1
    return "".join(_LEVELS[0 if one < _LEAST else max(1, round(last * one / top))] for one in bins)


def binned(masses: Sequence[float], width: int) -> list[float]:
    """Sums of neighbours, at most `width` of them, all alike in number but for one."""
    number = min(len(masses), width)
    sums = [0.0] * number
    for position, mass in enumerate(masses):
        sums[position * number // len(masses)] += mass
    return sums


def round_lines(record: Record) -> list[str]:
    """What is known after a round."""
    belief = record.belief()
    inner = belief.masses[1:-1]
    open_ = sum(1 for one in inner if one >= _LEAST)
    best = max(range(1, record.last + 1), key=lambda one: belief.masses[one])
    chance = percent(belief.masses[best])
    rates = f"bad ones fail about {percent(belief.bad_rate)} of tries, good ones {percent(belief.good_rate)}"
    left = f"{counted(open_, 'commit')} left; likeliest {record.commits[best][:12]} ({best}) with {chance}"
    return [f"  |{bar(inner)}|", f"  {left}; {rates}"]


def percent(chance: float) -> str:
    """`99.3 %`; never 100 where something is left to doubt, nor 0 where something is possible."""
    shown = f"{100 * chance:.1f}"
    if shown == "0.0" and chance > 0:
        return "less than 0.1 %"
    if shown == "100.0" and chance < 1:
        return "more than 99.9 %"
    return f"{shown} %"


def result_lines(record: Record) -> list[str]:
    """The result for a terminal."""
    result = record.result
    if result is None:
        return ["not ended: the same command goes on"]
    said = result["words"] if result["sure"] else f"not clear: {result['words']}"
    lines = [f"{said}: {percent(result['probability'])} (asked for: {percent(result['confidence'])})"]
    lines += [f"  {_one(candidate)}" for candidate in result["candidates"][:_LISTED]]
    if result["count"] > _LISTED:
        lines.append(f"  … and {result['count'] - _LISTED:,} more")
    if result["runners_up"]:
        said = ", ".join(f"{one['sha'][:12]} {percent(one['probability'])}" for one in result["runners_up"])
        lines.append(f"  runners-up: {said}")
    lines.append(f"  {effort(record)}")
    passed_over = sorted(record.barred.items())
    lines += [f"  {record.commits[position][:12]} {one_line(why)}" for position, why in passed_over]
    return lines


def effort(record: Record) -> str:
    """`7 rounds, 7 commits asked, 25 tries, 12 min 05 s`."""
    return (
        f"{counted(len(record.rounds), 'round')}, {counted(record.steps, 'commit')} asked, "
        f"{counted(len(record.tries), 'try', 'tries')}, {span(record.seconds)}"
    )


def command_of(record: Record) -> str:
    """The command that searches the same again."""
    asked = record.question
    words = ["spyre-ci", "bisect", "--pytorch-src", asked.repository, "--device", asked.device]
    words += ["--good", record.commits[0], "--bad", record.commits[-1], "--builder", asked.builder]
    return shell_line([*words, *(["--absent", "good"] if asked.absent == "good" else []), "--", asked.test])


def issue_text(record: Record) -> str:
    """Markdown for an issue; it mentions nobody and closes nothing."""
    result = record.result or {}
    asked = record.question
    parts = [f"## {code(clip(asked.test, 200))} fails on {code(asked.device)}", _said(record, result)]
    parts += _candidates(result)
    parts += _evidence(record, result)
    if record.barred:
        rows = [
            f"- {code(record.commits[at][:12])}: {code(why)}" for at, why in sorted(record.barred.items())
        ]
        parts += ["### Could not be tried", "\n".join(rows[:_LISTED])]
    if record.notes:
        parts += ["### Notes", "\n".join(f"- {code(one)}" for one in record.notes)]
    parts += ["### Again", fence(command_of(record), "sh")]
    return "\n\n".join(parts) + "\n"


def _said(record: Record, result: dict[str, Any]) -> str:
    if not result:
        return "The search has not ended."
    sure = "" if result["sure"] else "It is not clear: "
    said = result["words"]
    said = sure + said if sure else said[0].upper() + said[1:]
    return (
        f"{said}, with a probability of {percent(result['probability'])} "
        f"(asked for: {percent(result['confidence'])}).\n\n"
        f"Searched: {counted(record.last, 'commit')} behind {code(record.commits[0][:12])} up to "
        f"{code(record.commits[-1][:12])}, by {code(record.question.builder)}; {effort(record)}. "
        f"Bad commits failed about {percent(result['bad_rate'])} of their tries, good ones "
        f"{percent(result['good_rate'])}."
    )


def _candidates(result: dict[str, Any]) -> list[str]:
    rows = []
    for one in result.get("candidates", [])[:_LISTED]:
        number, url = one["pull_request"], one["pull_request_url"]
        pull = "" if number is None else f"[{number}]({url})" if url else f"{number}"
        rows.append(
            f"| {code(one['sha'])} | {code(one['authored'])} | {code(one['subject'], 120)} | {pull} |"
        )
    if not rows:
        return []
    if result["count"] > len(rows):
        rows.append(f"| … and {result['count'] - len(rows):,} more | | | |")
    return ["| commit | author's date | subject | pull request |\n|---|---|---|---|\n" + "\n".join(rows)]


def _evidence(record: Record, result: dict[str, Any]) -> list[str]:
    rows = []
    for one in result.get("evidence", []):
        if one["passed"] + one["failed"]:
            failed = [t for t in record.tries if t.position == one["position"] and t.said == "failed"]
            said = code(one_line(failed[-1].message, 160)) if failed and failed[-1].message else ""
            counts = f"{one['passed']} | {one['failed']}"
            rows.append(f"| {one['position']} | {code(one['sha'][:12])} | {counts} | {said} |")
    if not rows:
        return []
    head = "| place | commit | passed | failed | last failure |\n|---:|---|---:|---:|---|\n"
    return ["### Evidence", head + "\n".join(rows)]


def _one(candidate: dict[str, Any]) -> str:
    number = candidate["pull_request"]
    pull = candidate["pull_request_url"] or ("" if number is None else f"pull request {number}")
    said = f"{candidate['sha'][:12]} {candidate['authored'][:10]} {one_line(candidate['subject'], 100)}"
    return f"{said} {pull}".rstrip()


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
    top, width = max(bins) or 1.0, DRAWN_WIDTH / len(bins)
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
                    x=round(DRAWN_WIDTH * max(position - 1, 0) / record.last, 2),
                    width=round(max(DRAWN_WIDTH / record.last, 3), 2),
                    kind="failed" if seen.failed else "passed",
                    title=f"{record.commits[position][:12]}: {seen.passed} passed, {seen.failed} failed",
                )
            )
    return found


def pull_request(subject: str, body: str) -> tuple[int | None, str]:
    """Number and address of a commit's pull request; empty where no address is told.

    The last trailer of the merge bot wins, as a message may quote others'; else what ends the subject.
    """
    told = list(_RESOLVED.finditer(body))
    if told:
        return int(told[-1][2]), told[-1][1]
    number = _NUMBER.search(subject)
    return (int(number[1]), "") if number else (None, "")


def result_of(record: Record, found: Finding, *, confidence: float, about: Sequence[About]) -> dict[str, Any]:
    """The result as the record keeps it.

    Args:
        record: of the search.
        found: what it came to.
        confidence: what was asked for.
        about: of the candidates, the first ones at least.
    """
    candidates = []
    for one in about:
        number, url = pull_request(one.subject, one.body)
        candidates.append(
            {
                "sha": one.sha,
                "authored": one.authored,
                "subject": one.subject,
                "pull_request": number,
                "pull_request_url": url,
            }
        )
    inside = found.kind in {"found", "range"}
    belief = record.belief()
    return {
        "kind": found.kind,
        "words": WORDS[found.kind],
        "sure": found.sure,
        "confidence": confidence,
        "probability": found.probability,
        "first": found.first if inside else None,
        "last": found.last if inside else None,
        "count": found.last - found.first + 1 if inside else 0,
        "candidates": candidates,
        "runners_up": [
            {"sha": record.commits[position], "position": position, "probability": chance}
            for position, chance in found.runners_up
        ],
        "bad_rate": belief.bad_rate,
        "good_rate": belief.good_rate,
        "rounds": len(record.rounds),
        "steps": record.steps,
        "tries": len(record.tries),
        "evidence": [
            {"position": position, "sha": record.commits[position], **asdict(record.seen(position))}
            for position in sorted({one.position for one in record.tries})
        ],
    }
