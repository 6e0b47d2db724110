"""`spyre-ci prune`: what is old, or more than there is room for, goes; what a release names stays."""

from __future__ import annotations

from typing import Annotated

import typer

from ci.core.errors import UsageError
from ci.retention.prune import prune_step
from ci.retention.rules import KINDS, Wish
from ci.steps import options
from test_selection.files import json_text


def prune(
    ctx: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="KIND", help=f"Only this kind; may be given again: {', '.join(KINDS)}."
        ),
    ] = None,
    keep_days: Annotated[
        float | None,
        typer.Option(
            "--keep-days", min=0, max=36_500, help="Younger ones stay; default: retention's, by kind."
        ),
    ] = None,
    keep_gib: Annotated[
        float | None,
        typer.Option("--keep-gib", min=0, max=1_000_000, help="GiB each kind may take; the oldest go first."),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option("--keep-last", min=0, max=1_000_000, help="So many of the newest stay.")
    ] = None,
    cut_off: Annotated[
        bool,
        typer.Option(
            "--cut-off", help="What was cut off and could be resumed goes too, where it is too old."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Remove old runs, caches, images and results; keep what a release names.

    The store of results keeps its days unless --only store is given.

    Example: spyre-ci prune --dry-run
    Example: spyre-ci prune --only runs --keep-days 14 --keep-last 5 --json
    """
    unknown = sorted(set(only or ()) - set(KINDS))
    if unknown:
        raise UsageError(f"--only names {unknown[0]!r:.100}", remedy=f"name one of {', '.join(KINDS)}")
    context = options.make_context(ctx, {}, json_output=json_output)
    wish = Wish(
        only=frozenset(only or ()),
        keep_days=keep_days,
        keep_gib=keep_gib,
        keep_last=keep_last,
        cut_off=cut_off,
        dry_run=dry_run,
    )
    account = prune_step(context, wish, tell=(lambda _: None) if json_output else context.say)
    if json_output:
        typer.echo(json_text(account.as_json(), on_one_line=True))
    else:
        for told in account.lines():
            context.say(told)
    raise typer.Exit(account.exit_code)
