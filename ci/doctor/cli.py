"""`spyre-ci doctor`: looks at this machine and says what is there, what is not, and what mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ci.core.progress import bar
from ci.doctor.finding import COLOURS, Finding, document, exit_code, lines
from ci.doctor.looks import chosen, examine
from ci.doctor.world import Processes, World
from ci.steps import options
from ci.steps.context import Context
from test_selection.files import json_text


def doctor(
    ctx: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Look at this alone; may be given again."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="NAME", help="Do not look at this; may be given again."),
    ] = None,
    open_cards: Annotated[
        bool, typer.Option("--open-cards", help="Take the lease of each free card and let it compute.")
    ] = False,
    device: options.Device = None,
    json_output: options.Json = False,
    config: options.Config = None,
) -> None:
    """Check that this machine has what a run needs; name a remedy for each fault.

    Each line is ok, a warning or a fault; the exit code is 2 where there is a fault. No look takes longer
    than its time, and all end within 45 s.

    Example: spyre-ci doctor --skip index --skip cluster
    Example: spyre-ci doctor --only python --only disk --json
    """
    wanted = chosen(only or (), skip or ())
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output, config=config)
    world = World(
        settings=context.settings,
        environ=context.environ,
        clock=context.clock,
        monotonic=context.monotonic,
        cwd=Path.cwd(),
        cores=context.cores,
        processes=Processes(),
    )
    with bar(context.console, context.monotonic, "looking", len(wanted)) as progress:
        account = examine(world, wanted, opening=open_cards, ended=progress.advance)
    findings = [one for found in account.found.values() for one in found]
    if json_output:
        typer.echo(json_text(document(findings, seconds=account.seconds)))
    else:
        _show(context, findings)
    if code := exit_code(findings):
        raise typer.Exit(code)


def _show(context: Context, findings: list[Finding]) -> None:
    for level, word, rest in lines(findings):
        # Text, because what is quoted is no markup.
        shown = Text(word, style=COLOURS[level] if level is not None else "")
        shown.append(rest, style="")
        context.console.print(shown, highlight=False, soft_wrap=True)
