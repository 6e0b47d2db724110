"""What the verbs of pipelines show: lines, a table on the CI's page, outputs for later steps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ci.core.provider import detect, write_outputs
from ci.core.text import one_line
from ci.core.workflow_commands import defused
from ci.report.summary import code
from ci.report.write import append_once
from test_selection.files import write_json


def say(line: str) -> None:
    """A line for people; names of files and labels in it command neither a terminal nor a CI."""
    typer.echo(defused(one_line(line, 2000)))


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines whose columns stand below each other; the last may be of any width."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]) - 1)] if shown else []
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in shown
    ]


def show_table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], environ: Mapping[str, str]
) -> None:
    """A table on the screen, and on the CI's page where there is one; a page is never worth a failure."""
    for line in table_lines(rows):
        typer.echo(defused(line))
    page = detect(environ, epoch_s=time.time()).step_summary
    if page is None:
        return
    lines = [f"### {title}", "", _row(head), _row(["---"] * len(head))]
    lines += [_row([code(cell) for cell in row]) for row in rows]
    try:
        append_once(page, "\n".join(lines) + "\n")
    except OSError as error:
        say(f"step summary: not written: {error}")


def hand_on(outputs: Mapping[str, Any], environ: Mapping[str, str], *, out: Path | None, kind: str) -> None:
    """Outputs for later steps: into GitHub's file where there is one, and as JSON into `out`.

    Raises:
        OSError: a file cannot be written.
    """
    write_outputs(environ, outputs)
    if out is not None:
        write_json(out, kind, outputs)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
