"""`spyre-ci hud export`: the pages as a static site."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ci import progress
from ci.config.context import settings_from_context
from ci.config.flags import Json, renamed
from ci.hud.opening import open_kept
from test_selection.files import document_text


def export_verb(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New, empty, or an export before.")],
    days: Annotated[int, typer.Option(min=1, max=3650, help="How far back runs may have started.")] = 30,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many are shown, the newest.")] = 1000,
    runs: Annotated[int | None, typer.Option(min=1, max=100_000, hidden=True)] = None,
    json_output: Json = False,
) -> None:
    """Write the pages as a static site, to read without the server; also while it runs.

    Example: spyre-ci hud export site --days 7
    """
    from ci.hud.server.export.site import export  # noqa: PLC0415  # as in `open_server`

    settings = settings_from_context(ctx)
    most = renamed("--runs", "--limit", runs, limit)
    console = Console(stderr=True)
    with (
        open_kept(settings, os.environ, warn=partial(typer.echo, err=json_output), there=True) as kept,
        progress.bar(console, time.monotonic, "exporting", 1) as shown,
    ):

        def told(_: int, known: int, page: str) -> None:
            shown.expect(known)
            shown.advance(page)

        made = export(kept.store, folder, now=time.time(), days=days, runs=most, told=told)
    if json_output:
        content = {"index": folder / "index.html", "days": days, **asdict(made)}
        typer.echo(document_text("hud-export", content))
        return
    typer.echo(
        f"HUD pages: {made.pages} of the last {days} days, with {made.runs} runs and {made.tests} tests "
        f"that had problems, in {folder / 'index.html'}"
    )
