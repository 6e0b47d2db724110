"""`spyre-ci hud`: the server for people, and sending what waits in an outbox."""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path
from typing import Annotated

import typer

from ci.config import Settings
from ci.errors import EXIT_INCOMPLETE, MissingInputError
from ci.hud.deliver import flush_run
from ci.hud.endpoint import open_app
from ci.hud.flush import Effects
from ci.hud.rows_cli import rows

app = typer.Typer(
    help="HUD: report results, and serve the pages of the embedded endpoint.", no_args_is_help=True
)


app.command("rows")(rows)


def settings_from_context(ctx: typer.Context) -> Settings:
    """The settings the root command resolved."""
    settings = ctx.find_object(Settings)
    if settings is None:
        raise TypeError("the root command did not set its Settings as the context's object")
    return settings


@app.command()
def serve(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: hud.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one; default: hud.port.")
    ] = None,
) -> None:
    """Serve the HUD-compatible endpoint and its pages until Ctrl-C."""
    from ci.hud.server.serve import serve as serve_app  # noqa: PLC0415  # as in `open_app`

    settings = settings_from_context(ctx)
    hud = settings.model.hud
    application, store = open_app(settings, clock=time.time, warn=typer.echo)
    with contextlib.closing(store):
        serve_app(
            host if host is not None else hud.host,
            port if port is not None else hud.port,
            application,
            echo=typer.echo,
        )


@app.command()
def flush(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, id or `latest`.")],
) -> None:
    """Send the reports that wait in a run's outbox; ends with 3 when some are left."""
    settings = settings_from_context(ctx)
    run_dir = _run_folder(settings.resolve(settings.model.runs), run)
    if not any((run_dir / "outbox").glob("*.json")):
        typer.echo(f"HUD: nothing waits in the outbox of {run_dir}")
        return
    effects = Effects(clock=time.time, sleep=time.sleep, rng=random.SystemRandom().random)
    delivery = flush_run(run_dir, settings, environ=os.environ, effects=effects, echo=typer.echo)
    if delivery.report.left:
        raise typer.Exit(EXIT_INCOMPLETE)


def _run_folder(runs: Path, named: Path) -> Path:
    """The folder of a run by path or name; `latest` is the newest that holds an outbox."""
    if str(named) == "latest":
        boxes = sorted(runs.glob("*/outbox"), key=lambda path: path.stat().st_mtime_ns)
        if not boxes:
            raise MissingInputError("there is no run with an outbox yet", where=runs, remedy="run one first")
        return boxes[-1].parent
    found = next((folder for folder in (named, runs / named) if folder.is_dir()), None)
    if found is None:
        raise MissingInputError("there is no such run folder", where=named, remedy="check the path")
    return found
