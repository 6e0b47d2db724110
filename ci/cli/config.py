"""`spyre-ci config`: what is set, and where each value came from."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ci.config.load import rows
from ci.steps.options import Json, make_context
from test_selection.files import document_text

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(
    ctx: typer.Context,
    json_output: Json = False,
    describe: Annotated[bool, typer.Option("--describe", help="Explain each key.")] = False,
) -> None:
    """Print every setting, its value and its origin: default, file, environment or flag.

    Example: spyre-ci config show --describe
    """
    settings = make_context(ctx, {}).settings
    every = list(rows(settings))
    if json_output:
        table = {key: {"value": value, "origin": origin} for key, value, origin, _ in every}
        typer.echo(document_text("settings", table))
        return
    typer.echo(f"# settings file: {settings.path or 'none'}")
    width = max(len(key) for key, *_ in every)
    for key, value, origin, description in every:
        shown = json.dumps(value, default=str)
        if describe:
            typer.echo(f"# {description}")
        typer.echo(f"{key:<{width}}  {shown:<28}  {origin}")
