"""`spyre-ci pipeline plan` and `legs`: a plan made without a card, and dealt to the jobs of a CI."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.config.model import SettingsModel
from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.core.text import counted
from ci.main_job.cli_matrix import Target, legs_of, worded
from ci.main_job.run import plan_run, start_run
from ci.pipeline.base_settings import judging_settings
from ci.pipeline.diff import touched
from ci.pipeline.event import Event, read_event
from ci.pipeline.outputs import Out, hand_on, say
from ci.pipeline.plan_identity import parts_of, write_parts
from ci.steps import options
from ci.steps.change_order import ChangeRequest
from ci.steps.collect import resolve_source
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, RunFolder
from ci.steps.mark_failures import check_quarantine
from ci.steps.select import refuse_nothing
from ci.steps.share import Share, ShareRequest, share_of
from test_selection.ci_jobs import CiJob, busy_shards
from test_selection.plan import Plan, read_plan

MAX_SHARDS = 4096
# What a leg of `pipeline.shard_s` takes is a fraction of it.
MOST_MINUTES = 24 * 60
RunDir = Annotated[Path | None, typer.Option("--run-dir", help="Run folder; default: runs/ci.")]
For = Annotated[Target, typer.Option("--for", help="The CI that runs the jobs.")]


class TooMuchError(SpyreCiError):
    """A plan wants more than the settings give the stage."""

    exit_code = EXIT_TEST_FAILED


def plan(
    ctx: typer.Context,
    run_dir: RunDir = None,
    target: For = Target.GITHUB,
    source: options.Source = None,
    stage: options.Stage = None,
    percent: options.Percent = None,
    device: options.Device = None,
    files: options.Files = None,
    keyword: options.Keyword = None,
    tier: options.Tier = None,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_SHARDS, help="Number of shards; default: by pipeline.shard_s and the stage."
        ),
    ] = None,
    out: Out = None,
) -> None:
    """Collect, select and plan without a card, and group the shards into CI jobs.

    Example: spyre-ci pipeline plan --for github --pytorch-src ~/pytorch --percent 5
    """
    globs = options.split_files(files)
    request = ShareRequest(stage=stage, percent=percent, files=globs, keyword=keyword, tier=tier)
    context, share = _asked(ctx, request, {"device.name": device})
    if share.percent == 0:
        _hand_on(context, target, out, "pipeline-plan")
        return
    check_quarantine(context)
    there = run_dir if run_dir is not None else context.runs / "ci"
    if any((there / JOURNALS).glob("*.jsonl")):
        remedy = "give another one with --run-dir"
        raise UsageError("the run of this folder has started already", where=there, remedy=remedy)
    model, found = context.settings.model, resolve_source(context, source)
    most = cards_of(model, share.stage)

    def as_many(seconds: float) -> int:
        return shards_for(seconds, shard_s=model.pipeline.shard_s, most=most)

    folder = start_run(context, found, share, there)
    whole, selection = plan_run(
        context,
        found,
        share,
        folder,
        shards=as_many if shards is None else shards,
        change=_change(read_event(os.environ)),
    )
    refuse_nothing(selection)
    for file, error in selection.collect_errors.items():
        context.say(f"cannot be collected: {file}: {error}")
    parts = parts_of(context, folder.path, selection)
    write_parts(folder.path, parts)
    if unknown := [name for name, value in parts.items() if not value]:
        context.say(f"results will not be reused: unknown {', '.join(unknown)}")
    dealt = legs_of(whole, model.matrix, target)
    _hand_on(
        context, target, out, "pipeline-plan", outputs_of_plan(context, whole, dealt, target, folder.run)
    )


def legs(
    ctx: typer.Context,
    run_dir: RunDir = None,
    target: For = Target.JENKINS,
    stage: options.Stage = None,
    percent: options.Percent = None,
    out: Out = None,
) -> None:
    """Group an untrusted plan's shards into CI jobs, within the limits of the settings.

    Labels, cards and time-outs come from the settings (in a merge queue, those of the target). A plan for
    more cards than the stage has is refused, and so is an empty one where the stage has tests.

    Example: spyre-ci pipeline legs --for github --run-dir runs/ci --out runs/legs.json
    """
    context, share = _asked(ctx, ShareRequest(stage=stage, percent=percent), {})
    if share.percent == 0:
        _hand_on(context, target, out, "pipeline-legs")
        return
    folder = RunFolder(path=run_dir if run_dir is not None else context.runs / "ci")
    found, model = read_plan(folder.plan), context.settings.model
    dealt = legs_within(found, model, target, cards=cards_of(model, share.stage), where=folder.plan)
    _hand_on(
        context, target, out, "pipeline-legs", outputs_of_plan(context, found, dealt, target, folder.run)
    )


def cards_of(model: SettingsModel, stage: int | None) -> int:
    """The cards of a stage; a share by itself has those of the stage in force."""
    row = model.stages.get(model.stage if stage is None else stage)
    return row.cards if row is not None else 1


def shards_for(seconds: float, *, shard_s: float, most: int) -> int:
    """How many shards some work makes: each about `shard_s` long, at least one and at most `most`; pure."""
    return max(1, min(most, math.ceil(seconds / shard_s)))


def _asked(ctx: typer.Context, request: ShareRequest, flags: Mapping[str, Any]) -> tuple[Context, Share]:
    """The context of a verb, with the settings that the event's change is held to, and the share."""
    context = options.make_context(ctx, flags)
    settings, said = judging_settings(context.settings, read_event(os.environ), os.environ, Path.cwd())
    if said:
        say(said)
    context = replace(context, settings=settings)
    return context, share_of(context, request)


