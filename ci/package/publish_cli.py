"""Verbs of `spyre-ci package` that write a release down and publish it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ci.config.flags import Json
from ci.core.findings import refuse_failed
from ci.core.provider import write_outputs
from ci.package.flags import Dist, IndexName, ProjectFolder, Records, extra
from test_selection.files import document_text

if TYPE_CHECKING:
    from ci.config.package_model import Index
    from ci.package.index_client import Comparison
    from ci.package.wiring import Bench


def release(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    index: Annotated[str, typer.Option(metavar="NAME", help="The index whose gate it is to pass.")] = "pypi",
    image: Annotated[str, typer.Option(metavar="NAME@sha256:…", help="The image it was tested on.")] = "",
    run: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A run of PyTorch's tests; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write release.json and SHA256SUMS; ends with 1 where a step, or a run that is named, is not green.

    Example: spyre-ci package release . --index stage
    """
    with extra():
        from ci.package.release import check_release, check_run, read_run, release_of, write_release  # noqa: PLC0415
        from ci.package.wiring import bench_of, echo  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    made, runs = release_of(bench), [read_run(one) for one in run or ()]
    findings = [*check_release(bench, made, index), *map(check_run, runs)]
    path = write_release(bench, made, findings, image=image, runs=runs, now=datetime.now(UTC))
    for finding in findings:
        echo(finding.line)
    typer.echo(path.read_text(encoding="utf-8") if as_json else str(path))
    refuse_failed(f"the gate of {index}", findings)


def say(line: str) -> None:
    """Print a line for people, which says what files and indexes are called and commands no CI."""
    from ci.package.text import harmless_line  # noqa: PLC0415
    from ci.package.wiring import echo  # noqa: PLC0415

    for part in line.splitlines():
        echo(harmless_line(part))


def publish(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    index: IndexName,
    folder: ProjectFolder = Path(),
    dist: Dist = None,
    records: Records = None,
    skip_existing_version: Annotated[
        bool,
        typer.Option("--skip-existing-version", help="Be content with another build of the same preview."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and compare everything, and upload nothing.")
    ] = False,
    uploaded: Annotated[
        bool, typer.Option("--uploaded", help="Upload nothing: install what another tool has uploaded.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Publish what was verified, or the rest of it; then install it from there.

    Example: spyre-ci package publish --index stage --dry-run
    """
    with extra():
        from ci.package.credentials import find_credentials  # noqa: PLC0415
        from ci.package.gate import check_index  # noqa: PLC0415
        from ci.package.index_client import IndexClient  # noqa: PLC0415
        from ci.package.publish import Publisher  # noqa: PLC0415
        from ci.package.release import check_release, refuse_others, release_of  # noqa: PLC0415
        from ci.package.wiring import bench_of, index_of  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    target, made = index_of(bench.package, index), release_of(bench)
    refuse_failed(
        f"the gate of {index}",
        [*check_release(bench, made, index), *check_index(made.artifacts, index, target)],
    )
    if dry_run:  # after which an action uploads the folder
        refuse_others(bench.dist, made.artifacts)
    publisher = Publisher(
        client=IndexClient(name=index, index=target),
        artifacts=made.artifacts,
        commit=made.commit,
        records=bench.records,
        environ=os.environ,
        constraints=bench.constraints,
        timeout_s=bench.package.publish_timeout_s,
        say=say,
    )
    found = publisher.compare(other_preview=skip_existing_version)

    if dry_run:
        _hand_over(bench, index, target, found)
        done = publisher.would(found)
    elif uploaded:
        done = publisher.publish(found, None)
    else:
        find = partial(
            find_credentials, bench.settings, index, target, os.environ, checkout=bench.project.folder
        )
        done = publisher.publish(found, find)
    _tell(done, dry_run=dry_run, as_json=as_json)


def _hand_over(bench: Bench, name: str, index: Index, found: Comparison) -> None:
    """Tell the action that uploads in a GitHub job where to, and how many files."""
    from ci.package.credentials import TOKEN_VARIABLE, check_recipient  # noqa: PLC0415

    if found.absent and (os.environ.get(TOKEN_VARIABLE) or os.environ.get("GITHUB_OUTPUT")):
        # Whoever uploads then shows this address the token, or the word of the job.
        check_recipient(bench.settings, name, index, os.environ, checkout=bench.project.folder)
    outputs = {"upload": index.upload, "user": index.user}
    write_outputs(os.environ, {**outputs, "absent": len(found.absent), "there": len(found.there)})


def _tell(done: Mapping[str, Any], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(document_text("package-publish", {**done, "dry_run": dry_run}))
        return
    from ci.package.text import harmless_line  # noqa: PLC0415

    names = ", ".join(one["name"] for one in done["files"])
    told = "would be on" if dry_run and done["state"]["absent"] else "is on"
    typer.echo(harmless_line(f"{done['project']} {done['version']} {told} {done['index']}: {names}"))
