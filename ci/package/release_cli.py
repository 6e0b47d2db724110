"""Verbs of `spyre-ci package` that prove a release and tell of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ci.config.flags import Json
from ci.package.extra import extra
from ci.package.flags import Dist, ProjectFolder, Records
from test_selection.files import document_text


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
