"""`spyre-ci webhooks poll`: starts Jenkins for repositories whose webhooks cannot reach it."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ci.config.context import settings_from_context
from ci.core.errors import UsageError
from ci.core.text import escaped
from ci.webhooks.file import DEFAULT_FILE, chosen, read_webhooks
from ci.webhooks.flags import File, Names, extra

if TYPE_CHECKING:
    from ci.webhooks.polling import Passed, Polling

STATE = "polls.json"
# One call to GitHub waits no longer for a limit: the next pass comes anyway.
PATIENCE_S = 20.0


def poll(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    file: File = DEFAULT_FILE,
    only: Names = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="What is known of the last pass; default: below `state`.")
    ] = None,
    every: Annotated[
        float | None,
        typer.Option("--every", min=1, max=86_400, help="Seconds between passes; default: one pass."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Start what a first pass finds, instead of noting it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be started, and note nothing.")
    ] = False,
) -> None:
    """Start Jenkins once for each new head; ends with 3 where some are kept for the next pass.

    Example: spyre-ci webhooks poll --dry-run
    """
    with extra():
        from ci.webhooks.poll_state import StateFile, working_alone  # noqa: PLC0415  # with PyGithub
        from ci.webhooks.polling import one_pass  # noqa: PLC0415
        from ci.webhooks.repeating import repeat  # noqa: PLC0415

    polling = _polling(file, only, everything=everything, dry_run=dry_run)
    path = state or settings_from_context(ctx).state_dir / STATE
    with working_alone(path):
        if every is None:
            passed = one_pass(polling, StateFile(path))
            _tell(passed, None)
            raise typer.Exit(passed.exit_code)
        repeat(
            lambda: one_pass(polling, StateFile(path)),
            every_s=every,
            sleep=time.sleep,
            rng=random.SystemRandom().random,
            tell=_tell,
        )


def _polling(file: Path, only: list[str] | None, *, everything: bool, dry_run: bool) -> Polling:
    with extra():
        from ci.webhooks.hubs import Hubs  # noqa: PLC0415  # with PyGithub
        from ci.webhooks.polling import Polling  # noqa: PLC0415

    found = read_webhooks(file)
    polled = tuple(one for one in chosen(found, only or (), file) if one.poll is not None)
    if not polled:
        raise UsageError(
            "nothing of it is polled", where=file, remedy="give a repository `poll`, or name another one"
        )
    return Polling(
        found=found,
        repositories=polled,
        environ=os.environ,
        clock=time.time,
        say=lambda line: typer.echo(escaped(line)),
        hubs=lambda: Hubs(found, os.environ, patience_s=PATIENCE_S),
        everything=everything,
        dry_run=dry_run,
    )


def _tell(passed: Passed, wait_s: float | None) -> None:
    """Say what went wrong, and what came of a pass."""
    for name, error in passed.errors:
        typer.echo(escaped(f"{name}: FAILED: {error.placed}"), err=True)
        if error.remedy:
            typer.echo(escaped(f"  remedy: {error.remedy}"), err=True)
    waiting = f", {passed.waiting} kept for the next pass" if passed.waiting else ""
    again = f"; next pass in {wait_s:.0f} s" if wait_s is not None else ""
    typer.echo(f"{passed.started} started{waiting}{again}")
