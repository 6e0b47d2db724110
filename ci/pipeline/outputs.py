"""What the verbs of pipelines show: lines, a table on the CI's page, outputs for later steps."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.core.provider import detect, write_outputs
from ci.core.text import one_line
from ci.core.workflow_commands import defused
from ci.report.summary import code
from ci.report.write import append_once
from test_selection.files import write_json

Out = Annotated[Path | None, typer.Option("--out", help="File to write the outputs to as JSON.")]


def say(line: str) -> None:
    """Print a line for people; names of files and labels in it command neither a terminal nor a CI."""
    typer.echo(defused(one_line(line, 2000)))


def show_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, on the CI's page as well where there is one; a page is never worth a failure."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head) - 1)] if shown else []
    for row in shown:
        # The last may be of any width.
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        typer.echo(defused("  ".join([*cells, row[-1]])))
    page = detect(os.environ, epoch_s=time.time()).step_summary
    if page is None:
        return
    cells_of = [head, ["---"] * len(head), *([code(cell) for cell in row] for row in rows)]
    lines = [f"### {title}", "", *(f"| {' | '.join(cells)} |" for cells in cells_of)]
    try:
        append_once(page, "\n".join(lines) + "\n")
    except OSError as error:
        say(f"step summary: not written: {error}")


def hand_on(outputs: Mapping[str, Any], *, out: Path | None, kind: str) -> None:
    """Write outputs for later steps: into GitHub's file where there is one, and as JSON into `out`.

    Raises:
        OSError: a file cannot be written.
    """
    write_outputs(os.environ, outputs)
    if out is not None:
        write_json(out, kind, outputs)
