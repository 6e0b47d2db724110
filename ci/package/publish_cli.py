"""`spyre-ci package publish`: what was verified, to an index."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ci.config import Settings
from ci.config.flags import Json
from ci.config.package_model import Index
from ci.core.errors import MissingInputError
from ci.package.extra import extra
from ci.package.flags import Dist, IndexName, ProjectFolder, Records
from test_selection.files import document_text

if TYPE_CHECKING:
    from ci.package.artifacts import Artifact
    from ci.package.publishing import Gate, Publisher
    from ci.package.records import Record
    from ci.package.release import Ground

DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask everything, and upload nothing.")]


def say(line: str) -> None:
    """A line for people, which says what files and indexes are called and commands no CI."""
    from ci.package.text import harmless_line  # noqa: PLC0415
    from ci.package.wiring import echo  # noqa: PLC0415

    for part in line.splitlines():
        echo(harmless_line(part))


def gate_of(ground: Ground) -> Gate:
    """What is asked before anything is uploaded; raises where it is shut.

    Args:
        ground: what gates are judged on.
    """
    from ci.package.release import pass_gate  # noqa: PLC0415

    def ask(name: str, index: Index, artifacts: Sequence[Artifact]) -> None:
        for one in pass_gate(ground, name, index.gate, artifacts).overrides:
            say(f"passed over by {one.by}: {one.check} ({one.reason})")
        say(f"the gate of {name} is open: {index.gate}")

    return ask


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
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Publish what was verified, or the rest of it; then install it from there.

    Example: spyre-ci package publish --index stage --dry-run
    """
    with extra():
        from ci.core.findings import refuse_failed  # noqa: PLC0415
        from ci.package import fitness  # noqa: PLC0415
        from ci.package.artifacts import artifacts_in  # noqa: PLC0415
        from ci.package.publishing import Release  # noqa: PLC0415
        from ci.package.release import ground_of  # noqa: PLC0415
        from ci.package.wiring import bench_of, index_of  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    target, project = index_of(bench.package, index), bench.project
    artifacts = artifacts_in(bench.dist)
    record = _verified(bench.records)
    refuse_failed(
        f"for {index}",
        [
            *fitness.verified(artifacts, record, project.source, project.canonical),
            *fitness.taken_by(artifacts, index, target),
        ],
    )
    gate = gate_of(ground_of(bench))
    publisher = _publisher(
        bench.settings, index, target, checkout=project.folder, records=bench.records, gate=gate,
        constraints=bench.constraints,
    )  # fmt: skip
    release = Release(artifacts=artifacts, commit=project.source.commit)
    _tell(
        publisher.publish(release, dry_run=dry_run, skip_existing_version=skip_existing_version),
        as_json=as_json,
    )


def _verified(records: Path) -> Record | None:
    from ci.package.records import VERIFY, read_record  # noqa: PLC0415

    try:
        return read_record(records, VERIFY)
    except MissingInputError:
        return None


def _publisher(
    settings: Settings,
    name: str,
    index: Index,
    *,
    checkout: Path,
    records: Path,
    gate: Gate,
    constraints: Sequence[str],
) -> Publisher:
    from ci.package.asking import Asker  # noqa: PLC0415
    from ci.package.credentials import find_credentials  # noqa: PLC0415
    from ci.package.publishing import Publisher  # noqa: PLC0415

    return Publisher(
        asker=Asker(name=name, index=index),
        gate=gate,
        credentials=lambda: find_credentials(settings, name, index, os.environ, checkout=checkout),
        records=records,
        environ=os.environ,
        constraints=constraints,
        timeout_s=settings.model.package.publish_timeout_s,
        now=time.time,
        say=say,
    )


def _tell(done: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(document_text("package-publish", done))
        return
    from ci.package.text import harmless_line  # noqa: PLC0415

    names = ", ".join(one["name"] for one in done["files"])
    said = "would be on" if done["dry_run"] and done["state"]["absent"] else "is on"
    line = f"{done['project']} {done['version']} {said} {done['index']}: {names}"
    typer.echo(harmless_line(line))
