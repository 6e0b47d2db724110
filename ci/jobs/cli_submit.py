"""`spyre-ci job submit`: a spec becomes a job on a cluster, on the container engine here, or manifests."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError, UsageError
from ci.core.object_store import Bucket
from ci.core.text import counted
from ci.jobs.cli import InContext, Namespace, PendingLimit, watched
from ci.jobs.cli_collect import Collection, reasons_of, say, store_of, tell_end, tracker_of
from ci.jobs.cluster import PATIENCE_S, SPEC_ANNOTATION, Cluster, open_cluster
from ci.jobs.errors import ClusterAwayError
from ci.jobs.job import Job
from ci.jobs.labels import labels_of
from ci.jobs.prepare import Asked, at_checkout, prepare, token_secret
from ci.jobs.record import HERE, record_of, refuse_another_deal, write_record
from ci.jobs.render import render, to_yaml
from ci.jobs.submit import Submitted
from ci.jobs.submit import submit as make_job
from ci.jobs.uploader import put_plan
from ci.jobs.watch import PATIENCE_S as WATCH_PATIENCE_S
from ci.jobs.watch import Ending, View
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.files import document_text


def submit(
    ctx: typer.Context,
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The job's YAML file; examples/ has some.")],
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Over the spec's; repeatable.")
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="RUN", help="Run folder or id, over the spec's `tests.plan`."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run", help="Id of the run, by which a submit is known; default: the plan's, or a new one."
        ),
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Take a checkout with changes; the job is marked with them.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the manifests; no cluster is asked.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Have the cluster check it all, and make nothing.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Run it on the container engine here; cards are emulated.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Watch it until it ends.")] = False,
    collect: Annotated[
        bool,
        typer.Option(
            "--collect", help="Watch it, then report its run, or to MLflow how it ended; ends as it does."
        ),
    ] = False,
    gather: Annotated[
        bool, typer.Option("--gather", help="Watch it, then collect its journals for a report elsewhere.")
    ] = False,
    pending_limit: PendingLimit = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="DIR", help="The spec's volume as seen from here, or what stands for it."
        ),
    ] = None,
    network: Annotated[
        str, typer.Option(help="With --local: of the containers, as the engine knows it.")
    ] = "bridge",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="With --local: of this machine; default: the job's own."),
    ] = None,
    namespace: Namespace = None,
    cluster_context: InContext = None,
    json_output: options.Json = False,
) -> None:
    """Submit a job: image, checkout and inputs looked up, all of it checked by the cluster, then made.

    Done again with the same run it makes what is missing, and nothing twice. `--dry-run` prints what
    `kubectl create -f -` takes.

    Example: spyre-ci job submit examples/tests-stage1.yaml

    Example: spyre-ci job submit examples/tests-stage1.yaml --check

    Example: spyre-ci job submit examples/gpu-evaluation.yaml --run trial --dry-run
    """
    context = options.make_context(ctx, {}, json_output=json_output or dry_run)
    asked = Asked(run=run, plan=plan, parameters=param or (), namespace=namespace or "default")
    if local:
        _run_local(context, spec, asked, store, network=network, port=port)
    if dry_run:
        job, folder = prepare(context, spec, at_checkout(asked, Path.cwd(), allow_dirty=True))
        if json_output:
            typer.echo(document_text("job-submit", _submitted(job, folder, "")))
        else:
            _print_manifests(job, spec)
        return
    waits = watch or collect or gather
    patience_s = WATCH_PATIENCE_S if waits else PATIENCE_S
    cluster = open_cluster(os.environ, namespace=namespace, context=cluster_context, patience_s=patience_s)
    asked = replace(asked, namespace=cluster.namespace, begins=True)
    job, folder = prepare(context, spec, at_checkout(asked, Path.cwd(), allow_dirty=allow_dirty))
    collects = gather or (collect and job.spec.kind == "tests")
    where = _journals_of(job, store) if collects else ""
    job = replace(job, image=_image_of(context, job, spec))
    done = _make(context, cluster, job, folder, check_only=check)
    if json_output:  # before it is watched for hours: whoever reads this wants the name
        typer.echo(document_text("job-submit", _submitted(job, folder, done.begins)))
    if check:
        return
    tracker_of(context, folder).begin(job, str(spec), spec.read_bytes())
    if not waits:
        context.say(f"watch it with `spyre-ci job watch {job.name}`")
        return
    view = View(console=context.console, environ=os.environ)
    if not collects:
        ending, _ = watched(cluster, job.name, view, pending_limit)
        if job.spec.kind != "tests" and not ending.goes_on:
            tell_end(context, folder, record_of(job), ending, store=str(store) if store else None)
        raise typer.Exit(ending.exit_code)
    found = Collection(context=context, folder=folder, where=where, record=record_of(job), ended=True)
    try:
        watched(cluster, job.name, view, pending_limit)
        found = replace(found, reasons=_reasons(context, cluster, job.name))
    except ClusterAwayError as error:  # what there is of it is collected all the same
        say(context, f"{error.what}; {error.remedy}")
        found = replace(found, goes_on=True)
    code = found.collect() if gather else found.report()
    raise typer.Exit(EXIT_INCOMPLETE if found.goes_on else code)


def _make(context: Context, cluster: Cluster, job: Job, folder: RunFolder, *, check_only: bool) -> Submitted:
    """Have the cluster make the job, and say what it did."""
    refuse_another_deal(folder.path, record_of(job))

    def ready() -> None:
        # What pods read is there before they are, and who they are is known before they do anything.
        if job.plan:
            context.say(f"plan: {put_plan(Bucket(job.store, where='store.bucket'), job.run, job.plan)}")
        folder.path.mkdir(parents=True, exist_ok=True)
        write_record(folder.path, record_of(job))

    done = make_job(cluster, _manifests(job), check_only=check_only, ready=ready)
    for warning in done.warnings:
        say(context, f"warning: {warning}")
    begun = f"begun by {done.begins}" if done.begins else "the cluster takes it; nothing was made"
    context.say(f"{job.name}: {counted(job.pods, 'pod')}, run {job.run}; {begun}")
    if done.begins and _makes_token(job):
        context.say(f"its token is in the secret {token_secret(job)}")
    return done


def _reasons(context: Context, cluster: Cluster, name: str) -> Mapping[int, str]:
    """Why pods of a job that ended left nothing, if the cluster says it."""
    try:
        return reasons_of(cluster, name)[0]
    except SpyreCiError as error:
        say(context, f"the cluster does not say why pods left nothing: {error.what}")
        return {}


def _submitted(job: Job, folder: RunFolder, begun_by: str) -> Mapping[str, Any]:
    return {
        "job": job.name,
        "namespace": job.namespace,
        "run": job.run,
        "run_dir": folder.path,
        "pods": job.pods,
        "image": job.image,
        "begun_by": begun_by,
    }


def _run_local(
    context: Context, spec: Path, asked: Asked, store: Path | None, *, network: str, port: int | None
) -> None:
    """Run a job's pods on the container engine here, and report a run of tests; ends with its exit code."""
    from ci.jobs.local import Here, run_here, user_of  # noqa: PLC0415  # the engine's client takes its time

    job, folder = prepare(context, spec, asked)
    if job.spec.image.name is None:
        job = replace(job, image=_image_of(context, job, spec))
    # Else the engine's own image of that name: all pods run here, so no tag moves between them.
    home = context.state("jobs", job.name)
    here = Here(
        results=(store or home / "results").resolve(),
        work=home / "work",
        environ=os.environ,
        user=user_of(os.getuid()),
        devices=context.settings.model.image.devices,
        network=network,
        port=port,
    )
    folder.path.mkdir(parents=True, exist_ok=True)
    record = record_of(job, namespace=HERE)
    write_record(folder.path, record)
    if job.plan:
        put_plan(Bucket(job.store, where="store.bucket"), job.run, job.plan)
    tracker_of(context, folder).begin(job, str(spec), spec.read_bytes())
    code = run_here(job, here, echo=context.say)
    if job.spec.kind != "tests":
        tell_end(context, folder, record, Ending(exit_code=code), store=str(here.results))
    else:
        where = job.store if job.plan else str(here.results)
        found = Collection(context=context, folder=folder, where=where, record=record, ended=True)
        code = found.report()
    raise typer.Exit(code)


