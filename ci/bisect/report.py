"""The result of a search for people: lines for a terminal, and the text of an issue. Pure."""

from __future__ import annotations

from ci.bisect.record import Record, Result
from ci.core.text import counted, one_line, shell_line
from ci.report.summary import code, fence

_KINDS = {
    "found": "this commit broke the test",
    "range": "one of these commits broke the test",
    "never": "the test does not fail at the bad end",
    "before": "the test already failed at the good end",
}


def result_lines(record: Record, result: Result) -> list[str]:
    """The result, the candidates, and what was tried of each commit."""
    sure = "" if result.sure else "not clear: "
    asked = f"asked for: {percent(result.confidence)}"
    lines = [f"{sure}{_KINDS[result.kind]}: {percent(result.probability)} ({asked})"]
    for one in result.candidates:
        pull = "" if one.pull_request is None else f" (pull request {one.pull_request})"
        lines.append(f"  {one.sha} {one.authored[:10]} {one_line(one.subject)}{pull}")
    if result.count > len(result.candidates):
        lines.append(f"  … and {result.count - len(result.candidates):,} more")
    tallies = record.tallies()
    tries = counted(sum(one.tries for one in tallies.values()), "try", "tries")
    lines.append(f"tried: {counted(len(tallies), 'commit')} in {counted(record.rounds, 'round')}, {tries}")
    for position, seen in sorted(tallies.items()):
        tried = [one.message for one in record.tries if one.position == position and not one.passed]
        why = f": {one_line(tried[-1], 160)}" if tried else ""
        lines.append(f"  {record.commits[position][:12]} {seen.passed} passed, {seen.failed} failed{why}")
    return lines + [f"  {sha[:12]} {one_line(why)}" for sha, why in record.skipped.items()]


def issue_text(record: Record, result: Result) -> str:
    """Markdown for an issue; texts of commits and tests stand in code, so that they mention nobody."""
    words = ["spyre-ci", "bisect", "--pytorch-src", record.repository, "--device", record.device]
    words += ["--good", record.commits[0], "--bad", record.commits[-1], "--builder", record.builder]
    parts = [
        f"## {code(record.test)} fails on {code(record.device)}",
        fence("\n".join(result_lines(record, result))),
        fence(shell_line([*words, "--", record.test]), "sh"),
    ]
    return "\n\n".join(parts) + "\n"


def percent(chance: float) -> str:
    """`99.3 %`; never 100 where something is left to doubt."""
    return "more than 99.9 %" if 0.9995 <= chance < 1 else f"{100 * chance:.1f} %"  # noqa: PLR2004  # rounding
