"""`spyre-ci package`: from a checkout to a package index, a verb a step."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from ci.config.flags import Json
from ci.core.errors import EXIT_OK, EXIT_TEST_FAILED
from ci.package.flags import Dist, ForIndex, ProjectFolder, Records, extra
from ci.package.publish_cli import publish, release
from test_selection.files import document_text


def lint(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    fix: Annotated[bool, typer.Option("--fix", help="Mend what linters can; then say what is left.")] = False,
    changed: Annotated[
        str, typer.Option(metavar="BASE", help="Only files that differ from where this branched off BASE.")
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this linter; repeatable.")
    ] = None,
    records: Records = None,
    as_json: Json = False,
) -> None:
    """Run a checkout's own pre-commit hooks, or ours where it has none; without --fix nothing there changes.

    Example: spyre-ci package lint --changed HEAD
    """
    with extra():
        import_module("pre_commit")  # it is called as a program
        from ci.package.lint import linting, show  # noqa: PLC0415
        from ci.package.project import read_source  # noqa: PLC0415
        from ci.package.records import LINT, forget_record  # noqa: PLC0415
        from ci.package.source import with_settings  # noqa: PLC0415
        from ci.package.wiring import checkout_of, echo  # noqa: PLC0415
    from ci.core.provider import detect  # noqa: PLC0415

    checkout = checkout_of(ctx, folder)
    package = checkout.settings.model.package
    wanted = linting.Wanted(
        folder=checkout.folder,
        only=only or (),
        skip=package.lint.skip,
        changed=changed,
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
    for line in show.not_looked_lines(linted.looked):
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


# What builds is imported late: its libraries take a part of a second, which every verb would pay.
app = typer.Typer(help="Lint, test, build, verify and publish a project.", no_args_is_help=True)
app.command()(lint)
app.command()(unit)


@app.command()
def build(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    index: ForIndex = None,
    image: Annotated[
        str,
        typer.Option(
            "--in-image", metavar="IMAGE", help="Build in this image; default: package.build_image."
        ),
    ] = "",
    isolated: Annotated[
        bool, typer.Option("--isolation/--no-isolation", help="Or with what this environment has.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Build an sdist, and the wheel from that sdist, in isolation or in the runtime image.

    Example: spyre-ci package build .
    """
    with extra():
        from ci.package import building  # noqa: PLC0415
        from ci.package.wiring import bench_of, echo  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    where = image or (bench.package.build_image if isolated else "")
    made = building.make(bench, building.How(index=index, isolated=isolated, image=where), echo)
    if as_json:
        typer.echo(document_text("package-build", made.as_json()))
    else:
        typer.echo("\n".join(str(one.path) for one in made.artifacts))


@app.command()
def verify(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    index: ForIndex = None,
    no_install: Annotated[
        bool, typer.Option("--no-install", help="Do not install them: nothing is published of it.")
    ] = False,
    isolated: Annotated[
        bool, typer.Option("--isolation/--no-isolation", help="Or with what this environment has.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Check what was built with the field's tools, and install and import it with each Python.

    Example: spyre-ci package verify . --no-install
    """
    with extra():
        from ci.core.findings import refuse_failed  # noqa: PLC0415
        from ci.package import verify as verification  # noqa: PLC0415
        from ci.package.wiring import bench_of, echo  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    record, found = verification.verify(
        bench, index=index, installs=not no_install, say=echo, isolated=isolated
    )
    if as_json:
        typer.echo(document_text("package-verify", record.details))
    refuse_failed(str(bench.dist), found)


app.command()(release)
app.command()(publish)