def _change(event: Event) -> ChangeRequest | None:
    """The change of a pull request, by which its tests are ordered; None for any other event."""
    base = touched(Path.cwd(), event).base if event.name == "pull_request" else ""
    return ChangeRequest(commits=f"{base}..HEAD") if base else None


def _hand_on(
    context: Context, target: Target, out: Path | None, kind: str, outputs: Mapping[str, Any] | None = None
) -> None:
    """Hand a plan's outputs on, or those of nothing to run."""
    if outputs is None:
        say("the share is 0 %: no PyTorch tests run")
        # Jenkins takes every key for a branch.
        empty: dict[str, Any] = {} if target is Target.JENKINS else {"include": []}
        outputs = {"matrix": empty, "kind": "none", "legs": 0, "run": "", "tests": 0, "fingerprint": ""}
    settings = context.settings.model.pipeline
    more = {"timeouts": settings.timeouts.model_dump(), "environment": settings.environment}
    hand_on({**outputs, **more}, out=out, kind=kind)


def outputs_of_plan(
    context: Context, plan: Plan, dealt: list[CiJob], target: Target, run: str
) -> dict[str, Any]:
    """The outputs of a plan, by name; prints its number of CI jobs."""
    content, why = worded(dealt, context.settings.model.matrix, target)
    say(f"{counted(len(dealt), 'CI job')} for {counted(len(plan.ids), 'test')}" + (f"; {why}" if why else ""))
    return {
        "matrix": content,
        "kind": kind_of(content),
        "legs": len(dealt),
        "run": run,
        "tests": len(plan.ids),
        "fingerprint": plan.fingerprint,
    }


def kind_of(matrix: Mapping[str, Any]) -> str:
    """What a matrix holds: `legs`, `matrices` of legs, or a `hand-over` to an Indexed Job."""
    rows = matrix.get("include", [])
    if any("hand_over" in row for row in rows):
        return "hand-over"
    return "matrices" if any("call" in row for row in rows) else "legs"


def legs_within(plan: Plan, model: SettingsModel, target: Target, *, cards: int, where: Path) -> list[CiJob]:
    """A plan's legs, where they stay within the settings; pure.

    Args:
        plan: by whomever.
        model: the settings.
        target: whose jobs they are.
        cards: how many the stage has.
        where: the plan's file, for messages.

    Raises:
        NothingToRunError: the plan holds no test.
        TooMuchError: it wants more cards or time than there is for it.
        UsageError: no runner has the cards.
    """
    loads = busy_shards(plan)
    # A shard without cards takes a runner as well.
    wanted = max(sum(one.cards for one in loads), len(loads))
    if wanted > cards:
        raise TooMuchError(
            f"the plan's {counted(len(loads), 'shard')} need {counted(wanted, 'card')}, and the stage has "
            f"{cards:,}",
            where=where,
            remedy="plan with the settings that apply here, or give the stage more cards in them",
        )
    dealt = legs_of(plan, model.matrix, target)
    branches, _ = worded(dealt, model.matrix, Target.JENKINS)
    longest = max(branch["timeout_minutes"] for branch in branches.values())
    if longest > MOST_MINUTES:
        raise TooMuchError(
            f"a CI job of the plan needs {longest:,} minutes, and at most {MOST_MINUTES:,} are allowed",
            where=where,
            remedy="give the stage more cards, so that a CI job has less to do",
        )
    return dealt
