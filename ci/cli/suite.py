"""`spyre-ci suite`: check torch-spyre's suite files, and promote what passes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ci.config import completing
from ci.core.errors import EXIT_OK, EXIT_USAGE
from ci.core.text import counted
from ci.report.results import RESULTS_FILE
from ci.steps import options
from ci.steps.folder import RunFolder, find_run
from ci.steps.suites import check_step, promote_step, write_patch
from test_selection.files import document_text

app = typer.Typer(no_args_is_help=True)


@app.command()
def check(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Suite files, folders or globs; default: pytorch.suite.")
    ] = None,
    run_dir: options.RunDir = None,
    catalog: Annotated[Path | None, typer.Option(help="Catalog to check against.")] = None,
    json_output: options.Json = False,
) -> None:
    """Find duplicate, unmatched, unknown and contradictory entries in suite files.

    Example: spyre-ci suite check tests/configs --run-dir runs/nightly
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    folder = RunFolder(path=run_dir.resolve()) if run_dir is not None else None
    findings = check_step(context, files or (), folder=folder, catalog=catalog)
    errors = sum(one.severity == "error" for one in findings)
    if json_output:
        typer.echo(document_text("suite-check", {"findings": [one.as_json() for one in findings]}))
    else:
        for one in findings:
            context.say(str(one))
        context.say(f"{counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}")
    raise typer.Exit(EXIT_USAGE if errors else EXIT_OK)


@app.command()
def promote(
    ctx: typer.Context,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run folder, id or `latest`.", autocompletion=completing.runs)
    ],
    write: Annotated[bool, typer.Option("--write", help="Change the suite files, too.")] = False,
) -> None:
    """Print a patch that makes tests mandatory which were expected to fail and passed in RUN.

    Example: spyre-ci suite promote latest > promote.patch
    """
    context = options.make_context(ctx, {}, json_output=True)
    runs = context.runs
    patch = promote_step(context, find_run(runs, run, holding=RESULTS_FILE))
    typer.echo(patch.diff, nl=False)
    if write:
        write_patch(patch)
    found = patch.promotion
    files = counted(len(found.texts), "suite file") + (" written" if write and found.texts else "")
    tests = counted(len(found.promoted), "test")
    context.say(f"{tests} promoted in {files}; {len(found.left)} more that pass are left")
    for why in sorted(set(found.left.values())):
        names = [name for name, said in found.left.items() if said == why]
        context.say(f"  {len(names)} such as {names[0]}: {why}")
