"""`spyre-ci hud prune|backup|restore`: what becomes of the HUD store over the years."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.flags import Json, renamed
from ci.hud.opening import STORE_FILE, open_kept
from test_selection.files import document_text


def add_keeping(app: typer.Typer) -> None:
    """Register them."""
    app.command("prune")(prune_verb)
    app.command("backup")(backup_verb)
    app.command("restore")(restore_verb)


def prune_verb(
    ctx: typer.Context,
    keep_days: Annotated[
        int | None, typer.Option(min=0, max=36_500, help="Younger ones stay; default: hud.keep_days.")
    ] = None,
    older: Annotated[int | None, typer.Option(min=0, max=36_500, hidden=True)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    json_output: Json = False,
) -> None:
    """Take jobs last heard of so many days ago out of the store, with their tests.

    Example: spyre-ci hud prune --keep-days 90 --dry-run
    """
    from ci.hud.server.keep import DAY_S, give_back, prune  # noqa: PLC0415  # as in `open_server`

    settings = settings_from_context(ctx)
    named = renamed("--older", "--keep-days", older, keep_days)
    days = settings.model.hud.keep_days if named is None else named
    with open_kept(settings, os.environ, warn=partial(typer.echo, err=json_output), there=True) as kept:
        now = time.time()
        gone = prune(kept.store, kept.rows, before=now - days * DAY_S, at=now, dry_run=dry_run)
        if not dry_run:
            give_back(kept.store, whole=True)
    if json_output:
        content = {"days": days, "dry_run": dry_run, **asdict(gone)}
        typer.echo(document_text("hud-prune", content))
        return
    typer.echo(
        f"HUD store: {'would prune' if dry_run else 'pruned'} {gone.jobs} jobs older than {days} days, "
        f"with {gone.tests} tests in {gone.uploads} uploads, and {gone.states} states"
    )


def backup_verb(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where the copy goes.")],
    json_output: Json = False,
) -> None:
    """Copy the store, also while a server uses it, and check the copy.

    Example: spyre-ci hud backup hud-backup.sqlite
    """
    from ci.hud.server.backup import back_up  # noqa: PLC0415  # as in `open_server`

    jobs = back_up(settings_from_context(ctx).state_dir / STORE_FILE, file)
    if json_output:
        typer.echo(document_text("hud-backup", {"file": file, "jobs": jobs}))
        return
    typer.echo(f"HUD store: {jobs} jobs in {file}, checked")


def restore_verb(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A backup.")],
    json_output: Json = False,
) -> None:
    """Put a backup in the store's place, while nothing uses it; the store before is kept beside it.

    Example: spyre-ci hud restore hud-backup.sqlite
    """
    from ci.hud.server.backup import restore  # noqa: PLC0415  # as in `open_server`

    settings = settings_from_context(ctx)
    store, copied = settings.state_dir / STORE_FILE, settings.model.hud.clickhouse is not None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    jobs, kept = restore(file, store, stamp=stamp, copied=copied)
    if json_output:
        typer.echo(document_text("hud-restore", {"store": store, "jobs": jobs, "before": kept}))
    else:
        typer.echo(f"HUD store: {jobs} jobs in {store}" + (f"; the one before is {kept}" if kept else ""))
    if copied:
        # Opening it takes ClickHouse back; where that is away now, the next one who opens it does.
        with open_kept(settings, os.environ, warn=partial(typer.echo, err=json_output), waits=True):
            pass
