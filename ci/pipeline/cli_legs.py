"""`spyre-ci pipeline legs`: a plan that was made elsewhere, dealt by the settings here, whatever it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ci.config.model import SettingsModel
from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError
from ci.main_job.cli_matrix import Target, legs_of, worded
from ci.pipeline.cli_plan import context_in_force, outputs_of
from ci.pipeline.plan import Planned
from ci.pipeline.telling import hand_on, say
from ci.steps import options
from ci.steps.folder import RunFolder
from ci.steps.share import ShareRequest, share_of
from test_selection.ci_jobs import CiJob, busy_shards
from test_selection.plan import Plan, read_plan

KIND = "pipeline-legs"
# What a leg of `pipeline.shard_s` takes is a fraction of it.
MOST_MINUTES = 24 * 60


class TooMuchError(SpyreCiError):
    """A plan wants more than the settings give the stage."""

    exit_code = EXIT_TEST_FAILED


def legs(
    ctx: typer.Context,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="Run folder; default: runs/ci.")] = None,
    target: Annotated[Target, typer.Option("--for", help="Whose jobs the legs are.")] = Target.JENKINS,
    stage: options.Stage = None,
    percent: options.Percent = None,
    out: Annotated[Path | None, typer.Option("--out", help="File that takes the outputs as JSON.")] = None,
) -> None:
    """Deal a plan that was made where a pull request's code runs: what it may take is what the settings say.

    Labels, cards and time-outs are made anew; a plan that wants more than the stage has is refused, and so is
    an empty one where the stage has tests. A pull request's settings are those of what it goes into.

    Example: spyre-ci pipeline legs --for github --run-dir runs/ci --out runs/legs.json
    """
    context = context_in_force(ctx, {})
    model = context.settings.model
    share = share_of(context, ShareRequest(stage=stage, percent=percent))
    if share.percent == 0:
        say(f"{share.label} is 0 %: no PyTorch tests run")
        # Jenkins takes every key for a branch.
        nothing = outputs_of(model) | ({"matrix": {}} if target is Target.JENKINS else {})
        hand_on(nothing, os.environ, out=out, kind=KIND)
        return
    folder = RunFolder(path=run_dir if run_dir is not None else context.runs / "ci")
    plan = read_plan(folder.plan)
    # A share by itself has the cards of the stage in force.
    row = model.stages.get(model.stage if share.stage is None else share.stage)
    dealt = legs_within(plan, model, target, cards=row.cards if row is not None else 1, where=folder.plan)
    content, why = worded(dealt, model.matrix, target)
    say(f"{len(dealt):,} legs of {len(plan.ids):,} tests" + (f"; {why}" if why else ""))
    # The identity is not told: who takes results by it reads it where it was written, and doubts it.
    planned = Planned(folder=folder, plan=plan, identity="", parts={})
    hand_on(outputs_of(model, planned, content, legs=len(dealt)), os.environ, out=out, kind=KIND)


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
            f"the plan's {len(loads):,} shards want {wanted:,} cards, and the stage has {cards:,}",
            where=where,
            remedy="plan with the settings that hold here, or give the stage more cards there",
        )
    dealt = legs_of(plan, model.matrix, target)
    branches, _ = worded(dealt, model.matrix, Target.JENKINS)
    longest = max(branch["timeout_minutes"] for branch in branches.values())
    if longest > MOST_MINUTES:
        raise TooMuchError(
            f"a leg of the plan wants {longest:,} minutes, and {MOST_MINUTES:,} are the most",
            where=where,
            remedy="give the stage more cards, so that a leg has less to do",
        )
    return dealt
