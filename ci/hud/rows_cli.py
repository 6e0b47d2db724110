"""`spyre-ci hud rows`: JUnit of any runner as the rows HUD keeps, into a folder or a bucket."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.core.errors import UsageError
from ci.hud.callback import MAX_ATTEMPT, MAX_WHOLE
from ci.hud.identity import job_number
from ci.hud.object_store import object_store
from ci.hud.row_export import export_rows, junit_files, row_file
from ci.hud.row_files import object_name
from ci.hud.row_layout import KINDS
from ci.hud.row_upload import JUNIT_FOLDER, job_of_run
from ci.hud.rows import Job
from test_selection.files import document_text


def rows(
    ctx: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="A run's folder, or JUnit files and folders of them."),
    ],
    *,
    to: Annotated[str, typer.Option(metavar="DIR|s3://…", help="Where the files of rows are put.")],
    run_id: Annotated[
        int | None, typer.Option(min=1, max=MAX_WHOLE, help="The CI's run; of a run's folder its own.")
    ] = None,
    attempt: Annotated[int, typer.Option(min=1, max=MAX_ATTEMPT, help="The CI's attempt.")] = 1,
    check_run_id: Annotated[str | None, typer.Option(help="The job's, as its callback has it.")] = None,
    as_json: Json = False,
) -> None:
    """Write test_run, test_run_summary and failed_test_runs of JUnit files, gzip, a JSON object a line.

    Example: spyre-ci hud rows reports/ --run-id 70123 --check-run-id 80456 --to s3://ossci-raw-job-status
    """
    settings = settings_from_context(ctx)
    repository = settings.model.report.repository
    if run_id is None:
        job, sources = _of_run(paths, repository, os.environ)
    else:
        number = job_number(check_run_id or f"{run_id}-{attempt}", repository=repository)
        job, sources = Job(workflow_id=run_id, workflow_run_attempt=attempt, job_id=number), paths
    written = put_rows(junit_files(sources), job, to)
    if as_json:
        typer.echo(document_text("hud-rows", {"job": job.keys(), "files": written}, on_one_line=True))
        return
    for address, number in written.items():
        typer.echo(f"{number:>9,} rows  {address}")


def put_rows(files: Sequence[Path], job: Job, to: str) -> dict[str, int]:
    """Put the files of rows of JUnit files somewhere; rows by address.

    Args:
        files: JUnit of any runner.
        job: whose they are.
        to: a folder, or `s3://bucket/prefix`.

    Raises:
        SpyreCiError: a file is no JUnit, or the rows cannot be put there.
    """
    store = object_store(to)
    with tempfile.TemporaryDirectory(prefix="spyre-ci-rows-") as name:
        counts = export_rows(files, job, Path(name))
        return {store.put(object_name(kind, job), row_file(Path(name), kind)): counts[kind] for kind in KINDS}


def _of_run(paths: Sequence[Path], repository: str, environ: Mapping[str, str]) -> tuple[Job, list[Path]]:
    if len(paths) != 1 or not (paths[0] / "summary.json").is_file():
        raise UsageError(
            "nothing says which run of the CI these files are of",
            where=str(paths[0]),
            remedy="give --run-id (and --attempt, --check-run-id), or the folder of a run of spyre-ci",
        )
    return job_of_run(paths[0], repository, environ), [paths[0] / JUNIT_FOLDER]
