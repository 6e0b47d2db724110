"""`spyre-ci package lint`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ci.config.flags import Json
from ci.core.errors import EXIT_TEST_FAILED
from ci.package.extra import extra
from ci.package.flags import ProjectFolder, Records


def lint(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    fix: Annotated[bool, typer.Option("--fix", help="Mend what linters can; then say what is left.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this linter; repeatable.")
    ] = None,
    records: Records = None,
    as_json: Json = False,
) -> None:
    """Look at every file of a checkout with the field's linters; without --fix nothing there changes.

    Example: spyre-ci package lint --only ruff --only codespell
    """
    with extra():
        from ci.package.as_committed import with_settings  # noqa: PLC0415
        from ci.package.lint import linting, show  # noqa: PLC0415
        from ci.package.project import read_source  # noqa: PLC0415
        from ci.package.records import LINT, forget_record  # noqa: PLC0415
        from ci.package.wiring import checkout_of, echo  # noqa: PLC0415
    from ci.core.provider import detect  # noqa: PLC0415

    checkout = checkout_of(ctx, folder)
    package = checkout.settings.model.package
    wanted = linting.Wanted(
        folder=checkout.folder,
        only=only or (),
        skip=package.lint.skip,
        containerfiles=package.lint.containerfiles,
        timeout_s=package.lint.timeout_s,
        environ=os.environ,
        fix=fix,
    )
    kept = (records or checkout.folder / package.records).resolve()
    unwritten = linting.why_no_record(
        wanted, kept, named=records is not None, ours=checkout.settings.path is not None
    )
    if not unwritten:
        forget_record(kept, LINT)
    before = with_settings(checkout.folder, read_source(checkout.folder), checkout.settings.path)
    linted = linting.lint(wanted, echo)
    for line in show.looked_lines(linted.looked):
        echo(line)
    if as_json:
        typer.echo(show.document(linted.findings, linted.looked))
    else:
        typer.echo("\n".join(show.lines(linted.findings)))
    if detect(os.environ, epoch_s=0).name == "github":
        workspace = os.environ.get("GITHUB_WORKSPACE")
        root = Path(workspace).resolve() if workspace else None
        for line in show.github_commands(linted.findings, checkout.folder, root):
            typer.echo(line, err=as_json)
    if unwritten:
        echo(unwritten)
    else:
        linting.record(wanted, linted, project=checkout.name, records=kept, before=before)
    if linted.findings:
        raise typer.Exit(EXIT_TEST_FAILED)
