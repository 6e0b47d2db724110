"""A search in words: lines for a log, a bar of what is believed, and the text of an issue; pure.

What commits and tests say stands in code only, so that it is no markup, no mention, and closes no issue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ci.bisect.record import Record
from ci.core.text import clip, counted, one_line, shell_line, span
from ci.report.summary import code, fence

_LEVELS = " ▁▂▃▄▅▆▇█"
WIDTH = 64
# Below this a commit is as good as out, and is not drawn.
_LEAST = 1e-3
_LISTED = 20


def bar(masses: Sequence[float], width: int = WIDTH) -> str:
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
