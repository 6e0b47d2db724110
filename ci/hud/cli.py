"""`spyre-ci hud`: the server and its store for people; reports, rows and identities for pipelines."""

from __future__ import annotations

import os
import random
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ci.config import completing
from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.core.errors import EXIT_INCOMPLETE, UsageError
from ci.core.text import counted
from ci.hud.callback import MAX_ATTEMPT
from ci.hud.delivery import Effects
from ci.hud.forward import VARIABLE, forward, hand_over, is_handed_over
from ci.hud.opening import open_server
from ci.hud.payload import IDENTITY, SUMMARY
from ci.hud.row_upload import JUNIT_FOLDER, job_of_run
from ci.hud.send import Reporter, send_run
from ci.steps.folder import find_run
from ci.store.identity import MAX_WHOLE, job_number
from ci.store.row_files import export_rows, junit_files, object_name, place_of, row_file
from ci.store.rows import Job
from test_selection.files import document_text

app = typer.Typer(no_args_is_help=True)


@app.command()
def rows(
    ctx: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="Run folder, or JUnit files and folders of JUnit files."),
    ],
    *,
    to: Annotated[str, typer.Option(metavar="DIR|s3://…", help="Folder or bucket to write the rows to.")],
    run_id: Annotated[
        int | None, typer.Option(min=1, max=MAX_WHOLE, help="Run id in the CI; default: the run folder's.")
    ] = None,
    attempt: Annotated[int, typer.Option(min=1, max=MAX_ATTEMPT, help="Attempt number in the CI.")] = 1,
    check_run_id: Annotated[str | None, typer.Option(help="Check run id in the job's callback.")] = None,
    as_json: Json = False,
) -> None:
    """Convert JUnit files into HUD's rows: test_run, test_run_summary, failed_test_runs (gzipped JSON lines).

    Example: spyre-ci hud rows reports/ --run-id 70123 --check-run-id 80456 --to s3://ossci-raw-job-status
    """
    settings = settings_from_context(ctx)
    repository = settings.model.report.repository
    if run_id is None:
        if len(paths) != 1 or not (paths[0] / SUMMARY).is_file():
            raise UsageError(
                "the CI run of these files is unknown",
                where=str(paths[0]),
                remedy="give --run-id (and --attempt, --check-run-id), or a run folder of spyre-ci",
            )
        job, paths = job_of_run(paths[0], repository, os.environ), [paths[0] / JUNIT_FOLDER]
    else:
        number = job_number(check_run_id or f"{run_id}-{attempt}", repository=repository)
        job = Job(workflow_id=run_id, workflow_run_attempt=attempt, job_id=number)
    put = place_of(to)
    with tempfile.TemporaryDirectory(prefix="spyre-ci-rows-") as name:
        folder = Path(name)
        counts = export_rows(junit_files(paths), job, folder)
        written = {
            put(object_name(kind, job), row_file(folder, kind)): number for kind, number in counts.items()
        }
    if as_json:
        typer.echo(document_text("hud-rows", {"job": job.keys(), "files": written}, on_one_line=True))
        return
    for address, number in written.items():
        typer.echo(f"{counted(number, 'row'):>14}  {address}")


@app.command()
def serve(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: hud.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one; default: hud.port.")
    ] = None,
) -> None:
    """Serve the HUD-compatible endpoint and its pages until Ctrl-C.

    Example: spyre-ci hud serve --port 0
    """
    from ci.hud.server import serve as serving  # noqa: PLC0415  # as in `open_server`

    settings = settings_from_context(ctx)
    hud = settings.model.hud
    # The address is the first line of the output; what is warned of before goes beside it.
    warn = partial(typer.echo, err=True)
    with open_server(settings, os.environ, clock=time.time, warn=warn) as server:
        chores = serving.Chores(
            store=server.store,
            rows=server.rows,
            warn=typer.echo,
            sweep_every_s=hud.sweep_every_s,
            keep_days=settings.model.store.keep_days,
        )
        serving.serve(
            host if host is not None else hud.host,
            port if port is not None else hud.port,
            server.app,
            echo=typer.echo,
            chores=chores.doing(time.time),
        )


@app.command("send")
def send_verb(
    ctx: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="Run folder, id or `latest`, which is the default.",
            autocompletion=completing.runs,
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Send a run's unsent reports to HUD: start, end and what is queued; exit with 3 when not delivered.

    Without RUN, send the report in SPYRE_CI_REPORT, which another CI has passed on.

    Example: spyre-ci hud send latest
    """
    settings = settings_from_context(ctx)
    runs = settings.resolve(settings.model.runs)
    reporter = Reporter(
        settings=settings,
        environ=os.environ,
        effects=Effects(clock=time.time, sleep=time.sleep, rng=random.SystemRandom().random),
        echo=partial(typer.echo, err=json_output),
    )
    if run is None and VARIABLE in os.environ:
        delivery = forward(runs, reporter)
    else:
        run_dir = find_run(runs, str(run or "latest"), holding=IDENTITY).path
        delivery = send_run(run_dir, reporter)
        if delivery.done and is_handed_over(run_dir, reporter):
            delivery = hand_over(run_dir, reporter)
    if json_output:
        typer.echo(document_text("delivery", asdict(delivery)))
    raise typer.Exit(0 if delivery.done else EXIT_INCOMPLETE)
