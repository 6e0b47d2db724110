"""`spyre-ci webhooks`: webhooks of many repositories as a file has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ci.config.flags import Json
from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE
from ci.core.extras import wanted
from ci.webhooks.difference import Action
from ci.webhooks.model import DEFAULT_FILE, chosen, read_webhooks
from test_selection.files import document_text

app = typer.Typer(help="Webhooks of a list of repositories, as code.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `apply` a verb of its own beside those that may come."""


@app.command()
def apply(  # typer makes options of them
    file: Annotated[Path, typer.Argument(help="The file of webhooks.")] = DEFAULT_FILE,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this repository; may stand several times.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; end with 1 where something differs.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Delete duplicates, and hooks with a URL of `hooks` that the repository is not to have.",
        ),
    ] = False,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Set every hook's secret anew: GitHub shows none to compare.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what differs from the file, and make it as the file has it.

    Example: spyre-ci webhooks apply --check
    """
    found = read_webhooks(file)
    repositories = chosen(found, only or (), file)
    with wanted("webhooks want", extra="github"):
        from ci.webhooks.sync import Sync, lines  # noqa: PLC0415  # with PyGithub, an extra
        from ci.webhooks.sync import as_json as document  # noqa: PLC0415

    sync, outcomes = Sync(found, os.environ, prune=prune, rotate=rotate), []
    for repository in repositories:
        outcome = sync.compare(repository)
        if outcome.error is None and not check:
            sync.apply(outcome)
        outcomes.append(outcome)
        if not as_json:
            typer.echo("\n".join(lines(outcome)))
    if as_json:
        typer.echo(document_text("webhooks", {"repositories": [document(one) for one in outcomes]}))
    elif check:
        typer.echo("not seen from here: whether a secret is the one that Jenkins checks signatures by")
    codes = {one.error.exit_code for one in outcomes if one.error is not None}
    if check and any(change.action is not Action.KEEP for one in outcomes for change in one.changes):
        codes.add(EXIT_TEST_FAILED)
    # No second try mends 2, and 3 says more than 1.
    order = (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED)
    raise typer.Exit(next((code for code in order if code in codes), EXIT_OK))
