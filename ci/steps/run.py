"""Run: shards of a plan on this host, with progress."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ci.core.addresses import says_password, shown
from ci.core.errors import MissingInputError, PlanMismatchError, SettingsError
from ci.core.locks import run_lock
from ci.core.operating_system import AUTO, start_method
from ci.core.secrets import read_secret
from ci.record.identity import FILE, read_identity
from ci.record.journal import attempts_before
from ci.report.live.events import Sink, run_start
from ci.report.live.state import State
from ci.report.live.view import Watcher, view_for, watching
from ci.runner.call_recorder import TRACE_FUNCTIONS
from ci.runner.claims.joining import NAMES_FILE, REDIS, ClaimSettings
from ci.runner.environment_info import back_end, refuse_silent_emulation, unallowed_ci
from ci.runner.health import HealthFiles, Rules
from ci.runner.inventory import Card, inventory, present
from ci.runner.leases import Leases, shared_folder
from ci.runner.pool import CardPool
from ci.runner.prepared_parent import starts_processes, wants_machinery
from ci.runner.shard_journals import guarded
from ci.runner.supervisor import run_plan
from ci.runner.work import RunOptions, Work
from ci.steps.collect import worker_environment
from ci.steps.context import Context
from ci.steps.control import control_step
from ci.steps.folder import RunFolder, read_device
from ci.steps.mark_failures import protected
from ci.steps.plan import ShardSubset
from ci.steps.run_settings import write_note
from test_selection.estimates import test_timeouts
from test_selection.files import read_bounded
from test_selection.ids import file_of
from test_selection.plan import Shard

PASSWORD_VARIABLE = "SPYRE_CI_SHARE_PASSWORD"  # noqa: S105  # the variable's name, not a secret
SHARE_VARIABLE = "SPYRE_CI__RUN__SHARE"


def cards_of(context: Context) -> list[Card]:
    """The cards this host gives the run.

    Raises:
        DeviceError: fewer real cards than the settings ask for.
        BackEndError: they would not be what is tested.
    """
    model, environ = context.settings.model, context.environ
    cards = inventory(environ, device=model.device.name, wanted=model.run.cards, cores=context.cores)
    refuse_silent_emulation(
        cards,
        environ,
        device=model.device.name,
        found=back_end(environ),
        in_ci=unallowed_ci(environ, allowed=model.device.emulated == "allow"),
    )
    return cards


def card_pool(context: Context, run: str, wanted: Sequence[Card], say: Callable[[str], None]) -> CardPool:
    """All cards of this host, of which the run takes what is free; the control's belong to nobody.

    Args:
        context: the outside world.
        run: the readable run id.
        wanted: what `cards_of` gave.
        say: told in one line each what becomes of cards.

    Raises:
        DeviceError: fewer real cards than the settings ask for.
        FileSystemError: the folder of leases cannot be used.
    """
    model, settings = context.settings.model, context.settings.model.run
    rules = Rules(strikes=settings.card_strikes, bench_s=settings.card_bench_s)
    if model.device.name == "cpu":
        return CardPool(wanted, rules=rules, say=say)
    folder = shared_folder() if settings.leases is None else context.settings.resolve(settings.leases)
    everything = present(
        context.environ, device=model.device.name, wanted=settings.cards, cores=context.cores
    )
    return CardPool(
        everything,
        wanted=len(wanted),
        leases=Leases(folder, run=run, clock=context.clock),
        health=HealthFiles(folder=folder, rules=rules),
        run=run,
        clock=context.clock,
        say=say,
    )


def on_the_plans_device(context: Context, plan_folder: RunFolder) -> Context:
    """The context with the device the plan was made for, so that its results are said of no other.

    Raises:
        PlanMismatchError: a flag asks for another one.
    """
    device = read_device(plan_folder)
    asked = context.settings.model.device.name
    if device is None or device == asked:
        return context
    if context.settings.origins.get("device.name") == "flag":
        raise PlanMismatchError(
            f"--device is {asked!r}, but the run was started on {device!r}",
            where=plan_folder.identity,
            remedy="leave --device out, or collect and plan for the other device",
        )
    return context.on_device(device)


def claims_of(context: Context, plan_dir: Path) -> ClaimSettings | None:
    """Where this host meets the others of its run; None where every host runs its shards by itself.

    Nobody shares with --static, nor where a CI runs one job of a run once more: the others have ended, and
    what they did is not to be done again.

    Args:
        context: the outside world.
        plan_dir: the folder of the plan, which says what run it is of.

    Raises:
        MissingInputError: the run's identity is not beside the plan, or there is no such password file.
        SettingsError: a password stands where others can read it, would go to an address that a pull request
            can change, or the password file holds none.
    """
    settings = context.settings.model.run
    if settings.share is None or settings.static:
        return None
    if says_password(settings.share) and context.settings.origins.get("run.share") != "environment":
        raise SettingsError(
            "the address holds a password, and settings files are committed",
            where="run.share",
            remedy=f"remove it there, and set {PASSWORD_VARIABLE} or name a `run.share_password_file`",
        )
    if not (plan_dir / FILE).is_file():
        raise MissingInputError(
            "the plan's run is unknown, so its work cannot be shared",
            where=plan_dir / FILE,
            remedy=f"copy {FILE} along with plan.json, or run the shards separately with --static",
        )
    identity = read_identity(plan_dir)
    attempt = context.provider.run_attempt
    if attempt > identity.run_attempt:
        context.say(f"attempt {attempt} of a job of {identity.run}: its shards are run separately")
        return None
    redis = settings.share.startswith(REDIS)
    where = settings.share if "://" in settings.share else str(context.settings.resolve(Path(settings.share)))
    password = _password(context) if redis else None
    if password is not None and context.settings.origins.get("run.share") == "file":
        # Whoever may change a committed file would be told the password, or what any other file holds.
        raise SettingsError(
            f"the password is not sent to {shown(where)}: the address is that of the settings file, which a "
            "pull request can change",
            where="run.share",
            remedy=f"give the address by the environment as well, with {SHARE_VARIABLE}",
        )
    return ClaimSettings(
        where=where,
        run=f"{identity.run}-{identity.run_attempt}",
        lease_s=settings.share_lease_s,
        clock=context.monotonic,
        say=context.say,
        password=password,
    )


def _password(context: Context) -> str | None:
    if given := context.environ.get(PASSWORD_VARIABLE, "").strip():
        return given
    named = context.settings.model.run.share_password_file
    if named is None:
        return None
    path = context.settings.resolve(named)
    found = read_secret(path, "password").strip()
    if not found:
        raise SettingsError("the password file is empty", where=path, remedy="put the bare password there")
    return found


def run_step(
    context: Context,
    subset: ShardSubset,
    *,
    allow_collect_errors: bool = False,
    events: Sink | None = None,
) -> bool:
    """Run shards and return whether the run was interrupted; everything else is in the journals.

    Args:
        context: the outside world.
        subset: the shards, with what they are run by.
        allow_collect_errors: noted for the case that the run is resumed.
        events: takes what happens, for other tools.
    """
    with run_lock(subset.folder.path, alone=False):
        indexes = [shard.index for shard in subset.shards]
        write_note(context, subset.folder, indexes, allow_collect_errors=allow_collect_errors)
        return run_locked(context, subset, events=events)


def run_locked(
    context: Context,
    subset: ShardSubset,
    *,
    events: Sink | None = None,
    alone: bool = True,
) -> bool:
    """`run_step` for a caller that holds the lock of the folder, as who resumes a run does.

    Args:
        context: the outside world.
        subset: the shards, with what they are run by.
        events: takes what happens, for other tools.
        alone: whether nobody else works in the folder, so that whoever did is dead.
    """
    folder, durations = subset.folder, subset.durations
    cards = cards_of(context)
    claims = claims_of(context, (subset.plan_folder or folder).path)
    if claims is not None:
        left = None if subset.whole is None else frozenset(subset.plan.ids)
        names = folder.path / NAMES_FILE if alone else None
        claims = replace(claims, names=names, left=left)
    # Of whose pieces some may run here.
    within = subset.shards if claims is None else subset.plan.shards
    options = _options(context, subset, within, workers=min(len(cards), len(subset.shards)))
    run = context.settings.model.run
    work = Work(
        subset.plan,
        subset.shards,
        expectations=subset.expectations,
        durations=durations.tests,
        file_s=durations.files,
        timeouts=test_timeouts(
            durations.spread,
            factor=run.timeout_factor,
            floor_s=run.timeout_floor_s,
            ceiling_s=run.test_timeout_s,
        ),
        spawned=options.spawned,
        shared=claims is not None,
        whole=subset.whole,
        first=subset.first,
    )
    with (
        guarded(folder.path, context.say),
        contextlib.closing(card_pool(context, folder.run, cards, context.say)) as pool,
        _watched(context, subset, within, cards=cards, events=events) as watcher,
    ):
        interrupted = run_plan(
            work,
            cards=pool,
            options=options,
            listen=watcher.take,
            claims=claims,
            pending=subset.pending,
        )
        watcher.finish(interrupted=interrupted)
    return interrupted or control_step(context, subset, options)


def _options(context: Context, subset: ShardSubset, within: Sequence[Shard], *, workers: int) -> RunOptions:
    model, settings, tests = context.settings.model, context.settings.model.run, subset.source.tests
    files = {group.file for shard in within for group in shard.groups}
    files |= {file_of(one.id) for one in subset.pending}
    return RunOptions(
        run=subset.folder.run,
        run_dir=subset.folder.path,
        tests=tests,
        device=model.device.name,
        environ={
            **worker_environment(context, subset.source),
            **({TRACE_FUNCTIONS: "1"} if settings.trace_functions else {}),
        },
        threads=max(1, context.cores // max(1, workers)),
        method=start_method(settings.start_method),
        may_change=settings.start_method == AUTO,
        machinery=wants_machinery(tests, files),
        spawned=_spawned(tests, files),
        test_timeout_s=settings.test_timeout_s,
        setup_timeout_s=settings.setup_timeout_s,
        grace_s=settings.grace_s,
        worker_restarts=settings.worker_restarts,
        static=settings.static,
        max_fail=settings.max_fail,
        spared=frozenset(protected(context, subset.plan.ids)) if settings.max_fail else frozenset(),
        # Where a failure ends the run there is none to wait for.
        retries=0 if settings.max_fail else settings.retries,
        retry_budget=settings.retry_budget,
        preflight_timeout_s=(
            settings.preflight_timeout_s if settings.preflight and model.device.name != "cpu" else 0
        ),
        lease_timeout_s=settings.lease_timeout_s,
        after=attempts_before(context.provider.run_attempt),
        seed=subset.plan.run_seed,
        as_try=subset.as_try,
        doubts=subset.doubts,
    )


@contextlib.contextmanager
def _watched(
    context: Context,
    subset: ShardSubset,
    within: Sequence[Shard],
    *,
    cards: Sequence[Card],
    events: Sink | None,
) -> Iterator[Watcher]:
    """Show the run while the block lasts."""
    here = {shard.index for shard in subset.shards}
    theirs = [shard for shard in within if shard.index not in here]
    others = {name: group.file for shard in theirs for group in shard.groups for name in group.ids}
    state = State(
        subset.shards,
        cards=[card.name for card in cards],
        expected_s=subset.durations.tests,
        setup_s=subset.durations.files,
        now=context.monotonic(),
        others=others | {one.id: file_of(one.id) for one in subset.pending},
    )
    if events is not None:
        row = run_start(state, run=subset.folder.run, fingerprint=subset.plan.fingerprint)
        if subset.whole is not None:
            row["whole"] = sum(len(shard.ids) for shard in subset.whole.shards if shard.index in here)
        events.write(row)
    view = view_for(context.console, context.environ, verbosity=context.verbosity)
    watcher = Watcher(state, view, events, context.monotonic)
    with watching(watcher, view, context.monotonic):
        yield watcher


def _spawned(tests: Path, files: Iterable[str]) -> frozenset[str]:
    """The files that start processes themselves; one that cannot be read is told of when it is run."""
    found = set()
    for file in files:
        with contextlib.suppress(OSError):
            if starts_processes(read_bounded(tests / file).decode("utf-8", "replace")):
                found.add(file)
    return frozenset(found)
