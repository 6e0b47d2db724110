"""`spyre-ci pipeline plan`: a plan, dealt to the jobs of a CI; it runs the steps, so it stands above them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.config.model import SettingsModel
from ci.main_job.cli_matrix import Target, legs_of, worded
from ci.pipeline.event import read_event
from ci.pipeline.in_force import settings_in_force
from ci.pipeline.plan import Planned, plan_for_jobs, unknown
from ci.pipeline.telling import hand_on
from ci.steps import options
from ci.steps.collect import resolve_source
from ci.steps.context import Context
from ci.steps.marks import check_quarantine
from ci.steps.share import ShareRequest, share_of

MAX_SHARDS = 4096
KIND = "pipeline-plan"


def plan(
    ctx: typer.Context,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="Run folder; default: runs/ci.")] = None,
    target: Annotated[Target, typer.Option("--for", help="Whose jobs the legs are.")] = Target.GITHUB,
    source: options.Source = None,
    stage: options.Stage = None,
    percent: options.Percent = None,
    device: options.Device = None,
    files: options.Files = None,
    keyword: options.Keyword = None,
    bucket: options.Bucket = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_SHARDS, help="Shards; default: as pipeline.shard_s and the stage say."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File that takes the outputs as JSON.")] = None,
) -> None:
    """Collect, select and plan without a card, and deal the shards to a CI's jobs.

    Example: spyre-ci pipeline plan --for github --pytorch-src ~/pytorch --percent 5
    """
    context = context_in_force(ctx, {"device.name": device})
    model = context.settings.model
    globs = options.split_files(files)
    request = ShareRequest(stage=stage, percent=percent, files=globs, keyword=keyword, bucket=bucket)
    share = share_of(context, request)
    if share.percent == 0:
        context.say(f"{share.label} is 0 %: no PyTorch tests run")
        hand_on(outputs_of(model), os.environ, out=out, kind=KIND)
        return
    check_quarantine(context)
    found = resolve_source(context, source)
    folder = run_dir if run_dir is not None else context.runs / "ci"
    planned = plan_for_jobs(context, found, share, folder, shards=shards)
    dealt = legs_of(planned.plan, model.matrix, target)
    content, why = worded(dealt, model.matrix, target)
    context.say(f"{len(dealt):,} legs" + (f"; {why}" if why else ""))
    if not planned.identity:
        context.say(f"results will not be used again: not known {unknown(planned.parts)}")
    hand_on(outputs_of(model, planned, content, legs=len(dealt)), os.environ, out=out, kind=KIND)


def context_in_force(ctx: typer.Context, flags: Mapping[str, Any]) -> Context:
    """The context of a verb, with the settings that the event's change is held to.

    What is due, where, and for how long is for the branch to say that a pull request goes into.

    Args:
        ctx: the verb's context.
        flags: dotted setting to value; None for a flag that was not given.
    """
    context = options.make_context(ctx, flags)
    model = settings_in_force(context.settings, read_event(os.environ), os.environ, Path.cwd()).model
    return replace(context, settings=replace(context.settings, model=model))


def outputs_of(
    model: SettingsModel,
    planned: Planned | None = None,
    matrix: Mapping[str, Any] | None = None,
    *,
    legs: int = 0,
) -> dict[str, Any]:
    """The outputs of a plan, by name; without one, those of nothing to run.

    Args:
        model: the settings.
        planned: what was planned.
        matrix: its legs in the words of a CI.
        legs: how many there are.
    """
    return {
        "matrix": {"include": []} if matrix is None else matrix,
        "kind": "none" if matrix is None else kind_of(matrix),
        "legs": legs,
        "run": planned.folder.run if planned else "",
        "tests": len(planned.plan.ids) if planned else 0,
        "fingerprint": planned.plan.fingerprint if planned else "",
        "identity": planned.identity if planned else "",
        "timeouts": model.pipeline.timeouts.model_dump(),
        "environment": model.pipeline.environment,
    }


def kind_of(matrix: Mapping[str, Any]) -> str:
    """What a matrix holds: `legs`, `matrices` of legs, or a `hand-over` to an Indexed Job."""
    rows = matrix.get("include", [])
    if any("hand_over" in row for row in rows):
        return "hand-over"
    return "matrices" if any("call" in row for row in rows) else "legs"
