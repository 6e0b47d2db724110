"""Control: what failed on the device, run once more on the control device, after the run and on its host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ci.core.errors import SpyreCiError
from ci.core.progress import bar
from ci.core.text import counted
from ci.record.events import JournalEvent
from ci.record.journal import gathered_journals, read_journals
from ci.record.run_state import outcome_in
from ci.report.control import choose, control_plan, controls, wants_control
from ci.report.reconcile import reconcile
from ci.runner.inventory import inventory
from ci.runner.shard_journals import guarded
from ci.runner.supervisor import run_plan
from ci.runner.work import RunOptions, Work
from ci.steps.collect import worker_environment
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.plan import ShardSubset
from test_selection.plan import Plan, Shard

# PyTorch 2.5 and later import every installed back end along with torch unless this is 0, and a back end
# that is broken must not break the control.
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


def control_step(context: Context, subset: ShardSubset, options: RunOptions) -> bool:
    """Run what failed in these shards on the control device; what came of it is in journals of its own.

    There every test has to pass, and journals and logs go to a folder below the run's.

    Args:
        context: the outside world.
        subset: what ran here.
        options: how it was run.

    Returns:
        Whether it was interrupted.
    """
    device = context.settings.model.run.control
    if device == "none":
        return False
    if device == options.device:
        context.say(f"control: skipped: {device} is the device under test")
        return False
    try:
        with guarded(subset.folder.path, context.say):
            return _control(context, subset, options)
    except SpyreCiError as error:
        # The run itself has ended, and its account is worth more than whose the failures are.
        context.say(f"control: ended early: {error}")
        return False


def control_is_owed(context: Context, plan: Plan, shards: Sequence[Shard], folder: RunFolder) -> bool:
    """Whether something failed in these shards that has still to run on the control device."""
    device = context.settings.model.run.control
    return device not in ("none", context.settings.model.device.name) and bool(_wanted(plan, shards, folder))


def _control(context: Context, subset: ShardSubset, options: RunOptions) -> bool:
    device = context.settings.model.run.control
    plan = subset.whole or subset.plan
    wanted = _wanted(plan, subset.shards, subset.folder)
    ids = choose(wanted, context.settings.model.run.control_limit)
    if len(ids) < len(wanted):
        context.say(f"control: {counted(len(wanted) - len(ids), 'failed test')} beyond run.control_limit")
    if not ids or not subset.shards:
        return False
    failed = control_plan(plan, set(ids), {shard.index for shard in subset.shards})
    with bar(context.console, context.monotonic, f"control on {device}", len(ids)) as shown:

        def ended(_shard: int, event: JournalEvent) -> None:
            if outcome_in(event) is not None:
                shown.advance("")

        work = Work(
            failed,
            failed.shards,
            expectations={
                name: replace(one, mode="mandatory_success") for name, one in subset.expectations.items()
            },
            durations=subset.durations.tests,
            file_s=subset.durations.files,
            spawned=options.spawned,
        )
        return run_plan(
            work,
            cards=inventory(context.environ, device=device, wanted=0, cores=context.cores),
            options=_options(context.on_device(device), options, subset, failed),
            listen=ended,
        )


def _wanted(plan: Plan, shards: Sequence[Shard], folder: RunFolder) -> list[str]:
    """What failed in the journals of these shards, and has not run on the control device yet."""
    mine = {shard.index for shard in shards}
    ran = [one for one in read_journals(folder.path) if one.shard in mine]
    before = gathered_journals(folder.control.path)
    done = controls(reconcile(plan, before).results, "") if before else ()
    return wants_control(reconcile(plan, ran).results, done)


def _options(context: Context, options: RunOptions, subset: ShardSubset, plan: Plan) -> RunOptions:
    busy = sum(bool(shard.groups) for shard in plan.shards)
    return replace(
        options,
        run_dir=subset.folder.control.path,
        device=context.settings.model.device.name,
        environ={**worker_environment(context, subset.source), _AUTOLOAD: "0"},
        threads=max(1, context.cores // max(1, min(context.cores, busy))),
        retries=0,
        max_fail=0,
        doubts={},
        preflight_timeout_s=0,
    )
