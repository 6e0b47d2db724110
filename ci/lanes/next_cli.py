"""`spyre-ci lanes next`: what runs when, and why."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.config.load import Settings
from ci.core.errors import UsageError
from ci.lanes.run_cli import STATE, lanes_folder
from ci.lanes.state import read_state
from ci.lanes.store import known_of
from ci.lanes.turn import Known, Look, clock
from ci.lanes.upcoming import Upcoming, upcoming
from test_selection.files import json_text, schema_name

# Between these years everything can be reckoned with.
_EPOCH, _FAR = 1971, 9000
HEAD = ("lane", "next", "why", "now")


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
        typer.echo(json_text(_document(found, look)))
    elif not found:
        typer.echo("there are no lanes: name some under `lanes` in the settings")
    else:
        _print(found, look)


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


def _document(found: list[Upcoming], look: Look) -> dict[str, object]:
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


def _print(found: list[Upcoming], look: Look) -> None:
    table = Table(box=None, pad_edge=False)
    for head in HEAD:
        table.add_column(head, overflow="fold")
    for one in found:
        when = "" if one.at is None else clock(one.at, look.zone)
        table.add_row(*map(Text, (one.lane, when, one.why, one.state)))
    Console().print(table)
