"""A plan for other machines: collected, selected and split here, without a card; run by a CI's jobs.

And what makes two plans the same work, so that the results of one hold for the other.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ci
from ci.config.model import SettingsModel
from ci.core.errors import CommandError, UsageError
from ci.core.git import git
from ci.main_job.run import plan_run, start_run
from ci.record.identity import read_identity
from ci.runner.collect import collection_key
from ci.runner.source import Source
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, RunFolder
from ci.steps.select import refuse_nothing
from ci.steps.share import Share
from test_selection.files import write_json
from test_selection.plan import Plan
from test_selection.selection import Selection

KIND = "plan-identity"
FILE = "plan-identity.json"
# Where a run waits, meets others and notes things changes no result; all else of these sections may.
_OF_NO_MATTER = {
    "share", "share_lease_s", "share_password_file", "leases", "lease_timeout_s", "grace_s", "quarantine",
}  # fmt: skip


def plan_for_jobs(
    context: Context, source: Source, share: Share, run_dir: Path, *, shards: int | None = None
) -> tuple[RunFolder, Plan, dict[str, str]]:
    """Collect, select and plan into a run folder, with the parts that make it the same work as another.

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
    most = cards_of(model, share.stage)

    def as_many(seconds: float) -> int:
        return shards_for(seconds, shard_s=model.pipeline.shard_s, most=most)

    folder = start_run(context, source, share, run_dir)
    plan, selection = plan_run(context, source, share, folder, shards=as_many if shards is None else shards)
    refuse_nothing(selection)
    for file, error in selection.collect_errors.items():
        context.say(f"cannot be collected: {file}: {error}")
    parts = _parts(context, folder, selection)
    write_parts(folder.path, parts)
    return folder, plan, parts


def _parts(context: Context, folder: RunFolder, selection: Selection) -> dict[str, str]:
    """What a plan's work is made of; a part that is not known is empty, and the same as nothing."""
    run = read_identity(folder.path)
    return {
        "tree": tree_of(context.settings.base),
        # What is not fixed by a digest is another environment tomorrow.
        "image": context.provider.image,
        "tests": selection_part(selection),
        "torch": f"{run.pytorch_version} {run.pytorch_sha}",
        "back_end": run.back_end,
        "toolkit": toolkit(),
        "environment": environment_part(context.environ),
        "settings": settings_part(context.settings.model),
    }


def write_parts(run_dir: Path, parts: Mapping[str, str]) -> None:
    """Write `plan-identity.json` of a run folder."""
    write_json(run_dir / FILE, KIND, {"parts": dict(parts)})


def cards_of(model: SettingsModel, stage: int | None) -> int:
    """The cards of a stage; a share by itself has those of the stage in force."""
    row = model.stages.get(model.stage if stage is None else stage)
    return row.cards if row is not None else 1


def shards_for(seconds: float, *, shard_s: float, most: int) -> int:
    """How many shards some work makes: each about `shard_s` long, at least one and at most `most`; pure."""
    return max(1, min(most, math.ceil(seconds / shard_s)))


def tree_of(folder: Path) -> str:
    """The tree that is checked out; empty where that is no repository, or tracked files differ from it."""
    try:
        if git(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none"):
            return ""
        return git(folder, "rev-parse", "--verify", "HEAD^{tree}").strip()
    except CommandError:
        return ""


def toolkit() -> str:
    """Which spyre-ci this is: the tree of its checkout, or the version that was installed."""
    folder = Path(ci.__file__).parent.parent
    return tree_of(folder) if (folder / ".git").exists() else version("spyre-ci")


def settings_part(model: SettingsModel) -> str:
    """The settings that decide how tests run; pure."""
    return _digest(
        {
            "device": model.device.model_dump(mode="json"),
            "run": model.run.model_dump(mode="json", exclude=_OF_NO_MATTER),
            "pytorch": model.pytorch.model_dump(mode="json"),
            "labels": model.matrix.labels,
        }
    )


def selection_part(selection: Selection) -> str:
    """Which tests are selected, what is expected of them, and which files could not be collected; pure.

    How they are dealt depends on seconds that were measured: no two hosts agree on it.
    """
    expected = {
        name: {key: value for key, value in one.as_json().items() if key != "where"}
        for name, one in selection.expectations.items()
    }
    return _digest([sorted(selection.ids), expected, sorted(selection.collect_errors)])


def environment_part(environ: Mapping[str, str]) -> str:
    """What is installed, and which variables PyTorch's tests read."""
    read = {
        name: value
        for name, value in environ.items()
        # Settings have a part of their own, and so has the image; the faults of emulated cards are for tests.
        if not name.startswith("SPYRE_CI_") or name == "SPYRE_CI_CARD_FAULTS"
    }
    return collection_key(read, device="", extra=())


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
