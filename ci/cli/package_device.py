"""`spyre-ci package device`: a project's tests that need cards, by the runner that runs PyTorch's."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from ci.core.errors import EXIT_OK
from ci.package.flags import ProjectFolder, Records, extra
from ci.steps import options
from test_selection.files import document_text


def device(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    cards: options.Cards = None,
    retries: options.Retries = None,
    files: options.Files = None,
    keyword: options.Keyword = None,
    records: Records = None,
    json_output: options.Json = False,
) -> None:
    """Run a project's tests that need cards: cards are leased, and a crash costs one test.

    Example: spyre-ci package device . --cards 2
    """
    with extra():
        from ci.cli.device_run import Asked, run_device  # noqa: PLC0415
        from ci.package.context import context_of  # noqa: PLC0415

    package = context_of(ctx, folder, records=records)
    asked = Asked(
        cards=cards,
        retries=retries,
        files=tuple(options.split_files(files)),
        keyword=keyword,
        console=options.make_console(os.environ, stderr=json_output),
        environ=os.environ,
    )
    told = run_device(package, asked)
    if json_output:
        typer.echo(document_text("package-device", told))
    if told["exit_code"] != EXIT_OK:
        raise typer.Exit(told["exit_code"])
