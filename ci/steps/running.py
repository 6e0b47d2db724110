"""Running shards of a plan on this host, with progress."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ci.errors import SpyreCiError, UsageError
from ci.live import stream
from ci.live.sink import Sink
from ci.live.state import State
from ci.live.view import Watcher, view_for, watching
from ci.live.words import Again
from ci.report.identity import RunIdentity, read_identity, reproduce_command
from ci.report.text import shell_line
from ci.runner.cards import Card, inventory
from ci.runner.child import default_start_method
from ci.runner.forking import starts_processes
from ci.runner.run_options import RunOptions
from ci.runner.source import Source
from ci.runner.supervisor import run_plan
from ci.steps.collecting import worker_environment
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.durations import Durations, read_durations
from test_selection.plan import Plan, Shard
from test_selection.selection import Expectation


def cards_of(context: Context) -> list[Card]:
    """The cards this host gives the run.

    Raises:
        DeviceError: fewer real cards than the settings ask for.
    """
    model = context.settings.model
    return inventory(context.environ, device=model.device.name, wanted=model.run.cards, cores=context.cores)


def choose_shards(plan: Plan, wanted: Sequence[int]) -> list[Shard]:
    """The shards to run here: those asked for, or all.

    Raises:
        UsageError: the plan has no such shard.
    """
    for index in wanted:
        if not 0 <= index < len(plan.shards):
            raise UsageError(
                f"there is no shard {index}", remedy=f"the plan's shards are 0 to {len(plan.shards) - 1}"
            )
    return [plan.shards[index] for index in dict.fromkeys(wanted)] if wanted else list(plan.shards)


def planned_seconds(context: Context, folder: RunFolder) -> Durations:
    """The seconds a plan was made with; none where only a bare plan was handed on.

    They say how shards are cut into pieces, so a broken file costs the run some balance and nothing else.
    """
    if not folder.durations.is_file():
        return Durations()
    try:
        return read_durations(folder.durations)
    except SpyreCiError as error:
        context.say(f"shards are cut without the plan's seconds: {error}")
        return Durations()


def run_step(
    context: Context,
    plan: Plan,
    shards: Sequence[Shard],
    *,
    source: Source,
    expectations: Mapping[str, Expectation],
    durations: Durations,
    folder: RunFolder,
    events: Sink | None = None,
) -> bool:
    """Run `shards` and return whether the run was interrupted; everything else is in the journals.

    Args:
        context: the outside world.
        plan: the whole plan.
        shards: those to run here.
        source: where the tests come from.
        expectations: declared outcomes by id.
        durations: the seconds the plan was made with.
        folder: takes the journals.
        events: takes what happens, for other tools.
    """
    settings = context.settings.model.run
    cards = cards_of(context)
    side_by_side = max(1, min(len(cards), len(shards)))
    options = RunOptions(
        run=folder.run,
        run_dir=folder.path,
        tests=source.tests,
        device=context.settings.model.device.name,
        environ=worker_environment(context, source),
        threads=max(1, context.cores // side_by_side),
        method=default_start_method(),
        test_timeout_s=settings.test_timeout_s,
        setup_timeout_s=settings.setup_timeout_s,
        grace_s=settings.grace_s,
        worker_restarts=settings.worker_restarts,
        static=settings.static,
        retries=settings.retries,
        retry_budget=settings.retry_budget,
        spawned=_spawned(source.tests, {group.file for shard in shards for group in shard.groups}),
    )
    state = State(
        shards,
        cards=[card.name for card in cards],
        expected_s=durations.tests,
        setup_s=durations.files,
        now=context.monotonic(),
    )
    if events is not None:
        events.write(stream.run_start(state, run=folder.run, fingerprint=plan.fingerprint))
    view = view_for(context.console, context.environ, _again(folder))
    watcher = Watcher(state, view, events, context.monotonic)
    with watching(watcher, view, context.monotonic):
        interrupted = run_plan(
            plan,
            shards,
            cards=cards,
            expectations=expectations,
            options=options,
            listen=watcher.take,
            durations=durations.tests,
            file_s=durations.files,
        )
        watcher.finish(interrupted=interrupted)
    return interrupted


def _again(folder: RunFolder) -> Again:
    """What gives the command that runs a test once more; of a bare plan that came alone, its id."""
    if not folder.identity.is_file():
        return lambda name: f"--id {shell_line([name])}"
    return functools.partial(_command, read_identity(folder.path))


def _command(identity: RunIdentity, name: str) -> str:
    return reproduce_command(name, identity)


def _spawned(tests: Path, files: Iterable[str]) -> frozenset[str]:
    """The files that start processes themselves; one that cannot be read is told of when it is run."""
    found = set()
    for file in files:
        with contextlib.suppress(OSError):
            if starts_processes((tests / file).read_text(encoding="utf-8", errors="replace")):
                found.add(file)
    return frozenset(found)
