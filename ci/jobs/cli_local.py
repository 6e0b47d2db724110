"""`spyre-ci job local`: a spec's job on the engine here."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ci.jobs.cli_collect import collect_job
from ci.jobs.cli_submit import Param, Plan, RunId, SpecFile, image_of
from ci.jobs.here import Here, user_of
from ci.jobs.job import Job
from ci.jobs.prepare import Asked, prepare
from ci.jobs.record import HERE, record_of, write_record
from ci.steps import options
from ci.steps.context import Context

Results = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Stands for the store's volume; default: below `state`.")
]
Network = Annotated[str, typer.Option(help="Of the containers, as the engine knows it.")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Of this machine; default: the job's own.")]


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
    from ci.jobs.local import local as run_pods  # noqa: PLC0415  # the engine's client takes its time

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
