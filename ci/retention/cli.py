"""`spyre-ci prune`."""

from __future__ import annotations

from typing import Annotated

import typer

from ci.core.errors import UsageError
from ci.retention.prune import KINDS
from ci.retention.prune import prune as prune_items
from ci.steps import options
from test_selection.files import json_text


def prune(
    ctx: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="KIND", help=f"Only this kind (repeatable): {', '.join(KINDS)}."),
    ] = None,
    keep_days: Annotated[
        float | None,
        typer.Option("--keep-days", min=0, max=36_500, help="Remove what is older; default: the settings'."),
    ] = None,
    keep_gib: Annotated[
        float | None,
        typer.Option("--keep-gib", min=0, max=1_000_000, help="Of each kind, remove the oldest beyond this."),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option("--keep-last", min=0, max=1_000_000, help="Keep this many of the newest.")
    ] = None,
    unfinished: Annotated[
        bool,
        typer.Option("--unfinished", help="Also remove what is too old and could still be resumed."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Remove old runs, caches, images and results; keep what a release names.

    The flags apply to the store of results only with --only store.

    Example: spyre-ci prune --dry-run
    Example: spyre-ci prune --only runs --keep-days 14 --keep-last 5 --json
    """
    unknown = sorted(set(only or ()) - set(KINDS))
    if unknown:
        raise UsageError(f"--only names {unknown[0]!r:.100}", remedy=f"name one of {', '.join(KINDS)}")
    context = options.make_context(ctx, {}, json_output=json_output)
    keep = {"keep_days": keep_days, "keep_gib": keep_gib, "keep_last": keep_last, "unfinished": unfinished}
    say = (lambda _: None) if json_output else context.say
    outcome = prune_items(context, only=only or (), keep=keep, dry_run=dry_run, say=say)
    if json_output:
        typer.echo(json_text(outcome.as_json(), on_one_line=True))
    else:
        for text in outcome.lines():
            context.say(text)
    raise typer.Exit(outcome.exit_code)
