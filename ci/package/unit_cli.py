"""`spyre-ci package unit`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ci.config.flags import Json
from ci.core.errors import EXIT_OK
from ci.package.extra import extra
from ci.package.flags import Records
from test_selection.files import document_text


def unit(  # typer makes options of them
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROJECT] [-- ARGS]",
            help="Folder of the project, default: this one; behind --, arguments of pytest.",
            show_default=False,
        ),
    ] = None,
    records: Records = None,
    keep_env: Annotated[
        bool, typer.Option("--keep-env", help="Use the environment of the last time again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Install a project in an environment of its own and run its tests that need no device.

    Example: spyre-ci package unit . -- -k shapes
    """
    with extra():
        from ci.package.unit import run_unit  # noqa: PLC0415
        from ci.package.wiring import bench_of, echo  # noqa: PLC0415

    folder, given = split(words or [])
    bench = bench_of(ctx, folder, records=records)
    untracked = [one for one in bench.project.source.untracked if not bench.is_ours(one)]
    if untracked:
        echo(f"left out, not being in the repository: {len(untracked)} files, such as {untracked[0]!r}")
    outcome = run_unit(bench, os.environ, given, keep=keep_env, say=echo)
    if as_json:
        typer.echo(document_text("package-unit", outcome.as_json()))
    else:
        typer.echo(outcome.line)
    if outcome.exit_code != EXIT_OK:
        raise typer.Exit(outcome.exit_code)


def split(words: list[str]) -> tuple[Path, list[str]]:
    """The project's folder, and the arguments of pytest: what begins with a dash is no folder."""
    if not words or words[0].startswith("-"):
        return Path(), words
    return Path(words[0]), words[1:]