def _manifests(job: Job) -> list[dict[str, Any]]:
    """A job's manifests; with the secret of a notebook's token first if the spec names none."""
    manifests = render(job)
    if not _makes_token(job):
        return manifests
    digest = manifests[-1]["metadata"]["annotations"][SPEC_ANNOTATION]
    about = {"name": token_secret(job), "namespace": job.namespace, "labels": labels_of(job)}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": about | {"annotations": {SPEC_ANNOTATION: digest}},
        "type": "Opaque",
        "stringData": {"token": secrets.token_urlsafe(24)},
    }
    return [secret, *manifests]


def _makes_token(job: Job) -> bool:
    """True if a submit makes the secret of a notebook's token."""
    return job.spec.notebook is not None and job.spec.notebook.token == token_secret(job)


def _print_manifests(job: Job, spec: Path) -> None:
    if not job.image:
        raise UsageError(
            "the image is built when the job is submitted",
            where=spec,
            remedy="build it, and give its name in image.name",
        )
    typer.echo(to_yaml(render(job)), nl=False)
    if job.plan:
        typer.echo(f"the plan goes into {job.store} by `spyre-ci job submit` alone", err=True)
    if _makes_token(job):
        made = f"oc create secret generic -n {job.namespace} {token_secret(job)} --from-file=token=/dev/stdin"
        said = f"its pod waits for the secret {token_secret(job)}, which only `spyre-ci job submit` makes;"
        typer.echo(f"{said} by hand:\nopenssl rand -hex 24 | tr -d '\\n' | {made}", err=True)


def _journals_of(job: Job, store: Path | None) -> str:
    """The store as seen from here, before anybody watches for hours what could not be collected then."""
    if job.spec.kind != "tests":
        raise UsageError(f"journals are of tests, and this is kind {job.spec.kind}", remedy="give --watch")
    return store_of(str(store) if store else None, record_of(job), job.name)


def _image_of(context: Context, job: Job, spec: Path) -> str:
    """The image by its digest, built and pushed first if the spec has it so."""
    from ci.image.builder import ImageBuilder  # noqa: PLC0415  # with requests and docker's settings
    from ci.jobs.images import Builder  # noqa: PLC0415  # the same

    image = context.settings.model.image
    command = ImageBuilder(name=image.builder, environ=os.environ, echo=context.say, network=image.network)
    builder = Builder(folder=spec.resolve().parent, environ=os.environ, builder=command, echo=context.say)
    return builder.resolve(job.spec.image)
