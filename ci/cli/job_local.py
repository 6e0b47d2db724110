"""`spyre-ci job local` and `debug`: a job on the container engine here, and a look into one."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ci.cli import options
from ci.cli.job_collect import collect_job
from ci.cli.job_prepare import Asked, prepare
from ci.cli.job_submit import Param, RunId, SpecFile, image_of, secret_beside
from ci.errors import UsageError
from ci.jobs.cluster_cli import InContext, Namespace
from ci.jobs.record import record_of, write_record
from ci.jobs.render import render
from ci.steps.context import Context

if TYPE_CHECKING:
    from ci.jobs.here import Here

MINUTE_S = 60
Network = Annotated[
    str,
    typer.Option(metavar="NAME", help="Of the containers: bridge, host, none or another of the engine's."),
]
Port = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Of this machine, for the job's; default: the same.")
]
Results = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Stands for the store's volume; default: below `state`.")
]


def local(  # typer makes options of them
    ctx: typer.Context,
    spec: SpecFile,
    param: Param = None,
    run: RunId = None,
    results: Results = None,
    parallel: Annotated[int, typer.Option(help="Pods at a time.")] = 1,
    network: Network = "bridge",
    port: Port = None,
    collect: Annotated[
        bool, typer.Option("--collect", help="Report its run then; ends as the run does.")
    ] = False,
) -> None:
    """Run a job on the container engine here, with a cluster's mounts, environment and failure policy.

    Example: spyre-ci job local examples/tests-stage1.yaml --collect
    """
    from ci.jobs.local_cli import local as run_local  # noqa: PLC0415  # the engine's client takes its time

    context = options.make_context(ctx, {})
    job, folder = prepare(context, spec, Asked(run=run, parameters=param or ()))
    if collect and job.spec.kind != "tests":
        raise UsageError(f"--collect reports tests, and this is kind {job.spec.kind}", remedy="leave it out")
    job = replace(job, image=image_of(context, job, spec))
    here = _here(context, results, network, port, parallel)
    if job.spec.kind == "tests":
        write_record(folder.path, record_of(job))
    code = run_local(job, here, echo=context.say)
    if collect:
        where = str(here.results) if job.spec.store is None else job.spec.store.bucket or str(here.results)
        code = collect_job(context, folder, where, pods=job.shards, reasons={}, ended=True)
    raise typer.Exit(code)


def debug(  # typer makes options of them
    ctx: typer.Context,
    spec: SpecFile,
    param: Param = None,
    run: RunId = None,
    here: Annotated[
        bool, typer.Option("--local", help="On the engine here; default: on the cluster.")
    ] = False,
    notebook: Annotated[bool, typer.Option("--notebook", help="A notebook in place of a shell.")] = False,
    index: Annotated[int, typer.Option(help="Whose environment it has, of several pods.")] = 0,
    minutes: Annotated[int, typer.Option(min=1, help="Until the cluster ends it.")] = 60,
    results: Results = None,
    network: Network = "bridge",
    port: Port = None,
    namespace: Namespace = None,
    cluster_context: InContext = None,
) -> None:
    """Look into a job: a pod with its image, cards and mounts, and a shell or a notebook.

    Example: spyre-ci job debug examples/gpu-evaluation.yaml --minutes 30
    """
    context = options.make_context(ctx, {})
    if here:
        job, _ = prepare(context, spec, Asked(run=run, parameters=param or ()))
        job = replace(job, image=image_of(context, job, spec))
        from ci.jobs.debug_local import Look  # noqa: PLC0415
        from ci.jobs.local_cli import debug_local  # noqa: PLC0415

        look = Look(index=index, notebook=notebook, terminal=sys.stdin.isatty())
        debug_local(job, _here(context, results, network, port), look, echo=context.say)
    from ci.jobs.cluster import open_cluster  # noqa: PLC0415  # its client takes a second
    from ci.jobs.debug import apart  # noqa: PLC0415
    from ci.jobs.debug_cluster import open_there  # noqa: PLC0415

    cluster = open_cluster(os.environ, namespace=namespace, context=cluster_context)
    job, _ = prepare(context, spec, Asked(run=run, parameters=param or (), namespace=cluster.namespace))
    job = apart(replace(job, image=image_of(context, job, spec)))
    manifests = render(job)
    if (secret := secret_beside(job, manifests)) is not None:
        manifests.insert(0, secret)
    for line in open_there(cluster, manifests, seconds=minutes * MINUTE_S, index=index, notebook=notebook):
        context.say(line)


def _here(context: Context, results: Path | None, network: str, port: int | None, parallel: int = 1) -> Here:
    from ci.jobs.here import Here, user_of  # noqa: PLC0415

    return Here(
        results=(results or context.state("jobs", "results")).absolute(),
        work=context.state("jobs", "work"),
        environ=os.environ,
        user=user_of(os.getuid()),
        devices=context.settings.model.image.devices,
        network=network,
        port=port,
        parallel=parallel,
    )
