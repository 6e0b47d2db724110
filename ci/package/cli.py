"""`spyre-ci package`: from a checkout to a package index, a verb a step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.config.flags import Json
from ci.core.errors import EXIT_OK, EXIT_TEST_FAILED
from ci.core.provider import detect, write_outputs
from ci.package.flags import Dist, ForIndex, Isolated, ProjectFolder, Records, extra
from test_selection.files import document_text

# What the verbs do is imported late: its libraries take a part of a second, which every verb would pay.
app = typer.Typer(no_args_is_help=True)


@app.command()
def lint(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    fix: Annotated[bool, typer.Option("--fix", help="Fix what linters can; then show what is left.")] = False,
    changed: Annotated[
        str, typer.Option(metavar="BASE", help="Check only files that changed since this branched off BASE.")
    ] = "",
    records: Records = None,
    as_json: Json = False,
) -> None:
    """Run a checkout's own pre-commit hooks, or spyre-ci's where it has none; change nothing without --fix.

    Example: spyre-ci package lint --changed HEAD
    """
    with extra():
        import_module("pre_commit")  # it is called as a program
        from ci.package.context import context_of, echo  # noqa: PLC0415
        from ci.package.lint import findings as show  # noqa: PLC0415
        from ci.package.lint import linting  # noqa: PLC0415
        from ci.package.records import LINT, forget_record  # noqa: PLC0415

    context = context_of(ctx, folder, records=records, any_checkout=True)
    top = context.project.folder
    unwritten = linting.why_no_record(context, changed=changed, named=records is not None)
    if not unwritten:
        forget_record(context.records, LINT)
    findings, looked = linting.lint(
        top, context.package.lint, echo, environ=os.environ, changed=changed, fix=fix
    )
    for line in show.not_looked_lines(looked):
        echo(line)
    typer.echo(show.document(findings, looked) if as_json else "\n".join(show.lines(findings)))
    if detect(os.environ, epoch_s=0).name == "github":
        workspace = os.environ.get("GITHUB_WORKSPACE")
        root = Path(workspace).resolve() if workspace else None
        for line in show.github_commands(findings, top, root):
            typer.echo(line, err=as_json)
    if unwritten:
        echo(unwritten)
    else:
        linting.record(context, findings, looked, fixed=fix)
    if findings:
        raise typer.Exit(EXIT_TEST_FAILED)


@app.command()
def unit(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    records: Records = None,
    as_json: Json = False,
) -> None:
    """Install a project in an environment of its own and run its tests that need no device.

    Example: spyre-ci package unit .
    """
    with extra():
        from ci.package.context import context_of, echo  # noqa: PLC0415
        from ci.package.unit import run_unit  # noqa: PLC0415

    context = context_of(ctx, folder, records=records)
    outcome, told = run_unit(context, os.environ, echo)
    typer.echo(document_text("package-unit", told) if as_json else outcome.line)
    if outcome.exit_code != EXIT_OK:
        raise typer.Exit(outcome.exit_code)


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
    isolated: Isolated = True,
    as_json: Json = False,
) -> None:
    """Build an sdist, and the wheel from that sdist, in isolation or in the runtime image.

    Example: spyre-ci package build .
    """
    with extra():
        from ci.package import building  # noqa: PLC0415
        from ci.package.context import context_of, echo  # noqa: PLC0415

    context = context_of(ctx, folder, dist=dist, records=records)
    where = image or (context.package.build_image if isolated else "")
    made = building.make(context, building.How(index=index, isolated=isolated, image=where), echo)
    if as_json:
        typer.echo(document_text("package-build", made))
    else:
        typer.echo("\n".join(str(context.dist / one["name"]) for one in made["files"]))


@app.command()
def verify(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    index: ForIndex = None,
    no_install: Annotated[
        bool, typer.Option("--no-install", help="Do not install them; they then do not count as verified.")
    ] = False,
    isolated: Isolated = True,
    as_json: Json = False,
) -> None:
    """Check built packages with twine, auditwheel and others; install and import them with each Python.

    Example: spyre-ci package verify . --no-install
    """
    with extra():
        from ci.core.findings import refuse_failed  # noqa: PLC0415
        from ci.package import verify as verification  # noqa: PLC0415
        from ci.package.context import context_of, echo  # noqa: PLC0415

    context = context_of(ctx, folder, dist=dist, records=records)
    record, found = verification.verify(
        context, index=index, installs=not no_install, say=echo, isolated=isolated
    )
    if as_json:
        typer.echo(document_text("package-verify", record.details))
    refuse_failed(str(context.dist), found)


@app.command()
def release(  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    index: Annotated[
        str, typer.Option(metavar="NAME", help="Index whose gate the release has to pass.")
    ] = "pypi",
    image: Annotated[
        str, typer.Option(metavar="NAME@sha256:…", help="Image the release was tested on.")
    ] = "",
    run: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Run folder of PyTorch's tests; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write release.json and SHA256SUMS; exit with 1 where a step or a named run is not green.

    Example: spyre-ci package release . --index stage
    """
    with extra():
        from ci.core.findings import refuse_failed  # noqa: PLC0415
        from ci.package import release as releasing  # noqa: PLC0415
        from ci.package.context import context_of, echo  # noqa: PLC0415

    context = context_of(ctx, folder, dist=dist, records=records)
    made, runs = releasing.release_of(context), [releasing.read_run(one) for one in run or ()]
    findings = [*releasing.check_release(context, made, index), *map(releasing.check_run, runs)]
    path = releasing.write_release(context, made, findings, image=image, runs=runs)
    for finding in findings:
        echo(finding.line)
    typer.echo(path.read_text(encoding="utf-8") if as_json else str(path))
    refuse_failed(f"the gate of {index}", findings)


