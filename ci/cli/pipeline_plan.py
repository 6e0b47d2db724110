"""`spyre-ci pipeline plan`: a plan, dealt to the jobs of a CI; it runs the steps, so it stands above them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.cli import options
from ci.cli.matrix import Target, legs_of, worded
from ci.config.model import SettingsModel
from ci.pipeline.telling import hand_on
from ci.steps.ci_plan import Planned, plan_for_jobs
from ci.steps.collecting import resolve_source
from ci.steps.marking import check_quarantine
from ci.steps.share import share_of
from test_selection.legs import Leg

MAX_SHARDS = 4096


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
    lane: options.Lane = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_SHARDS, help="Shards; default: as pipeline.shard_s and the stage say."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File that takes the outputs as JSON.")] = None,
) -> None:
    """Collect, select and plan without a card, and deal the shards to a CI's jobs.

    Example: spyre-ci pipeline plan --for github --files 'test_view_ops.py' --percent 5
    """
    context = options.make_context(ctx, {"device.name": device})
    model = context.settings.model
    share = share_of(
        context, stage=stage, percent=percent, files=options.split_files(files), keyword=keyword, ids=(),
        lane=lane,
    )  # fmt: skip
    if share.percent == 0:
        context.say(f"{share.label} is 0 %: no PyTorch tests run")
        hand_on(_outputs(model), os.environ, out=out, kind="pipeline-plan")
        return
    check_quarantine(context)
    found = resolve_source(context, source)
    folder = run_dir if run_dir is not None else context.runs / "ci"
    planned = plan_for_jobs(context, found, share, folder, shards=shards)
    dealt = legs_of(planned.plan, model.matrix, target)
    content, why = worded(dealt, model.matrix, target)
    context.say(f"{len(dealt):,} legs" + (f"; {why}" if why else ""))
    hand_on(_outputs(model, content, planned, dealt), os.environ, out=out, kind="pipeline-plan")


def _outputs(
    model: SettingsModel,
    matrix: dict[str, Any] | None = None,
    planned: Planned | None = None,
    legs: list[Leg] | None = None,
) -> dict[str, Any]:
    """The outputs of a plan; without one, those of nothing to run."""
    rows = (matrix or {}).get("include", [])
    kind = "legs"
    if not planned:
        kind = "none"
    elif any("hand_over" in row for row in rows):
        kind = "hand-over"
    elif any("call" in row for row in rows):
        kind = "matrices"
    return {
        "matrix": matrix if matrix is not None else {"include": []},
        "kind": kind,
        "legs": len(legs or ()),
        "run": planned.folder.run if planned else "",
        "tests": len(planned.plan.ids) if planned else 0,
        "fingerprint": planned.plan.fingerprint if planned else "",
        "identity": planned.identity if planned else "",
        "timeouts": model.pipeline.timeouts.model_dump(),
    }
