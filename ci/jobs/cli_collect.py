"""`spyre-ci job collect`: what a job's pods left, collected into its run and reported as any run is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import typer

from ci.core.errors import (
    EXIT_GOES_ON,
    EXIT_OK,
    MissingInputError,
    SettingsError,
    SpyreCiError,
    UsageError,
)
from ci.core.locks import run_lock
from ci.core.object_store import SCHEME
from ci.core.provider import BY_DIGEST
from ci.core.text import counted, plain
from ci.core.workflow_commands import defused
from ci.jobs.cli import InContext, watched_document
from ci.jobs.cluster import Cluster, open_cluster, path_of
from ci.jobs.collect import collect_files, fill_missing_shards, make_room
from ci.jobs.labels import selector
from ci.jobs.prepare import run_of
from ci.jobs.record import FILE as RECORD_FILE
from ci.jobs.record import HERE, JobRecord, find_job_folder, read_record
from ci.jobs.status import Aggregates, End, JobStatus, Phase, job_status
from ci.jobs.tracking import Tracker, status_of
from ci.jobs.watch import Ending, View, find_job, watch_job
from ci.main_job.report import report_step
from ci.record.identity import read_identity
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.files import json_text, read_json
from test_selection.plan import read_plan


def collect(
    ctx: typer.Context,
    named: Annotated[
        str, typer.Argument(metavar="NAME|RUN", help="Name of the job, its run's folder or id, or `latest`.")
    ] = "latest",
    store: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help="The job's store, as this machine reaches it: a folder or s3://…."
        ),
    ] = None,
    cluster_context: InContext = None,
    json_output: options.Json = False,
) -> None:
    """Collect the results of a job's pods and report the run; while pods run, report the results so far.

    Ask the cluster why shards have no journal. Report the end of a job that runs no tests to MLflow.

    Example: spyre-ci job collect latest --from results
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    folder = find_job_folder(context.runs, named)
    record = read_record(folder.path) if (folder.path / RECORD_FILE).is_file() else None
    if record is not None and record.kind != "tests":
        ending, found = _collect_end(context, folder, record, store, cluster_context)
        say(context, f"{record.name}: {ending.why or 'done'}")
        if json_output:
            typer.echo(watched_document(record.name, ending, found))
        raise typer.Exit(ending.exit_code)
    if record is not None:
        run = run_of(read_identity(folder.path))
        if record.run != run:
            raise MissingInputError(
                f"job {record.name} belongs to run {record.run}, but this folder now has run {run}",
                where=folder.path / RECORD_FILE,
                remedy="submit this run, then collect it; results of the earlier run are still in the store",
            )
    where, reasons, goes_on = store_of(store, record, named), dict[int, str](), False
    if record is not None and record.shards and record.namespace != HERE:
        reasons, goes_on = ask_reasons(
            context,
            record,
            lambda: open_cluster(os.environ, namespace=record.namespace, context=cluster_context),
        )
    collection = Collection(
        context=context, folder=folder, where=where, record=record, reasons=reasons, goes_on=goes_on
    )
    code = collection.report()
    if json_output:
        typer.echo(json_text(read_json(folder.summary, "summary")))
    raise typer.Exit(code)


def tell_end(
    context: Context, folder: RunFolder, record: JobRecord, ending: Ending, *, store: str | None
) -> None:
    """Tell MLflow how a job ended that runs no tests.

    Args:
        context: the outside world.
        folder: of the job.
        record: of the job.
        ending: how it did.
        store: its volume as seen from here; None: nobody says.
    """
    tracker_of(context, folder).end(status_of(ending.exit_code), {}, _seen_store(record, store))


def _seen_store(record: JobRecord, store: str | None) -> str | None:
    """A job's store as seen from here: its bucket, or its volume where somebody says that; else None."""
    return record.store if record.store.startswith(SCHEME) else store


def _collect_end(
    context: Context, folder: RunFolder, record: JobRecord, store: str | None, cluster_context: str | None
) -> tuple[Ending, Aggregates]:
    """Ask the cluster how a job ended that runs no tests, and tell MLflow."""
    here, where = record.namespace == HERE, _seen_store(record, store)
    if here and where is None:
        where = str(context.state("jobs", record.name) / "results")
    told_now = tracker_of(context, folder).tell_rest(where)
    if here:
        if not told_now:
            raise UsageError(
                f"{record.name} ran on this machine, and its end was reported to MLflow",
                where=folder.path,
                remedy="there is nothing to collect",
            )
        done = JobStatus(pods=1, done=frozenset({0}), over=End.COMPLETE)
        return Ending(exit_code=EXIT_OK), Aggregates(done)
    cluster = open_cluster(os.environ, namespace=record.namespace, context=cluster_context)
    status = job_status(find_job(cluster, record.name)[1])
    if status.over is None:
        why = "the job is still running: collect it again after its end, to report that to MLflow"
        return Ending(exit_code=EXIT_GOES_ON, why=why, goes_on=True), Aggregates(status)
    ending, found = watch_job(cluster, record.name, View(console=context.console, environ=os.environ))
    tell_end(context, folder, record, ending, store=store)
    return ending, found