@app.command()
def publish(  # typer makes options of them
    ctx: typer.Context,
    index: Annotated[
        str, typer.Option("--index", metavar="NAME", help="pypi, testpypi or a name in package.indexes.")
    ],
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    skip_existing_version: Annotated[
        bool,
        typer.Option(
            "--skip-existing-version", help="Accept another build of the same preview on the index."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and compare everything, and upload nothing.")
    ] = False,
    uploaded: Annotated[
        bool, typer.Option("--uploaded", help="Upload nothing: install what another tool has uploaded.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Publish verified packages, or the missing ones; then install them from the index.

    Example: spyre-ci package publish --index stage --dry-run
    """
    with extra():
        from ci.core.findings import refuse_failed  # noqa: PLC0415
        from ci.package import release as releasing  # noqa: PLC0415
        from ci.package.context import context_of  # noqa: PLC0415
        from ci.package.credentials import TOKEN_VARIABLE, check_recipient, find_credentials  # noqa: PLC0415
        from ci.package.gate import check_index  # noqa: PLC0415
        from ci.package.index_client import IndexClient  # noqa: PLC0415
        from ci.package.publish import Publisher  # noqa: PLC0415

    context = context_of(ctx, folder, dist=dist, records=records)
    target, made = context.index(index), releasing.release_of(context)
    fit = check_index(made.artifacts, index, target)
    refuse_failed(f"the gate of {index}", [*releasing.check_release(context, made, index), *fit])
    publisher = Publisher(
        client=IndexClient(name=index, index=target),
        release=made,
        records=context.records,
        environ=os.environ,
        constraints=context.constraints,
        timeout_s=context.package.publish_timeout_s,
        say=say,
    )
    if dry_run:  # after which an action uploads the folder
        releasing.refuse_others(context.dist, made)
    found = publisher.compare(other_preview=skip_existing_version)
    if dry_run:
        if found.absent and (os.environ.get(TOKEN_VARIABLE) or os.environ.get("GITHUB_OUTPUT")):
            # Whoever uploads then shows this address the token, or the word of the job.
            check_recipient(context.settings, index, target, os.environ)
        outputs = {"upload": target.upload, "user": target.user}
        write_outputs(os.environ, {**outputs, "absent": len(found.absent), "there": len(found.there)})
        done = publisher.would(found)
    else:
        find = partial(find_credentials, context.settings, index, target, os.environ)
        done = publisher.publish(found, None if uploaded else find)
    _tell(done, dry_run=dry_run, as_json=as_json)


def say(line: str) -> None:
    """Print a line for people, which says what files and indexes are called and commands no CI."""
    from ci.package.text import harmless_line  # noqa: PLC0415

    for part in line.splitlines():
        typer.echo(harmless_line(part), err=True)


def _tell(done: Mapping[str, Any], *, dry_run: bool, as_json: bool) -> None:
    from ci.package.text import harmless_line  # noqa: PLC0415

    if as_json:
        typer.echo(document_text("package-publish", {**done, "dry_run": dry_run}))
        return
    names = ", ".join(one["name"] for one in done["files"])
    told = "would be published on" if dry_run and done["state"]["absent"] else "is published on"
    typer.echo(harmless_line(f"{done['project']} {done['version']} {told} {done['index']}: {names}"))
