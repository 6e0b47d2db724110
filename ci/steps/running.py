"""Running shards of a plan on this host, with progress."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.errors import SpyreCiError, UsageError
from ci.progress import Bar, bar
from ci.runner.cards import Card
from ci.runner.child import default_start_method
from ci.runner.forking import starts_processes
from ci.runner.health import HealthFiles, Rules
from ci.runner.inventory import inventory, present
from ci.runner.leases import Leases, shared_folder
from ci.runner.pool import CardPool
from ci.runner.run_options import RunOptions
from ci.runner.source import Source
from ci.runner.supervisor import run_plan
from ci.steps.collecting import worker_environment
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.durations import Durations, read_durations
from test_selection.plan import Plan, Shard
from test_selection.selection import Expectation
from test_selection.timeouts import test_timeouts


def cards_of(context: Context) -> list[Card]:
    """The cards this host gives the run.

    Raises:
        DeviceError: fewer real cards than the settings ask for.
    """
    model = context.settings.model
    return inventory(context.environ, device=model.device.name, wanted=model.run.cards, cores=context.cores)


def card_pool(context: Context, run: str, say: Callable[[str], None]) -> CardPool:
    """All cards of this host, of which the run takes what is free; the control's belong to nobody.

    Raises:
        DeviceError: fewer real cards than the settings ask for.
        FileSystemError: the folder of leases cannot be used.
    """
    model, settings = context.settings.model, context.settings.model.run
    wanted = cards_of(context)
    if model.device.name == "cpu":
        return CardPool(wanted, say=say)
    folder = shared_folder() if settings.leases is None else context.settings.resolve(settings.leases)
    rules = Rules(strikes=settings.card_strikes, bench_s=settings.card_bench_s)
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
    """
    settings = context.settings.model.run
    side_by_side = max(1, min(len(cards_of(context)), len(shards)))
    checks = settings.preflight and context.settings.model.device.name != "cpu"
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
        preflight_timeout_s=settings.preflight_timeout_s if checks else 0,
        lease_timeout_s=settings.lease_timeout_s,
        spawned=_spawned(source.tests, {group.file for shard in shards for group in shard.groups}),
    )
    planned = sum(len(shard.ids) for shard in shards)
    with (
        bar(context.console, context.monotonic, "running", planned) as shown,
        contextlib.closing(card_pool(context, folder.run, shown.warn)) as cards,
    ):
        counter = _Counter(bar=shown)
        return run_plan(
            plan,
            shards,
            cards=cards,
            expectations=expectations,
            options=options,
            listen=counter.take,
            durations=durations.tests,
            file_s=durations.files,
            timeouts=test_timeouts(
                durations.spread,
                factor=settings.timeout_factor,
                floor_s=settings.timeout_floor_s,
                ceiling_s=settings.test_timeout_s,
            ),
        )


def _spawned(tests: Path, files: Iterable[str]) -> frozenset[str]:
    """The files that start processes themselves; one that cannot be read is told of when it is run."""
    found = set()
    for file in files:
        with contextlib.suppress(OSError):
            if starts_processes((tests / file).read_text(encoding="utf-8", errors="replace")):
                found.add(file)
    return frozenset(found)


@dataclass(slots=True, kw_only=True)
class _Counter:
    """Counts outcomes as journals tell of them."""

    bar: Bar
    outcomes: Counter[str] = field(default_factory=Counter)

    def take(self, shard: int, event: Mapping[str, Any]) -> None:
        """One event of one shard's journal."""
        match event.get("e"):
            case "end":
                self._count(str(event["outcome"]))
            case "crash":
                self._count("hardware" if event.get("cause") == "hardware" else "failed")
            case "not_run":
                self._count("not run", len(event["ids"]))
            case "worker_lost":
                self._count("infrastructure", 0 if event["id"] is None else 1)
                self.bar.warn(f"shard {shard}: {event['message']}")
            case "file_error":
                self.bar.warn(f"shard {shard}: {event['file']}: {event['message']}")
            case _:
                pass

    def _count(self, outcome: str, number: int = 1) -> None:
        self.outcomes[outcome] += number
        self.bar.advance(", ".join(f"{many} {name}" for name, many in self.outcomes.items() if many), number)