def ask_reasons(
    context: Context, record: JobRecord, find: Callable[[], Cluster]
) -> tuple[dict[int, str], bool]:
    """Why pods of a job have not come to their end, by index; whether it goes on."""
    try:
        cluster = find()
        if (job := cluster.get(path_of("Job", cluster.namespace, record.name))) is None:
            return {}, False
        found = Aggregates(job_status(job))
        found.relist(cluster.items(path_of("Pod", cluster.namespace), labels=selector(record.name))[0])
    except SpyreCiError as error:
        say(context, f"cannot ask the cluster why pods have no results: {error.what}")
        return {}, False
    found.look(found.job)
    waits = found.job.waits or (found.job.reason if found.job.over else "")
    pods = [pod for pod in map(found.pod, range(found.job.pods)) if pod.phase is not Phase.DONE]
    return {
        pod.index: f"pod {pod.index} {pod.phase}" + (f": {why}" if (why := pod.why or waits) else "")
        for pod in pods
    }, found.job.over is None


def store_of(store: str | None, record: JobRecord | None, named: str) -> str:
    """The store as seen from here.

    Raises:
        SettingsError: it is a volume, and nobody says where that is mounted here.
    """
    if store:
        return store
    if record is not None and record.store.startswith(SCHEME):
        return record.store
    raise SettingsError(
        "where the pods put their results is not recorded",
        where=named,
        remedy="give the folder where its volume is mounted here: `collect --from` or `submit --store`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What a job's pods left, on its way into the run's folder.

    Attributes:
        context: the outside world.
        folder: of the run.
        where: the store as seen from here, a folder or s3://….
        record: of the job; None if nobody noted it.
        reasons: by pod, why it left nothing, where that is known.
        ended: the job has, so that a store without anything is what became of it.
        goes_on: the job has not ended: it is reported here, and nobody is told of its end.
    """

    context: Context
    folder: RunFolder
    where: str
    record: JobRecord | None
    reasons: Mapping[int, str] = field(default_factory=dict)
    ended: bool = False
    goes_on: bool = False

    def collect(self) -> int:
        """Collect the journals, for a report elsewhere; the exit code."""
        with run_lock(self.folder.path, alone=True):
            self._collect()
        return EXIT_OK

    def report(self) -> int:
        """Collect, say of shards without a journal why that is, and report; the run's exit code.

        Raises:
            MissingInputError: there is nothing of the run in the store, and no reason given.
            RunInUseError: somebody else works in the run's folder.
        """
        context, folder = self.context, self.folder
        image = self.record.image if self.record and BY_DIGEST.fullmatch(self.record.image) else ""
        with run_lock(folder.path, alone=True):
            self._collect()
            summary = report_step(
                context, folder, allow_collect_errors=False, goes_on=self.goes_on, image=image
            )
        code: int = summary.exit_code
        if self.goes_on:
            say(
                context,
                "the job is still running: collect it after its end for HUD, MLflow, history and the CI page",
            )
            return code
        verdicts = read_json(folder.summary, "summary")["verdicts"]
        tracker_of(context, folder).end(status_of(code), verdicts, self.where)
        return code

    def _collect(self) -> None:
        context, folder, record = self.context, self.folder, self.record
        identity, plan = read_identity(folder.path), read_plan(folder.plan)
        run = run_of(identity) if record is None else record.run
        pods = () if record is None else record.shards
        owners = {shard: pod for pod, shards in enumerate(pods) for shard in shards}
        if (moved := make_room(folder.path, run, record)) is not None:
            say(context, f"moved earlier results, which are not of {run}, to {moved}")
        found = collect_files(self.where, run, folder.path, owners)
        if not (found.files or self.reasons or self.ended):
            raise MissingInputError(
                f"no results of the pods of {run}",
                where=self.where,
                remedy="check the job's store",
            )
        say(
            context,
            f"collected {counted(found.files, 'file')} from pods, {found.new_bytes:,} new bytes",
        )
        for note in [*found.notes, *([f"{found.more:,} more"] if found.more else [])]:
            say(context, f"not collected: {note}")
        why = {shard: self.reasons[pod] for shard, pod in owners.items() if pod in self.reasons}
        if lost := fill_missing_shards(folder.path, plan, why, moment=identity.started_at):
            say(context, f"no journal for {counted(len(lost), 'shard')}")


def tracker_of(context: Context, folder: RunFolder) -> Tracker:
    """Tells MLflow of a run folder's job; nothing if the spec tracks nothing."""
    return Tracker(
        folder=folder.path, environ=os.environ, clock=context.clock, warn=lambda line: say(context, line)
    )


def say(context: Context, text: str) -> None:
    """A line that quotes strangers; it commands neither a terminal nor a CI."""
    context.say(defused(plain(text)))
