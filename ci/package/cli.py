"""`spyre-ci package`: from a checkout to a package index, a verb a step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ci.config.flags import Json
from ci.package import release_cli
from ci.package.extra import extra
from ci.package.flags import Dist, ForIndex, ProjectFolder, Records
from ci.package.lint_cli import lint
from ci.package.publish_cli import publish
from ci.package.unit_cli import unit
from test_selection.files import document_text

# What builds is imported late: its libraries take a part of a second, which every verb would pay.
app = typer.Typer(help="Lint, test, build, verify and publish a project.", no_args_is_help=True)
app.command()(lint)
app.command()(unit)


@app.command()
def build(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    index: ForIndex = None,
    keep_env: Annotated[
        bool, typer.Option("--keep-env", help="Use the environment of the last build again.")
    ] = False,
    twice: Annotated[
        bool, typer.Option("--twice", help="Build again elsewhere, and name what differs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Build an sdist, and the wheel from that sdist, each in isolation.

    Example: spyre-ci package build .
    """
    with extra():
        from ci.package import making  # noqa: PLC0415
        from ci.package.wiring import bench_of, echo  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    made = making.make(bench, index=index, keep=keep_env, twice=twice, say=echo)
    if as_json:
        typer.echo(document_text("package-build", made.as_json()))
    else:
        typer.echo("\n".join(str(one.path) for one in made.artifacts))
    making.refuse_differences(made)


@app.command()
def verify(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    index: ForIndex = None,
    no_install: Annotated[
        bool, typer.Option("--no-install", help="Do not install them: nothing is published of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check what was built: metadata, contents, tags, and how it installs and imports with each Python.

    Example: spyre-ci package verify . --no-install
    """
    with extra():
        from ci.core.findings import refuse_failed  # noqa: PLC0415
        from ci.package.verify import checking  # noqa: PLC0415
        from ci.package.wiring import bench_of, echo  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    verified = checking.verify(bench, index=index, installs=not no_install, say=echo)
    if as_json:
        typer.echo(document_text("package-verify", verified.as_json()))
    refuse_failed(str(bench.dist), verified.findings)


app.command()(release_cli.release)
app.command("check-statement")(release_cli.check_statement)
app.command()(release_cli.notes)
app.command()(release_cli.changelog)
app.command()(publish)
