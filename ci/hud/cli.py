"""`spyre-ci hud`: the server for people, and sending what waits in an outbox."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.hud.client_cli import add_client_verbs
from ci.hud.keep_cli import add_keeping
from ci.hud.opening import open_server
from ci.hud.rows_cli import rows

app = typer.Typer(
    help="HUD: report results, and serve the pages of the embedded endpoint.", no_args_is_help=True
)


app.command("rows")(rows)
add_keeping(app)


@app.command()
def serve(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: hud.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one; default: hud.port.")
    ] = None,
    strict_upstream: Annotated[
        bool | None,
        typer.Option(
            "--strict-upstream/--no-strict-upstream",
            help="Answer exactly as PyTorch's relay and HUD do; default: hud.strict_upstream.",
        ),
    ] = None,
) -> None:
    """Serve the HUD-compatible endpoint and its pages until Ctrl-C.

    Example: spyre-ci hud serve --port 0
    """
    from ci.hud.server.chores import Chores, doing  # noqa: PLC0415  # as in `open_server`
    from ci.hud.server.serve import serve as serve_app  # noqa: PLC0415

    settings = settings_from_context(ctx)
    hud = settings.model.hud
    strict = hud.strict_upstream if strict_upstream is None else strict_upstream
    with open_server(settings, os.environ, clock=time.time, warn=typer.echo, strict=strict) as server:
        chores = Chores(
            store=server.store,
            rows=server.rows,
            warn=typer.echo,
            sweep_every_s=hud.sweep_every_s,
            keep_days=hud.keep_days,
            strict=strict,
        )
        with doing(chores, clock=time.time):
            serve_app(
                host if host is not None else hud.host,
                port if port is not None else hud.port,
                server.app,
                echo=typer.echo,
            )


add_client_verbs(app)
