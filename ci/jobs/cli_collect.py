"""`spyre-ci job collect`: what a job's pods left, gathered into its run and reported as any run is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ci.core.errors import EXIT_OK, MissingInputError, SettingsError, SpyreCiError
from ci.core.locks import run_lock
from ci.core.object_store import SCHEME
from ci.core.provider import BY_DIGEST
from ci.core.text import counted, plain
from ci.core.workflow_commands import defused
from ci.jobs.cluster import Cluster, open_cluster
from ci.jobs.cluster_cli import InContext
from ci.jobs.gather import gather, make_room, tell_untold
from ci.jobs.listing import Told, ask_cluster
from ci.jobs.prepare import run_of, tracker_of
from ci.jobs.record import FILE as RECORD_FILE
from ci.jobs.record import HERE, JobRecord, read_record
from ci.jobs.tracking_facts import metrics_of, status_of
from ci.main_job.report import report_step
from ci.record.identity import read_identity
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import RunFolder, find_run
from test_selection.files import json_text, read_json
from test_selection.plan import read_plan


def collect(
    ctx: typer.Context,
    named: Annotated[
        str, typer.Argument(metavar="NAME|RUN", help="The job, or its run's folder or id, or `latest`.")
    ] = "latest",
    store: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help="The job's store as seen from here: a folder or s3://…."
        ),
    ] = None,
    allow_collect_errors: Annotated[
        bool, typer.Option(help="Files that cannot be collected do not redden the run.")
    ] = False,
    cluster_context: InContext = None,
    json_output: options.Json = False,
) -> None:
    """Gather what a job's pods left, and report the run; while pods run, what there is of it so far.

    Of shards without a journal the cluster says why that is, where it still knows.

    Example: spyre-ci job collect latest --from results
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    folder = find_job_folder(context.runs, named)
    record = _record_in(folder)
    where = _seen_at(store, record, named)
    told = _asked(context, record, cluster_context)
    code = collect_job(
        context,
        folder,
        where,
        record=record,
        reasons=told.reasons,
        allow_collect_errors=allow_collect_errors,
        goes_on=told.goes_on,
    )
    if json_output:
        typer.echo(json_text(read_json(folder.summary, "summary")))
    raise typer.Exit(code)


def collect_watched(
    context: Context, folder: RunFolder, cluster: Cluster, *, store: str | None, report: bool = True
) -> int:
    """Report the run of a job that was watched to its end, whatever that was; its exit code.

    Args:
        context: the outside world.
        folder: of the run, with the job's record.
        cluster: the job is on.
        store: the spec's volume as seen from here, or None.
        report: whether it is reported here; else its journals are gathered for who reports it.
    """
    record = read_record(folder.path)
    where, reasons = _seen_at(store, record, record.name), _told(context, cluster, record.name).reasons
    if report:
        return collect_job(context, folder, where, record=record, reasons=reasons, ended=True)
    with run_lock(folder.path, alone=True):
        gather_job(context, folder, where, record=record, reasons=reasons, ended=True)
    return EXIT_OK


def find_job_folder(runs: Path, named: str) -> RunFolder:
    """The run folder of a job, by the run's folder or id, `latest`, or the job's name.

    Raises:
        MissingInputError: there is none.
    """
    try:
        return find_run(runs, named, holding=RECORD_FILE)
    except MissingInputError:
        for path in sorted(runs.glob(f"*/{RECORD_FILE}"), reverse=True):
            # One that cannot be read hides no other.
            with contextlib.suppress(SpyreCiError, OSError):
                if read_record(path.parent).name == named:
                    return RunFolder(path=path.parent)
        raise


