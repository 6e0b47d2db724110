"""`spyre-ci hud`: the server and its store for people; reports, rows and identities for pipelines."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ci.config import Settings, completing
from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.core.errors import EXIT_INCOMPLETE, MissingInputError, UsageError
from ci.hud.callback import MAX_ATTEMPT
from ci.hud.deliver import FLUSH_BUDGET_S, Delivery, Reporter, begin, flush_run
from ci.hud.flush import Effects
from ci.hud.handing import forward, hand_over
from ci.hud.making import FIELDS, name_run
from ci.hud.opening import open_server
from ci.hud.row_upload import JUNIT_FOLDER, job_of_run, rows_wait
from ci.store.identity import MAX_WHOLE, job_number
from ci.store.row_files import export_rows, junit_files, object_name, object_store, row_file
from ci.store.rows import KINDS, Job
from test_selection.files import document_text

app = typer.Typer(
    help="HUD: report results, and serve the pages of the embedded endpoint.", no_args_is_help=True
)

LATEST = Path("latest")
Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder, id or `latest`.", autocompletion=completing.runs)
]


@app.command()
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
    warn = _echo(err=True)
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
            chores=serving.doing(chores, clock=time.time),
        )


@app.command("begin")
def begin_verb(ctx: typer.Context, run: Run = LATEST) -> None:
    """Tell that a run begins which the relay dispatched; for runs that are split over machines.

    Example: spyre-ci hud begin latest
    """
    settings = settings_from_context(ctx)
    # A run that only begins has been planned, and has nothing to send yet.
    run_dir = run_folder(settings.resolve(settings.model.runs), run, holding="run.json")
    if begin(run_dir, _reporter(settings, budget_s=settings.model.report.budget_s)) is None:
        typer.echo("HUD: there is nothing to tell yet: the run reports itself, when it has ended")


@app.command("flush")
def flush_verb(ctx: typer.Context, run: Run = LATEST, json_output: Json = False) -> None:
    """Send the reports that wait in a run's outbox; ends with 3 when some are left.

    Example: spyre-ci hud flush latest
    """
    settings = settings_from_context(ctx)
    run_dir = run_folder(settings.resolve(settings.model.runs), run)
    if not any((run_dir / "outbox").glob("*.json")) and not rows_wait(run_dir):
        typer.echo(f"HUD: nothing waits in the outbox of {run_dir}", err=json_output)
        _end(Delivery(outcome="delivered"), json_output=json_output)
    reporter = _reporter(settings, json_output=json_output)
    delivery = flush_run(
        run_dir, settings, environ=reporter.environ, effects=reporter.effects, echo=reporter.echo
    )
    _end(delivery, json_output=json_output)


@app.command("dispatch")
def dispatch_verb(ctx: typer.Context, run: Run = LATEST, json_output: Json = False) -> None:
    """Ask the GitHub repository of `report.dispatch` to report a run; ends with 3 when it was not asked.

    Example: spyre-ci hud dispatch latest
    """
    settings = settings_from_context(ctx)
    run_dir = run_folder(settings.resolve(settings.model.runs), run, holding="summary.json")
    _end(hand_over(run_dir, _reporter(settings, json_output=json_output)), json_output=json_output)


@app.command("forward")
def forward_verb(ctx: typer.Context, json_output: Json = False) -> None:
    """Report what another CI handed over in SPYRE_CI_REPORT; ends with 3 when it is not delivered.

    Example: spyre-ci hud forward
    """
    settings = settings_from_context(ctx)
    runs = settings.resolve(settings.model.runs)
    _end(forward(runs, _reporter(settings, json_output=json_output)), json_output=json_output)


@app.command("identity")
def identity_verb(  # typer makes options of them
    ctx: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="Run folder, id or `latest`; default: what the environment says.",
            autocompletion=completing.runs,
        ),
    ] = None,
    shard: Annotated[
        int | None, typer.Option(min=0, max=MAX_WHOLE, help="A shard's index, for `shard_key`.")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(help="A test's canonical id, for `test_key`.", autocompletion=completing.tests),
    ] = None,
    field: Annotated[str | None, typer.Option(help="Print this one alone.")] = None,
    json_output: Json = False,
) -> None:
    """Print what a run, its job, a shard and a test are known by, so that no pipeline works it out itself.

    Example: spyre-ci hud identity latest --shard 0
    """
    if field is not None and field not in FIELDS:
        raise UsageError(
            f"{field!r} is none of them", where="--field", remedy=f"name one of {', '.join(FIELDS)}"
        )
    settings = settings_from_context(ctx)
    report = settings.model.report
    run_dir = (
        None if run is None else run_folder(settings.resolve(settings.model.runs), run, holding="run.json")
    )
    event = None if report.event_file is None else settings.resolve(report.event_file)
    named = name_run(
        run_dir,
        repository=report.repository,
        environ=os.environ,
        epoch_s=time.time(),
        event_file=event,
        shard=shard,
        test=test,
    )
    if field is not None:
        value = named[field]
        typer.echo(json.dumps(value) if json_output else value)
    elif json_output:
        typer.echo(document_text("hud-identity", named))
    else:
        for name, value in named.items():
            typer.echo(f"{name}={value}")


def run_folder(runs: Path, named: Path, *, holding: str = "outbox") -> Path:
    """The folder of a run by path or name; `latest` is the newest that holds a file or folder.

    Raises:
        MissingInputError: there is none.
    """
    if str(named) == "latest":
        found = sorted(runs.glob(f"*/{holding}"), key=lambda path: path.stat().st_mtime_ns)
        if not found:
            what = f"an {holding}" if holding == "outbox" else f"a {holding}"
            raise MissingInputError(f"there is no run with {what} yet", where=runs, remedy="run one first")
        return found[-1].parent
    folder = next((folder for folder in (named, runs / named) if folder.is_dir()), None)
    if folder is None:
        raise MissingInputError("there is no such run folder", where=named, remedy="check the path")
    return folder


def _reporter(settings: Settings, *, json_output: bool = False, budget_s: float = FLUSH_BUDGET_S) -> Reporter:
    return Reporter(
        settings=settings,
        environ=os.environ,
        effects=Effects(clock=time.time, sleep=time.sleep, rng=random.SystemRandom().random),
        echo=_echo(err=json_output),
        budget_s=budget_s,
    )


def _echo(*, err: bool) -> Callable[[str], None]:
    def echo(line: str) -> None:
        typer.echo(line, err=err)

    return echo


def _end(delivery: Delivery, *, json_output: bool) -> None:
    if json_output:
        typer.echo(document_text("delivery", asdict(delivery)))
    raise typer.Exit(0 if delivery.outcome in {"delivered", "dispatched"} else EXIT_INCOMPLETE)
