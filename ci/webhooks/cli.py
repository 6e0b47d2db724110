"""`spyre-ci webhooks`: webhooks of many repositories as a file has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE
from ci.webhooks.difference import Action
from ci.webhooks.model import DEFAULT_FILE, read_webhooks
from ci.webhooks.sync import Sync, lines

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Manage the webhooks of a list of repositories as code."""


@app.command()
def apply(  # typer makes options of them
    file: Annotated[Path, typer.Argument(help="File that describes the webhooks.")] = DEFAULT_FILE,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if something differs.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Delete duplicates, and webhooks of `hooks` that the repository does not list.",
        ),
    ] = False,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Set every hook's secret again: GitHub shows none to compare.")
    ] = False,
) -> None:
    """Show what differs from the file, and change the webhooks accordingly.

    Example: spyre-ci webhooks apply --check
    """
    found = read_webhooks(file)
    sync, codes = Sync(found, os.environ, prune=prune, rotate=rotate), set()
    for repository in found.repositories:
        outcome = sync.handle(repository, check=check)
        typer.echo("\n".join(lines(outcome)))
        if outcome.error is not None:
            codes.add(outcome.error.exit_code)
        elif check and any(change.action is not Action.KEEP for change in outcome.changes):
            codes.add(EXIT_TEST_FAILED)
    if check:
        typer.echo("not checked: whether a secret is the one that Jenkins checks signatures with")
    # No second try mends 2, and 3 says more than 1.
    order = (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED)
    raise typer.Exit(next((code for code in order if code in codes), EXIT_OK))
