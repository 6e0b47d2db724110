"""`spyre-ci job render` and `submit`: a spec's manifests, and a cluster that makes a job of them."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.core.errors import UsageError
from ci.core.text import counted
from ci.jobs.cli_collect import collect_watched
from ci.jobs.cluster_cli import WATCH_PATIENCE_S, InContext, Namespace, watched
from ci.jobs.job import Job
from ci.jobs.labels import SPEC_ANNOTATION
from ci.jobs.prepare import Asked, prepare, save_spec, tracker_of
from ci.jobs.record import record_of, refuse_another_deal, write_record
from ci.jobs.render import render as manifests_of
from ci.jobs.render import to_yaml
from ci.jobs.slices import put_inputs
from ci.jobs.token import how_to_make, is_made, secret_name, secret_of
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.files import document_text, write_text

TOKEN_BYTES = 24
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The job's YAML file; examples/ has some.")]
Param = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Over the spec's; repeatable.")
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--run", help="Id of the run, by which a submit is known; default: the plan's, or a new one."
    ),
]
Plan = Annotated[
    str | None, typer.Option("--plan", metavar="RUN", help="Run folder or id, over the spec's `tests.plan`.")
]
AllowDirty = Annotated[
    bool, typer.Option("--allow-dirty", help="Take a checkout with changes; the job is marked with them.")
]
Place = Annotated[
    Path | None,
    typer.Option("--store", metavar="WHERE", help="The spec's volume as seen from here: a folder."),
]


def render(
    ctx: typer.Context,
    spec: SpecFile,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: print it.")] = None,
    param: Param = None,
    plan: Plan = None,
    run: RunId = None,
    namespace: Namespace = None,
) -> None:
    """Print the manifests of a job, as `kubectl apply -f -` takes them; no cluster is asked.

    Example: spyre-ci job render examples/gpu-evaluation.yaml --run trial
    """
    from ci.jobs.submit import check_checkout  # noqa: PLC0415  # git, for this verb and submit

    context = options.make_context(ctx, {}, json_output=out is None)
    checkout = check_checkout(Path.cwd(), allow_dirty=True)
    asked = Asked(
        run=run, plan=plan, parameters=param or (), namespace=namespace or "default",
        commit=checkout.commit, dirty=checkout.dirty,
    )  # fmt: skip
    job, _ = prepare(context, spec, asked)
    if not job.image:
        raise UsageError(
            "the image is built when the job is submitted",
            where=spec,
            remedy="give image.name, or take what `submit --save-spec` wrote",
        )
    text = to_yaml(manifests_of(job))
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        context.say(f"{job.name}: {out}")
    if is_made(job):
        said = f"its pod waits for the secret {secret_name(job)}, which only `spyre-ci job submit` makes;"
        typer.echo(f"{said} by hand:\n{how_to_make(job)}", err=True)


def submit(
    ctx: typer.Context,
    spec: SpecFile,
    param: Param = None,
    plan: Plan = None,
    run: RunId = None,
    allow_dirty: AllowDirty = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Have the cluster check it all, and make nothing.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save-spec", metavar="FILE", help="Write the spec as it was sent.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Watch it until it ends.")] = False,
    collect: Annotated[
        bool, typer.Option("--collect", help="Watch it, then report its run; ends as the run does.")
    ] = False,
    gather: Annotated[
        bool,
        typer.Option("--gather", help="Watch it, then gather its journals for a report elsewhere."),
    ] = False,
    pending_limit: Annotated[
        float | None, typer.Option(min=0, help="Minutes after which a job of which nothing runs is given up.")
    ] = None,
    store: Place = None,
    namespace: Namespace = None,
    cluster_context: InContext = None,
    json_output: options.Json = False,
) -> None:
    """Submit a job: image, checkout and inputs looked up, all of it checked by the cluster, then made.

    Done again with the same run it makes what is missing, and nothing twice.

    Example: spyre-ci job submit examples/tests-stage1.yaml

    Example: spyre-ci job submit examples/tests-stage1.yaml --dry-run
    """
    from ci.jobs.cluster import PATIENCE_S, open_cluster  # noqa: PLC0415  # its client takes a second
    from ci.jobs.submit import submit as make  # noqa: PLC0415

    context = options.make_context(ctx, {}, json_output=json_output)
    patience_s = WATCH_PATIENCE_S if watch or collect or gather else PATIENCE_S
    cluster = open_cluster(os.environ, namespace=namespace, context=cluster_context, patience_s=patience_s)
    asked = Asked(run=run, begins=True, plan=plan, parameters=param or (), namespace=cluster.namespace)
    job, folder = prepare(context, spec, at_checkout(asked, allow_dirty=allow_dirty))
    if collect or gather:
        # Said before anything runs for hours.
        check_journals(job, store)
    job = replace(job, image=image_of(context, job, spec))
    refuse_another_deal(folder.path, record_of(job))
    manifests = all_manifests(job)
    if dry_run:
        make(cluster, manifests, dry_run=True)
        context.say(f"{job.name}: the cluster takes it; nothing was made")
        _print_json(json_output, job, folder, begun_by="")
        return

    def ready() -> None:
        # What pods read is there before they are, and who they are is known before they do anything.
        if job.by_volume:
            context.say(f"slices: {put_inputs(job, store)}")
        folder.path.mkdir(parents=True, exist_ok=True)
        write_record(folder.path, record_of(job))
        if save is not None:
            save_spec(save, job, folder)

    done = make(cluster, manifests, shards=job.shards, ready=ready)
    context.say(f"{job.name}: {counted(job.pods, 'pod')}, run {job.run}; begun by {done.begins}")
    # Before it is watched for hours: whoever reads this wants the name.
    _print_json(json_output, job, folder, begun_by=done.begins)
    if is_made(job):
        context.say(f"its token is in the secret {secret_name(job)}")
    tracker_of(context, folder).begin(job, str(spec), spec.read_bytes())
    if not (watch or collect or gather):
        context.say(f"watch it with `spyre-ci job watch {job.name}`")
        return
    ending = watched(cluster, job.name, context.console, pending_limit_min=pending_limit)
    if not (collect or gather):
        raise typer.Exit(ending.exit_code)
    where = None if store is None else str(store)
    raise typer.Exit(collect_watched(context, folder, cluster, store=where, report=not gather))


def _print_json(wanted: bool, job: Job, folder: RunFolder, *, begun_by: str) -> None:
    """Print what was made, where that is wanted; nobody began a job that is only checked."""
    if not wanted:
        return
    content = {
        "job": job.name,
        "namespace": job.namespace,
        "run": job.run,
        "run_dir": folder.path,
        "pods": job.pods,
        "image": job.image,
        "begun_by": begun_by,
    }
    typer.echo(document_text("job-submit", content))


def check_journals(job: Job, store: Path | None) -> None:
    """Refuse to watch for journals that could not be gathered.

    Raises:
        UsageError: the job has none, or nobody says where its volume is seen.
    """
    if job.spec.kind != "tests":
        raise UsageError(f"journals are of tests, and this is kind {job.spec.kind}", remedy="give --watch")
    if job.spec.store is not None and job.spec.store.volume is not None and store is None:
        raise UsageError(
            f"the journals will be in the volume {job.spec.store.volume}",
            where="--store",
            remedy="name the folder where it is mounted here, or give --watch and collect elsewhere",
        )


def image_of(context: Context, job: Job, spec: Path) -> str:
    """What the pods run in: by its digest, built and pushed first where the spec has it so."""
    from ci.image.builder import ImageBuilder  # noqa: PLC0415  # with requests and docker's settings
    from ci.jobs.images import Builder  # noqa: PLC0415  # the same

    image = context.settings.model.image
    command = ImageBuilder(name=image.builder, environ=os.environ, echo=context.say, network=image.network)
    builder = Builder(folder=spec.resolve().parent, environ=os.environ, builder=command, echo=context.say)
    return builder.resolve(job.spec.image)


def at_checkout(asked: Asked, *, allow_dirty: bool) -> Asked:
    """What was asked for, with what the checkout here is at.

    Raises:
        UsageError: it holds changes, and they are not allowed.
    """
    from ci.jobs.submit import check_checkout  # noqa: PLC0415  # git, for verbs that submit

    checkout = check_checkout(Path.cwd(), allow_dirty=allow_dirty)
    return replace(asked, commit=checkout.commit, dirty=checkout.dirty)


def all_manifests(job: Job) -> list[dict[str, Any]]:
    """A job's manifests, with the secret of a notebook's token first where the spec names none."""
    manifests = manifests_of(job)
    digest = manifests[-1]["metadata"]["annotations"][SPEC_ANNOTATION]
    secret = secret_of(job, secrets.token_urlsafe(TOKEN_BYTES), digest)
    return manifests if secret is None else [secret, *manifests]
