"""`spyre-ci job local` and `debug`: a spec's job on the engine here, and a look into one."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ci.cli import options
from ci.cli.job_collect import collect_job
from ci.cli.job_prepare import Asked, prepare
from ci.cli.job_submit import AllowDirty, Param, Plan, RunId, SpecFile, all_manifests, at_checkout, image_of
from ci.jobs.cluster_cli import InContext, Namespace
from ci.jobs.debug import apart
from ci.jobs.here import Here, user_of
from ci.jobs.job import Job
from ci.jobs.record import HERE, record_of, write_record
from ci.steps.context import Context

Results = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Stands for the store's volume; default: below `state`.")
]
Network = Annotated[str, typer.Option(help="Of the containers, as the engine knows it.")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Of this machine; default: the job's own.")]
Index = Annotated[int, typer.Option(min=0, help="Which of the job's pods it is as.")]


def local(
    ctx: typer.Context,
    spec: SpecFile,
    param: Param = None,
    plan: Plan = None,
    run: RunId = None,
    results: Results = None,
    parallel: Annotated[int, typer.Option(min=1, help="Pods at a time.")] = 1,
    network: Network = "bridge",
    port: Port = None,
) -> None:
    """Run a job's pods on the container engine here, with a cluster's mounts and environment.

    Cards are emulated unless `image.devices` names some. Tests are collected and reported at the end.

    Example: spyre-ci job local examples/tests-stage1.yaml --parallel 2
    """
    from ci.jobs.local_cli import local as run_pods  # noqa: PLC0415  # the engine's client takes its time

    context = options.make_context(ctx, {})
    job, folder = prepare(context, spec, Asked(run=run, plan=plan, parameters=param or ()))
    job = replace(job, image=image_of(context, job, spec))
    here = _here(context, job, results, network=network, port=port, parallel=parallel)
    folder.path.mkdir(parents=True, exist_ok=True)
    record = replace(record_of(job), namespace=HERE)
    write_record(folder.path, record)
    code = run_pods(job, here, echo=context.say)
    if job.spec.kind == "tests" and job.spec.store is not None and job.spec.store.volume is not None:
        code = collect_job(context, folder, str(here.results), record=record, reasons={}, ended=True)
    raise typer.Exit(code)


def debug(
    ctx: typer.Context,
    spec: SpecFile,
    param: Param = None,
    plan: Plan = None,
    run: RunId = None,
    allow_dirty: AllowDirty = False,
    notebook: Annotated[
        bool, typer.Option("--notebook", help="The image's notebook, at 8888, in place of a shell.")
    ] = False,
    index: Index = 0,
    minutes: Annotated[
        int, typer.Option(min=1, help="After which its pod is ended, and its cards are free.")
    ] = 60,
    on_this_machine: Annotated[
        bool, typer.Option("--here", help="On the container engine here, and not on a cluster.")
    ] = False,
    results: Results = None,
    network: Network = "bridge",
    port: Port = None,
    namespace: Namespace = None,
    cluster_context: InContext = None,
) -> None:
    """Look into a job: its image, cards and mounts, with a shell or a notebook in place of its command.

    Example: spyre-ci job debug examples/tests-stage1.yaml --minutes 30
    """
    from ci.jobs.cluster import open_cluster  # noqa: PLC0415  # its client takes a second
    from ci.jobs.debug_local import Look  # noqa: PLC0415  # as the engine's
    from ci.jobs.local_cli import debug as manifests_for  # noqa: PLC0415
    from ci.jobs.local_cli import debug_local  # noqa: PLC0415
    from ci.jobs.submit import submit  # noqa: PLC0415

    context = options.make_context(ctx, {})
    if on_this_machine:
        job, _ = prepare(context, spec, Asked(run=run, plan=plan, parameters=param or ()))
        job = replace(job, image=image_of(context, job, spec))
        here = _here(context, job, results, network=network, port=port)
        look = Look(index=index, notebook=notebook, terminal=sys.stdin.isatty())
        debug_local(job, here, look, echo=context.say)
    cluster = open_cluster(os.environ, namespace=namespace, context=cluster_context)
    asked = Asked(run=run, plan=plan, parameters=param or (), namespace=cluster.namespace)
    job, _ = prepare(context, spec, at_checkout(asked, allow_dirty=allow_dirty))
    job = apart(replace(job, image=image_of(context, job, spec)))
    wanted, words = manifests_for(all_manifests(job), seconds=minutes * 60, index=index, notebook=notebook)
    submit(cluster, wanted)
    for line in words:
        context.say(line)


def _here(
    context: Context,
    job: Job,
    results: Path | None,
    *,
    network: str,
    port: int | None,
    parallel: int = 1,
) -> Here:
    home = context.state("jobs", job.name)
    return Here(
        results=(results or home / "results").resolve(),
        work=home / "work",
        environ=os.environ,
        user=user_of(os.getuid()),
        devices=context.settings.model.image.devices,
        network=network,
        port=port,
        parallel=parallel,
    )
