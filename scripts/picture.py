"""Draw README's picture of a report, as an SVG: what a run ended with, its shards over time, a failure.

usage: picture.py RUN_FOLDER OUT.svg. All of it is read from the run's files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from ci.core.svg import Segment
from ci.core.text import clip
from ci.record.journal import read_journals
from ci.record.verdict import Verdict
from ci.report.failure_line import short_cause
from ci.report.html import time_chart, verdict_segments
from ci.report.reconcile import reconcile
from ci.report.results import read_summary
from ci.report.summary import outcome_line, share_lines
from test_selection.files import write_text
from test_selection.plan import read_plan

WIDTH, LEFT, SHARDS = 900, 20, 8
# The colours of the page, which a light and a dark README both show.
COLOURS = {
    "passed": "#3c9d74", "failed": "#c4302b", "flaky": "#d99a1c", "skipped": "#a9b2bb", "xfailed": "#6f9bc6",
    "xpassed": "#1f8f9c", "hardware": "#8a4fc4", "infrastructure": "#c4588f", "not_run": "#59636e",
    "setup": "#a9b2bb", "tests": "#4d86c0",
}  # fmt: skip


def draw(folder: Path) -> str:
    """Draw the picture of a run folder."""
    summary = read_summary(folder / "summary.json")
    account = reconcile(read_plan(folder / "plan.json"), read_journals(folder))
    chart = time_chart(account, SHARDS)
    failed = [one for one in account.results if one.verdict is Verdict.FAILED]
    lines = [_text(36, outcome_line(summary), "t")]
    lines += [_text(60, line, "s") for line in share_lines(summary)[:1]]
    lines += _bar(74, 18, verdict_segments(summary.verdicts), LEFT, WIDTH - 2 * LEFT)
    key = [one for one in Verdict if summary.verdicts.get(one)]
    for number, verdict in enumerate(key):
        x = LEFT + number * 150
        lines.append(f'<rect x="{x}" y="102" width="10" height="10" fill="{COLOURS[verdict.value]}"/>')
        lines.append(_text(111, f"{summary.verdicts[verdict]:,} {verdict.words}", "s", x + 16))
    y = 140
    for bar in chart.bars if chart is not None else ():
        lines += [_text(y + 11, bar.label, "s"), _text(y + 11, bar.note, "s", 680)]
        lines += _bar(y, 14, bar.segments, 220, 440)
        y += 24
    for one in failed[:1]:
        lines.append(_text(y + 24, f"FAIL {one.id}", "m"))
        lines.append(_text(y + 44, f"on {one.card}: {clip(short_cause(one.message, one.detail), 100)}", "m"))
        lines.append(_text(y + 64, f"spyre-ci reproduce --run -- '{one.id}' latest", "m"))
        y += 64
    style = (
        "text{font-family:system-ui,sans-serif;fill:#1b1f24}.t{font-size:19px;font-weight:600}"
        ".s{font-size:13px;fill:#59636e}.m{font-size:12.5px;font-family:ui-monospace,monospace}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24}" role="img" '
        f'aria-label="{escape(outcome_line(summary))}"><style>{style}</style>'
        f'<rect width="{WIDTH}" height="{y + 24}" rx="8" fill="#fbfbfa" stroke="#d8dee4"/>'
        + "\n".join(lines)
        + "</svg>\n"
    )


def _text(y: int, words: str, style: str, x: int = LEFT) -> str:
    return f'<text x="{x}" y="{y}" class="{style}">{escape(words)}</text>'


def _bar(y: int, height: int, segments: Iterable[Segment], left: int, width: int) -> Iterator[str]:
    """A bar of the page, whose segments are in thousandths of its width."""
    for one in segments:
        x, wide = left + one.x * width / 1000, max(one.width * width / 1000, 0.5)
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{height}" fill="{COLOURS[one.kind]}">'
            f"<title>{escape(one.title)}</title></rect>"
        )


def main() -> int:
    """Draw the picture; 2 where the arguments are not a run folder and a file."""
    try:
        folder, out = map(Path, sys.argv[1:])
    except ValueError:
        sys.stderr.write("usage: picture.py RUN_FOLDER OUT.svg\n")
        return 2
    write_text(out, draw(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
