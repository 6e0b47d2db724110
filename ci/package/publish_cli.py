"""Verbs of `spyre-ci package` that prove a release, publish it and tell of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ci.config import Settings
from ci.config.flags import Json
from ci.config.package_model import Index
from ci.core.errors import MissingInputError
from ci.package.flags import Dist, IndexName, ProjectFolder, Records, extra
from test_selection.files import document_text

DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask everything, and upload nothing.")]


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
    override: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help="Pass over a check that failed; repeatable.")
    ] = None,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who answers for --override.")] = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; recorded with the release.")] = "",
    as_json: Json = False,
) -> None:
    """Write release.json, the SBOM, SHA256SUMS and the statement; ends with 1 where the gate is shut.

    Example: spyre-ci package release . --index stage
    """
    with extra():
        from ci.package import gates  # noqa: PLC0415
        from ci.package.artifacts import artifacts_in  # noqa: PLC0415
        from ci.package.evidence import read_run  # noqa: PLC0415
        from ci.package.release import Proof, ground_of, judge_on, write_release  # noqa: PLC0415
        from ci.package.wiring import bench_of, echo, index_of  # noqa: PLC0415

    now = datetime.now(UTC)
    bench = bench_of(ctx, folder, dist=dist, records=records)
    at = now.isoformat(timespec="seconds")
    gate = index_of(bench.package, index).gate
    proof = Proof(
        runs=[read_run(one) for one in run or ()],
        image=image,
        overrides=[
            gates.Override(check=one, gate=gate, by=by, reason=reason, at=at) for one in override or ()
        ],
    )
    path = write_release(bench, proof, gate, at=now)
    judgement = judge_on(ground_of(bench), gate, proof, artifacts_in(bench.dist))
    for finding in judgement.findings:
        echo(finding.line)
    typer.echo(path.read_text(encoding="utf-8") if as_json else str(path))
    gates.refuse_shut(judgement, index)


def check_statement(
    statement: Annotated[Path, typer.Argument(metavar="STATEMENT", help="An envelope, *.intoto.json.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="The public key, in PEM.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Files that it is to be of.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a statement's signature, and that files are those it is of.

    Example: spyre-ci package check-statement demo.intoto.json dist/demo-1.0-py3-none-any.whl --key key.pem
    """
    with extra():
        from ci.package.artifacts import artifact  # noqa: PLC0415
        from ci.package.statement import check_envelope, check_subjects  # noqa: PLC0415
        from ci.package.wiring import read_named  # noqa: PLC0415

    said = check_envelope(statement, read_named(key, "--key"))
    check_subjects(said, [artifact(path) for path in files or ()], statement)
    source = said["predicate"]["buildDefinition"]["externalParameters"]["source"]
    told = f"signed; {len(said['subject'])} files, built of {source['commit'] or 'no commit'}"
    typer.echo(document_text("package-check-statement", said) if as_json else told)


def notes(
    ctx: typer.Context,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Of the release.")],
    folder: ProjectFolder = Path(),
) -> None:
    """Print a release's notes, from the change fragments; nothing is changed.

    Example: spyre-ci package notes 1.2.3
    """
    with extra():
        from ci.package.notes import notes_of  # noqa: PLC0415
        from ci.package.wiring import bench_of  # noqa: PLC0415

    typer.echo(notes_of(bench_of(ctx, folder).project, version, os.environ), nl=False)


def changelog(
    ctx: typer.Context,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Of the release.")],
    folder: ProjectFolder = Path(),
) -> None:
    """Put the change fragments into the changelog, under a version, and delete them.

    Example: spyre-ci package changelog 1.2.3
    """
    with extra():
        from ci.package.notes import write_changelog  # noqa: PLC0415
        from ci.package.wiring import bench_of  # noqa: PLC0415

    today = datetime.now(UTC).date().isoformat()
    typer.echo(write_changelog(bench_of(ctx, folder).project, version, os.environ, date=today), nl=False)


if TYPE_CHECKING:
    from ci.package.artifacts import Artifact
    from ci.package.publishing import Gate, Publisher
    from ci.package.records import Record
    from ci.package.release import Ground


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
        from ci.package.artifacts import artifacts_in  # noqa: PLC0415
        from ci.package.publishing import Release, taken_by, verified  # noqa: PLC0415
        from ci.package.release import ground_of  # noqa: PLC0415
        from ci.package.wiring import bench_of, index_of  # noqa: PLC0415

    bench = bench_of(ctx, folder, dist=dist, records=records)
    target, project = index_of(bench.package, index), bench.project
    artifacts = artifacts_in(bench.dist)
    record = _verified(bench.records)
    refuse_failed(
        f"for {index}",
        [
            *verified(artifacts, record, project.source, project.canonical),
            *taken_by(artifacts, index, target),
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
