"""`spyre-ci lanes status`: what ran, what runs, and what became of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.config import completing
from ci.config.context import settings_from_context
from ci.config.flags import Json, renamed
from ci.core.text import one_line, span
from ci.lanes.hands import folder_of
from ci.lanes.noted import Attempt, Slot, history
from ci.lanes.run_cli import STATE, lanes_folder
from ci.lanes.turn import clock
from test_selection.files import document_text

HEAD = ("lane", "due", "attempt", "where", "standing", "exit code", "took", "said")
LOG_COLUMNS = 200
_SAID = 120


def status(
    ctx: typer.Context,
    *,
    lane: Annotated[
        str | None, typer.Option("--lane", help="Of this lane only.", autocompletion=completing.lanes)
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="How many are shown, the newest.")
    ] = 20,
    last: Annotated[int | None, typer.Option("--last", min=1, max=10_000, hidden=True)] = None,
    as_json: Json = False,
) -> None:
    """Show the last runs of lanes, the newest first, each attempt with its end, and times that were skipped.

    It waits for no worker and changes nothing.

    Example: spyre-ci lanes status --lane nightly --limit 5
    """
    settings = settings_from_context(ctx)
    folder = lanes_folder(settings)
    path = folder / STATE
    most = renamed("--last", "--limit", last, limit)
    runs = history(path, lane=lane, most=most) if path.is_file() else []
    by_ci = sorted(name for name, one in settings.model.lanes.items() if one.begun_by == "ci" and one.enabled)
    if as_json:
        rows = [
            {
                **asdict(slot),
                "attempts": [{**asdict(one), "folder": str(folder_of(folder, one))} for one in attempts],
            }
            for slot, attempts in runs
        ]
        typer.echo(document_text("lane-history", {"runs": rows, "begun_by_ci": by_ci}))
        return
    if not path.is_file():
        typer.echo("no lane was begun by a worker here yet")
        if by_ci:
            typer.echo(f"begun by their CI, which knows what became of them: {', '.join(by_ci)}")
        return
    table = Table(box=None, pad_edge=False)
    for head in HEAD:
        table.add_column(head, overflow="fold")
    for slot, attempts in runs:
        for row in rows_of(slot, attempts, due=clock(slot.due, settings.model.lane_worker.zone)):
            table.add_row(*(Text(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else LOG_COLUMNS).print(table)


def rows_of(slot: Slot, attempts: Sequence[Attempt], *, due: str) -> list[tuple[str, ...]]:
    """A run as lines of the table: an attempt a line, or the one of a time that was skipped."""
    if not attempts:
        return [(slot.lane, due, "", "", slot.state, "", "", one_line(slot.why, _SAID))]
    return [(slot.lane, due, *_cells(one)) for one in attempts]


def _cells(attempt: Attempt) -> tuple[str, ...]:
    code = "" if attempt.exit_code is None else str(attempt.exit_code)
    took = "" if attempt.ended_at is None else span(max(attempt.ended_at - attempt.begun_at, 0))
    standing = "handed back" if attempt.handed_back else str(attempt.standing)
    said = one_line(" ".join(filter(None, (attempt.said, attempt.url))), _SAID)
    return (str(attempt.number), attempt.kind, standing, code, took, said)
