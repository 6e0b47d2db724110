"""`spyre-ci quarantine`: whether the quarantine file can be taken, and what of it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ci.core.errors import EXIT_OK, EXIT_USAGE
from ci.core.text import counted
from ci.steps import options
from ci.steps.folder import RunFolder
from ci.steps.mark_failures import check_step
from test_selection.files import document_text

app = typer.Typer(no_args_is_help=True)


@app.command()
def check(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="Quarantine file; default: run.quarantine, or quarantine.yaml.")
    ] = None,
    run_dir: options.RunDir = None,
    catalog: Annotated[Path | None, typer.Option(help="Catalog to look tests up in.")] = None,
    json_output: options.Json = False,
) -> None:
    """Report entries of the quarantine file that are invalid, have expired, or match no test.

    Example: spyre-ci quarantine check --run-dir runs/nightly
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    if catalog is None and run_dir is not None:
        catalog = RunFolder(path=run_dir.resolve()).catalog
    entries, findings = check_step(context, file, catalog)
    if json_output:
        typer.echo(document_text("quarantine-check", {"findings": [one.as_json() for one in findings]}))
    else:
        for one in findings:
            context.say(str(one))
    errors = sum(one.severity == "error" for one in findings)
    told = f"{counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}"
    context.say(f"{counted(entries, 'entry', 'entries')}: {told}")
    raise typer.Exit(EXIT_USAGE if errors else EXIT_OK)
