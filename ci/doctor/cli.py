"""`spyre-ci doctor`: checks this machine, and says what is there, what is missing, and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ci.core.progress import bar
from ci.doctor.finding import Level, document, exit_code, lines
from ci.doctor.machine import Machine
from ci.doctor.run import chosen, run_checks
from ci.steps import options
from test_selection.files import document_text

COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "bold red"}


def doctor(
    ctx: typer.Context,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="This check alone; may be given again.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="NAME", help="Not this check; may be given again.")
    ] = None,
    open_cards: Annotated[
        bool, typer.Option("--open-cards", help="Take the lease of each free card and let it compute.")
    ] = False,
    device: options.Device = None,
    json_output: options.Json = False,
    config: options.Config = None,
) -> None:
    """Check that this machine has what a run needs; name a remedy for each fault.

    Each line is ok, a warning or a fault; the exit code is 2 where there is a fault. All checks end within
    45 s.

    Example: spyre-ci doctor --skip index --skip cluster
    Example: spyre-ci doctor --only python --only disk --json
    """
    names = chosen(only or (), skip or ())
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output, config=config)
    machine = Machine(
        settings=context.settings,
        environ=context.environ,
        cwd=Path.cwd(),
        cores=context.cores,
        clock=context.clock,
        open_cards=open_cards,
    )
    with bar(context.console, context.monotonic, "checking", len(names)) as progress:
        findings = run_checks(machine, names, ended=progress.advance)
    if json_output:
        typer.echo(document_text("doctor", document(findings)))
    else:
        for level, line in lines(findings):
            # Text, because what is quoted is no markup.
            text = Text(line)
            if level is not None:
                text.stylize(COLOURS[level], 0, len(level))
            context.console.print(text, highlight=False, soft_wrap=True)
    if code := exit_code(findings):
        raise typer.Exit(code)
