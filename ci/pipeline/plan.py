"""A plan for other machines: collected, selected and split here, without a card; run by a CI's jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import UsageError
from ci.main_job.run import plan_run, start_run
from ci.pipeline.identity import (
    environment_part,
    planned_part,
    selection_part,
    settings_part,
    toolkit,
    tree_of,
    write_plan_identity,
)
from ci.record.identity import read_identity
from ci.runner.source import Source
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, RunFolder
from ci.steps.selecting import refuse_nothing
from ci.steps.share import Share
from test_selection.plan import Plan
from test_selection.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan that waits for its shards to be run.

    Attributes:
        folder: the run's.
        plan: its shards.
        identity: what makes it the same work as another; empty where that cannot be told.
        parts: what that is made of.
    """

    folder: RunFolder
    plan: Plan
    identity: str
    parts: Mapping[str, str]


def plan_for_jobs(
    context: Context, source: Source, share: Share, run_dir: Path, *, shards: int | None = None
) -> Planned:
    """Collect, select and plan into a run folder.

    Args:
        context: the outside world.
        source: where the tests come from.
        share: what part of them is wanted, above 0 per cent.
        run_dir: the run's folder.
        shards: how many; None: as many as `pipeline.shard_s` makes of the work, but not more than the stage
            has cards.

    Raises:
        UsageError: the folder is of a run that has begun.
        SpyreCiError: of the steps.
    """
    if any((run_dir / JOURNALS).glob("*.jsonl")):
        raise UsageError(
            "is the folder of a run that has begun", where=run_dir, remedy="name another one with --run-dir"
        )
    model = context.settings.model
    # A share by itself has the cards of the stage in force.
    row = model.stages.get(model.stage if share.stage is None else share.stage)
    most = row.cards if row is not None else 1

    def as_many(seconds: float) -> int:
        return shards_for(seconds, shard_s=model.pipeline.shard_s, most=most)

    folder = start_run(context, source, share, run_dir)
    plan, selection = plan_run(context, source, share, folder, shards=as_many if shards is None else shards)
    refuse_nothing(selection)
    for file, error in selection.collect_errors.items():
        context.say(f"cannot be collected: {file}: {error}")
    parts = _parts(context, folder, plan, selection)
    identity = write_plan_identity(folder.path, parts)
    return Planned(folder=folder, plan=plan, identity=identity, parts=parts)


def _parts(context: Context, folder: RunFolder, plan: Plan, selection: Selection) -> dict[str, str]:
    run = read_identity(folder.path)
    return {
        "tree": tree_of(context.settings.base),
        # What is not fixed by a digest is another environment tomorrow.
        "image": context.provider.image,
        "tests": planned_part(plan),
        "selection": selection_part(selection),
        "torch": f"{run.pytorch_version} {run.pytorch_sha}",
        "back_end": run.back_end,
        "toolkit": toolkit(),
        "environment": environment_part(context.environ),
        "settings": settings_part(context.settings.model),
    }


def shards_for(seconds: float, *, shard_s: float, most: int) -> int:
    """How many shards some work makes: each about `shard_s` long, at least one and at most `most`; pure."""
    return max(1, min(most, math.ceil(seconds / shard_s)))