def collect_job(
    context: Context,
    folder: RunFolder,
    where: str,
    *,
    record: JobRecord | None,
    reasons: Mapping[int, str],
    allow_collect_errors: bool = False,
    ended: bool = False,
    goes_on: bool = False,
) -> int:
    """Gather, say of shards without a journal why that is, and report; the run's exit code.

    Args:
        context: the outside world.
        folder: of the run.
        where: the store as seen from here, a folder or s3://….
        record: of the job; None where nobody noted it.
        reasons: by pod, why it left nothing, where that is known.
        allow_collect_errors: whether files in scope may fail to collect.
        ended: the job has, so that a store without anything is what became of it.
        goes_on: the cluster says that it has not: it is reported here, and nobody is told of its end.

    Raises:
        MissingInputError: there is nothing of the run in the store, and nobody says why.
        RunInUseError: somebody else works in the run's folder.
    """
    with run_lock(folder.path, alone=True):
        gather_job(context, folder, where, record=record, reasons=reasons, ended=ended)
        image = "" if record is None or not BY_DIGEST.fullmatch(record.image) else record.image
        code = report_step(
            context, folder, allow_collect_errors=allow_collect_errors, goes_on=goes_on, image=image
        ).exit_code
    if goes_on:
        _say(context, "the job goes on: HUD, MLflow, the history and the CI's page hear of it at its end")
        return code
    summary = read_json(folder.summary, "summary")
    seconds = context.clock() - read_identity(folder.path).started_at
    tracker_of(context, folder).end(status_of(code), metrics_of(summary["verdicts"], seconds), where)
    return code


def gather_job(
    context: Context,
    folder: RunFolder,
    where: str,
    *,
    record: JobRecord | None,
    reasons: Mapping[int, str],
    ended: bool,
) -> None:
    """Gather a job's journals into its run's folder, with a word for shards without one.

    Raises:
        MissingInputError: there is nothing of the run in the store, and nobody says why.
    """
    identity, plan = read_identity(folder.path), read_plan(folder.plan)
    run = run_of(identity) if record is None else record.run
    pods = () if record is None else record.shards
    owners = {shard: pod for pod, shards in enumerate(pods) for shard in shards}
    if (moved := make_room(folder.path, run, record)) is not None:
        _say(context, f"what was here is not of {run}, and is in {moved} now")
    found = gather(where, run, folder.path, owners)
    if not (found.files or reasons or ended):
        raise MissingInputError(
            f"there is nothing of the pods of {run}", where=where, remedy="name the job's store"
        )
    _say(context, f"gathered {counted(found.files, 'file')} of pods, {found.new_bytes:,} bytes new")
    for note in [*found.notes, *([f"and {found.more:,} more of the kind"] if found.more else [])]:
        _say(context, f"gathered: {note}")
    why = {shard: reasons[pod] for shard, pod in owners.items() if pod in reasons}
    untold = tell_untold(folder.path, plan, why, moment=identity.started_at)
    if untold:
        _say(context, f"no journal tells of {counted(len(untold), 'shard')}")


def _record_in(folder: RunFolder) -> JobRecord | None:
    """The job of a run; None where nobody noted it.

    Raises:
        MissingInputError: it was of an earlier run in the same folder, and this one's was not submitted.
    """
    if not (folder.path / RECORD_FILE).is_file():
        return None
    record, run = read_record(folder.path), run_of(read_identity(folder.path))
    if record.run != run:
        raise MissingInputError(
            f"{record.name} was a job of {record.run}, and the run is {run} now",
            where=folder.path / RECORD_FILE,
            remedy="submit this run, then collect it; what the earlier one came to is in the store still",
        )
    return record


def _seen_at(store: str | None, record: JobRecord | None, named: str) -> str:
    """Where the store is seen from here.

    Raises:
        SettingsError: it is a volume, and nobody says where that is mounted here.
    """
    if store:
        return store
    if record is not None and record.store.startswith(SCHEME):
        return record.store
    raise SettingsError(
        "nobody says where the pods put what they have",
        where=named,
        remedy="name the folder where its volume is mounted here: --from of collect, --store of submit",
    )


def _asked(context: Context, record: JobRecord | None, cluster_context: str | None) -> Told:
    """What the cluster says of pods; nothing where there is none to ask: the journals are what counts."""
    if record is None or not record.shards or record.namespace == HERE:
        return Told()
    try:
        cluster = open_cluster(os.environ, namespace=record.namespace, context=cluster_context)
    except SpyreCiError as error:
        _say(context, f"no cluster is asked why pods left nothing: {error.what}")
        return Told()
    return _told(context, cluster, record.name)


def _told(context: Context, cluster: Cluster, name: str) -> Told:
    try:
        return ask_cluster(cluster, name)
    except SpyreCiError as error:
        _say(context, f"the cluster does not say why pods left nothing: {error.what}")
        return Told()


def _say(context: Context, text: str) -> None:
    """Names in a store are data: they command neither a terminal nor a CI."""
    context.say(defused(plain(text)))
