"""Plan: from a selection to shards, without a card; and the shards of a plan that are one host's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci.core.errors import PlanMismatchError
from ci.core.text import counted
from ci.report.history import export_durations
from ci.runner.retries import Pending
from ci.runner.source import Source
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.select import scope_rules
from test_selection.catalog import Catalog
from test_selection.durations import Durations, read_durations, write_durations
from test_selection.estimates import Source as EstimateSource
from test_selection.estimates import estimate, estimate_files, file_timeouts, how_estimated
from test_selection.limits import Limits, limits_of
from test_selection.pack import make_plan
from test_selection.plan import Plan, Shard, write_plan
from test_selection.selection import Expectation, Selection, read_selection

# What runs first is not shared out, so it stays a small part of a run.
MOST_FIRST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSubset:
    """Shards of a plan that run on this host.

    Attributes:
        plan: the whole plan; of a run that is resumed, what is left of it.
        shards: those that run here.
        source: where the tests come from.
        expectations: declared outcomes by id.
        durations: the seconds the plan was made with.
        folder: takes the journals.
        plan_folder: holds the plan; None: `folder` does.
        first: ids that run before all others.
        as_try: by id, the try whose seed a test has, where one is brought back.
        whole: what `plan` is the rest of, where the run is resumed: others know its pieces.
        doubts: of a run that is resumed: what may have run before, by shard and reason.
        pending: of a run that is resumed: the retries it had still to make.
    """

    plan: Plan
    shards: Sequence[Shard]
    source: Source
    expectations: Mapping[str, Expectation]
    durations: Durations
    folder: RunFolder
    plan_folder: RunFolder | None = None
    first: frozenset[str] = frozenset()
    as_try: Mapping[str, int] = field(default_factory=dict)
    whole: Plan | None = None
    doubts: Mapping[int, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    pending: Sequence[Pending] = ()


def shard_subset(
    context: Context,
    plan_folder: RunFolder,
    plan: Plan,
    source: Source,
    *,
    shards: Sequence[Shard] | None = None,
    folder: RunFolder | None = None,
) -> ShardSubset:
    """Shards of a plan, with the expectations and the seconds that lie beside it.

    Args:
        context: the outside world.
        plan_folder: the folder of the plan; a bare one that was handed on has neither.
        plan: the whole plan, or what is left of it.
        source: where the tests come from.
        shards: those that run here; None: all.
        folder: takes the journals; None: that of the plan.
    """
    durations, selection = None, None
    if plan_folder.selection.is_file():
        selection = read_selection(plan_folder.selection)
    if plan_folder.durations.is_file():
        # They say how shards are cut into pieces: a broken file costs some balance and nothing else.
        unread = "shards are split without the plan's durations"
        durations = context.attempt(unread, lambda: read_durations(plan_folder.durations))
    return ShardSubset(
        plan=plan,
        shards=plan.shards if shards is None else shards,
        source=source,
        expectations=selection.expectations if selection is not None else {},
        durations=durations or Durations(),
        folder=folder or plan_folder,
        plan_folder=plan_folder,
        first=likeliest(selection),
    )


def likeliest(selection: Selection | None) -> frozenset[str]:
    """The tests that a change breaks the likeliest, which run before all others."""
    named = selection.change.named if selection is not None and selection.change is not None else {}
    return frozenset(itertools.islice(named, MOST_FIRST))


def past_durations(context: Context, device: str) -> Durations:
    """The seconds earlier runs on a device took, for the planner; empty where nothing usable tells them.

    The history knows them, or, where there is none, the file that was exported of one elsewhere.
    """
    history = context.history
    exported = context.settings.resolve(context.settings.model.plan.durations)
    found = None
    guessed = "cannot be read, so durations are guessed"
    if history.there:
        found = context.attempt(f"history: {guessed}", lambda: export_durations(history, device=device))
    elif exported.is_file():
        found = context.attempt(f"durations: {guessed}", lambda: read_durations(exported))
    return found or Durations()


def plan_step(
    context: Context,
    catalog: Catalog,
    selection: Selection,
    durations: Durations,
    *,
    shards: int | Callable[[float], int],
    plan_file: Path,
    durations_file: Path | None = None,
    seed: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Plan:
    """Split the selection over `shards`; write the plan, and the seconds it was made with where named.

    Args:
        context: its settings and rules say how time-outs follow from the estimates, how fast cards are, how
            many files a shard has, and what runs alone, in order and on several cards.
        catalog: every test there is.
        selection: those to plan.
        durations: what was measured.
        shards: how many workers there are, or what makes that of the seconds that all takes.
        plan_file: the plan to write.
        durations_file: the estimates to write.
        seed: of the run; None: what follows from the plan, the same for every run of it.
        say: told in one line each where the estimates come from and what cannot be kept to; None: as any
            step tells.

    Raises:
        PlanMismatchError: a selected test is not in the catalog, so no plan could hold it (law 1).
    """
    wanted = set(selection.ids)
    tests = [test for test in catalog.tests if test.id in wanted]
    if strangers := sorted(wanted - {test.id for test in tests}):
        raise PlanMismatchError(
            f"{len(strangers)} of {len(wanted)} selected tests are not in the catalog, "
            f"such as {strangers[0]!r}",
            remedy="select from this catalog with `spyre-ci select`, or name the catalog it was made from",
        )
    estimates = estimate(tests, durations, among=catalog.tests)
    test_s = {name: one.seconds for name, one in estimates.items()}
    file_s = estimate_files(catalog, durations)
    if not isinstance(shards, int):
        touched = {test.file for test in tests}
        shards = shards(sum(test_s.values()) + sum(file_s.get(one, 0.0) for one in touched))
    say = say or context.say
    rules, model = scope_rules(context), context.settings.model
    limits = replace(
        _within(limits_of(tests, rules.order, rules.tiers), shards, say),
        timeouts=file_timeouts(
            estimates,
            factor=model.run.timeout_factor,
            floor_s=model.run.timeout_floor_s,
            ceiling_s=model.run.test_timeout_s,
        ),
        max_files=model.plan.max_files,
        speeds=tuple(model.plan.speeds),
    )
    plan = replace(make_plan(tests, test_s=test_s, file_s=file_s, shards=shards, limits=limits), seed=seed)
    if durations_file is not None:
        # The runner ends a test by its own history, so only what was measured of it goes along.
        spread = {
            name: one.spread for name, one in estimates.items() if one.source is EstimateSource.MEASURED
        }
        write_durations(durations_file, Durations(tests=test_s, files=file_s, spread=spread))
    write_plan(plan_file, plan)
    counts = how_estimated(estimates)
    told = ", ".join(f"{counts[source]:,} {source}" for source in EstimateSource if counts[source])
    say(f"durations: {told}")
    return plan


def _within(limits: Limits, shards: int, say: Callable[[str], None]) -> Limits:
    """The limits without tests that need more cards than there are; those are planned on one, and said."""
    wide = {name: cards for name, cards in limits.cards.items() if cards > shards}
    if not wide:
        return limits
    most = max(wide.values())
    who = counted(len(wide), "test needs", "tests need")
    here = counted(shards, "card is here", "cards are here")
    say(f"{who} up to {counted(most, 'card')}, and {here}: planned on one card")
    return replace(limits, cards={name: c for name, c in limits.cards.items() if name not in wide})
