"""`spyre-ci lanes`: recurring runs, what is next and why, what ran, and the worker that runs them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.config import completing
from ci.config.context import settings_from_context
from ci.config.flags import Json, renamed
from ci.config.load import Settings
from ci.core.errors import UsageError
from ci.core.text import one_line, span
from ci.lanes import export_cli, run_cli
from ci.lanes.noted import Attempt, Slot, history
from ci.lanes.run_cli import STATE, lanes_folder
from ci.lanes.state import read_state
from ci.lanes.store import known_of
from ci.lanes.tending import folder_of
from ci.lanes.turn import Known, Look, clock
from ci.lanes.upcoming import Upcoming, upcoming
from test_selection.files import document_text, json_text, schema_name

# Between these years everything can be reckoned with.
_EPOCH, _FAR = 1971, 9000
NEXT_COLUMNS = ("lane", "next", "why", "now")
STATUS_COLUMNS = ("lane", "due", "attempt", "where", "standing", "exit code", "took", "said")
LOG_COLUMNS = 200
_SAID = 120
app = typer.Typer(help="Recurring runs: what is next and why, and the worker.", no_args_is_help=True)


def next_(
    ctx: typer.Context,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Seen from then, such as 2026-03-29T02:30; without a zone: the settings'."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what of every lane runs next, when and why, as the worker's state and the settings have it.

    It begins nothing and changes nothing.

    Example: spyre-ci lanes next --at 2026-10-25T00:00
    """
    settings = settings_from_context(ctx)
    worker = settings.model.lane_worker
    look = Look(
        now=time.time() if at is None else _moment(at, settings),
        stage=settings.model.stage,
        zone=worker.zone,
        late_s=worker.late_s,
        at_once=worker.at_once,
        first=True,
    )
    found = upcoming(settings.model.lanes, _known(settings, look.now), look)
    if as_json:
        typer.echo(json_text(_next_document(found, look)))
    elif not found:
        typer.echo("there are no lanes: name some under `lanes` in the settings")
    else:
        _print_next(found, look)


def _known(settings: Settings, now: float) -> Mapping[str, Known]:
    """What the worker knows; nothing where there was none, and none is made to look so."""
    path = lanes_folder(settings) / STATE
    if not path.is_file():
        return {}
    with read_state(path) as state:
        return known_of(state, now)


def _moment(text: str, settings: Settings) -> float:
    """A moment as people write it.

    Raises:
        UsageError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or not _EPOCH <= moment.year < _FAR:
        raise UsageError(
            f"{text!r} is no time",
            where="--at",
            remedy="write it as 2026-03-29T02:30, or with +02:00 behind it",
        )
    zone = moment.tzinfo or settings.model.lane_worker.zone
    return moment.replace(tzinfo=zone).timestamp()


def _next_document(found: list[Upcoming], look: Look) -> dict[str, object]:
    rows = [
        {
            **asdict(one),
            "time": None
            if one.at is None
            else datetime.fromtimestamp(one.at, tz=UTC).isoformat(timespec="seconds"),
        }
        for one in found
    ]
    return {"schema": schema_name("lanes-next"), "now": look.now, "stage": look.stage, "lanes": rows}


def _print_next(found: list[Upcoming], look: Look) -> None:
    table = Table(box=None, pad_edge=False)
    for head in NEXT_COLUMNS:
        table.add_column(head, overflow="fold")
    for one in found:
        when = "" if one.at is None else clock(one.at, look.zone)
        table.add_row(*map(Text, (one.lane, when, one.why, one.state)))
    Console().print(table)


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
    for head in STATUS_COLUMNS:
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


app.command("next")(next_)
app.command()(run_cli.run)
app.command()(status)
app.command()(export_cli.export)
