"""Collect, select, plan: from a tree of tests to shards, without a card."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ci
from ci.addresses import without_credentials
from ci.config.model import Run
from ci.device.environment import TEST_BASE, device_environment
from ci.errors import NothingToRunError, PlanMismatchError, UsageError
from ci.progress import bar
from ci.runner import instantiation
from ci.runner.child import default_start_method
from ci.runner.collect import Collection, CollectOptions, collect, find_files
from ci.runner.collect_cache import CollectCache, collection_key
from ci.runner.installed import installed_torch
from ci.runner.source import OP_SUITE, Source, fetch, op_suite
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.ladder import InScope, Places, find_lock, lock_path, relock, tree_of
from ci.steps.scoping import DEFAULT_LANE, hold_to_lane, known_lane, scope_rules
from test_selection.catalog import Catalog, write_catalog
from test_selection.durations import (
    Durations,
    Estimate,
    estimate,
    estimate_files,
    how_estimated,
    write_durations,
)
from test_selection.durations import Source as EstimateSource
from test_selection.ladder_note import note_lines
from test_selection.limits import Limits
from test_selection.lock import FILE as LADDER_FILE
from test_selection.lock import write_lock
from test_selection.must_run import must_run_ids
from test_selection.pack import make_plan
from test_selection.places import By
from test_selection.plan import Plan, write_plan
from test_selection.rules import rules_version
from test_selection.selection import Selection, write_selection
from test_selection.stage import make_selection, require_tests
from test_selection.suite_config import Decider, Root, Suite, for_root, load_suite, suite_paths
from test_selection.timeouts import file_timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What part of the tests is wanted.

    Attributes:
        stage: the row of the roll-out, or None where a percentage was asked for by itself.
        percent: of the in-scope tests, 0 to 100.
        by: what the share is of, `count` or `seconds`.
        files: globs of test files.
        keyword: an expression of pytest's `-k`.
        ids: canonical ids; when given, these and no others.
        lane: whose limits hold for what is not named by id.
    """

    stage: int | None
    percent: float
    by: By = "count"
    files: tuple[str, ...] = ()
    keyword: str | None = None
    ids: tuple[str, ...] = ()
    lane: str = DEFAULT_LANE

    @property
    def label(self) -> str:
        """What a run of it is called."""
        return f"stage{self.stage}" if self.stage is not None else f"{self.percent:g}pct"


def share_of(
    context: Context,
    *,
    stage: int | None,
    percent: float | None,
    files: Sequence[str],
    keyword: str | None,
    ids: Sequence[str],
    lane: str | None = None,
    by: str | None = None,
) -> Share:
    """Resolve what was asked for against the roll-out.

    Raises:
        UsageError: a stage the roll-out does not have, a percentage there cannot be, both of them, or a share
            of something else than count or seconds.
    """
    model = context.settings.model
    asked = known_lane(lane) if lane is not None else None
    if by not in {None, "count", "seconds"}:
        raise UsageError(f"--by is {by!r}", remedy="give count or seconds")
    if stage is not None and percent is not None:
        raise UsageError(
            f"both --stage {stage} and --percent {percent:g} are given", remedy="give one of them"
        )
    if percent is not None and not 0 <= percent <= 100:  # noqa: PLR2004  # per cent
        raise UsageError(f"--percent is {percent:g}", remedy="give a number from 0 to 100")
    if ids:
        if stage is not None or percent is not None:
            context.say("tests that are named one by one all run, whatever --stage or --percent says")
        return Share(stage=None, percent=100, files=tuple(files), keyword=keyword, ids=tuple(ids))
    globs = tuple(files) or tuple(model.pytorch.files)
    if percent is not None:
        return Share(
            stage=None, percent=percent, by=_by(by), files=globs, keyword=keyword, lane=asked or DEFAULT_LANE
        )
    number = model.stage if stage is None else stage
    if number not in model.stages:
        known = ", ".join(f"{one} ({row.percent:g} %)" for one, row in sorted(model.stages.items()))
        where = "--stage" if stage is not None else "stage (settings)"
        raise UsageError(f"there is no stage {number}", where=where, remedy=f"the stages are {known}")
    row = model.stages[number]
    return Share(
        stage=number,
        percent=row.percent,
        by=_by(by or row.by),
        files=globs,
        keyword=keyword,
        lane=asked or row.lane,
    )


def _by(text: str | None) -> By:
    return "seconds" if text == "seconds" else "count"


def resolve_source(context: Context, where: str | None) -> Source:
    """The tests that are asked for: a PyTorch tree, or the embedded op suite.

    Raises:
        SpyreCiError: of `ci.runner.source.fetch`, or torch is not installed.
    """
    named = where if where is not None else context.settings.model.pytorch.source
    torch = installed_torch()
    if named is None:
        return op_suite(torch.git_sha or torch.version)
    if named.startswith("git+"):
        context.say(f"fetching {without_credentials(named)}")
    return fetch(named, context.state("sources"))


def worker_environment(context: Context, source: Source) -> dict[str, str]:
    """The environment of every process that imports tests."""
    device = context.settings.model.device
    project = str(Path(ci.__file__).parent.parent)
    path = [project, *filter(None, [context.environ.get("PYTHONPATH")])]
    return {
        **context.environ,
        **device_environment(device.name, device.refuse_ops, device.refuse_dtypes),
        "PYTHONPATH": os.pathsep.join(path),
        "TORCH_ROOT": str(source.tests.parent),
        # Plugins of the user's environment would run inside PyTorch's tests.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # Sets of text have the same order in every process, and so have the ids made from them.
        "PYTHONHASHSEED": "0",
    }


def collect_step(context: Context, source: Source, share: Share, folder: RunFolder) -> Collection:
    """Collect the wanted files and write the catalog.

    Raises:
        MissingInputError: a glob that matches no file.
        CommandError: the collecting process could not work.
    """
    settings = context.settings.model
    wanted = [name.partition("::")[0] for name in share.ids] if share.ids else share.files
    files = find_files(source.tests, wanted)
    environ = worker_environment(context, source)
    options = CollectOptions(
        device=settings.device.name,
        environ=environ,
        workers=settings.collect.workers or context.cores,
        threads=1,
        timeout_s=settings.collect.file_timeout_s,
        method=default_start_method(),
    )
    with bar(context.console, context.monotonic, "collecting", len(files)) as shown:
        found = collect(
            source.tests,
            files,
            version=installed_torch().version,
            options=options,
            cache=_cache(context, source, environ),
            progress=lambda file, _count: shown.advance(file),
        )
    write_catalog(folder.catalog, found.catalog)
    tests, errors = len(found.catalog.tests), len(found.catalog.collect_errors)
    empty = len(set(files) - {test.file for test in found.catalog.tests}) - errors
    context.say(
        f"collected {tests:,} tests of {len(files)} files"
        + (f", {found.cached} of them from the cache" if found.cached else "")
        + (f"; {errors} could not be collected" if errors else "")
        + (f"; {empty} hold no test for {settings.device.name}" if empty else "")
    )
    clashing = sum(len(names) for names in found.clashes.values())
    if clashing:
        context.say(f"{clashing} ids name more than one test; the later ones got #2 and up")
    return found


def _cache(context: Context, source: Source, environ: Mapping[str, str]) -> CollectCache | None:
    settings = context.settings.model
    if not settings.collect.cache:
        return None
    hooks = Path(instantiation.__file__)
    extra = [hooks, hooks.with_name("session.py"), hooks.with_name("collecting.py"), TEST_BASE]
    suites = suite_files(context, source.where)
    # Where the tree lies does not change what it holds.
    facts = {name: value for name, value in environ.items() if not name.endswith("_ROOT")}
    key = collection_key(facts, device=settings.device.name, extra=[*extra, *suites])
    root = source.tests.parent
    return CollectCache(folder=context.state("cache", "collect"), root=root, tests=source.tests, key=key)


def suite_files(context: Context, where: str | None) -> list[Path]:
    """The suite files for the tests of `where`: those of the settings, else the op suite's own.

    Raises:
        MissingInputError: `pytorch.suite` names nothing that is there.
    """
    named = context.settings.model.pytorch.suite
    if named is not None:
        several = named if isinstance(named, list) else [named]
        return suite_paths([context.settings.resolve(one) for one in several], Path.cwd())
    # The op suite's declared gaps are those of the device; the control has none.
    control = context.settings.model.device.name == "cpu"
    return [OP_SUITE / "suite.yaml"] if where is None and not control else []


def root_of(where: str | None) -> Root:
    """The tree a source stands for: the device's own tests where nobody named one."""
    return "device" if where is None else "torch"


def load_suites(context: Context, source: Source) -> list[Suite]:
    """The suites of a source, as they speak of its tree.

    Raises:
        MissingInputError: `pytorch.suite` names nothing that is there.
        SettingsError: a suite file cannot be taken.
    """
    suites = [load_suite(path) for path in suite_files(context, source.where)]
    return for_root(suites, root_of(source.where))


def select_step(
    context: Context,
    catalog: Catalog,
    share: Share,
    *,
    out: Path,
    source: Source | None,
    durations: Durations,
    relocking: bool = False,
) -> Selection:
    """Restrict, scope and take the share; write `selection.json` to `out`.

    Args:
        context: the outside world.
        catalog: every collected test.
        share: what part of them is wanted.
        out: the file to write; a lock that is made for this run goes beside it.
        source: where the tests come from, where that is known.
        durations: what earlier runs took.
        relocking: whether the lock is written anew first.

    Raises:
        SettingsError: the rules or the suite file cannot be taken.
        BadFileError: the lock cannot be read.
        UsageError: a relock of a part of the tests.
    """
    what = in_scope(context, catalog, source, durations)
    places: Places | None = None
    if relocking:
        refuse_part(share, context.settings.model.pytorch.files)
        places = relock(context, what)
    elif share.percent > 0 and not share.ids:
        places = find_lock(context, what)
        beside = out.with_name(LADDER_FILE)
        # A lock made for one run never becomes the kept one unasked.
        if places.fresh and beside.resolve() != lock_path(context):
            write_lock(beside, places.lock)
    selection = choose(context, what, share, source=source, places=places)
    if not share.ids:  # what is named one by one runs, whatever the lane
        seconds = lane_seconds(places, durations)
        selection = hold_to_lane(
            context, selection, catalog, lane=share.lane, seconds=seconds, rules=what.rules
        )
    write_selection(out, selection)
    if selection.missing:
        context.say(
            f"{len(selection.missing)} of the named tests are not there any more: {selection.missing[0]}"
            + (" …" if len(selection.missing) > 1 else "")
        )
    return selection


def lane_seconds(places: Places | None, durations: Durations) -> Mapping[str, float]:
    """What each test takes, for the lanes: as the lock has it, so that it stays, else as measured."""
    if places is None or places.fresh:
        return durations.tests
    lock = places.lock
    kept = {test.id: seconds for test, seconds in zip(lock.ladder.tests, lock.seconds, strict=True)}
    return {**durations.tests, **kept}


def in_scope(context: Context, catalog: Catalog, source: Source | None, durations: Durations) -> InScope:
    """A catalog with the scope of the settings.

    Raises:
        SettingsError: the rules cannot be taken.
    """
    rules = scope_rules(context)
    return InScope(
        catalog=catalog,
        rules=rules,
        tree=tree_of(source, catalog),
        durations=durations,
        must_run=must_run_ids(catalog.tests, rules.must_run),
        scope_version=rules_version(rules),
    )


def choose(
    context: Context, what: InScope, share: Share, *, source: Source | None, places: Places | None
) -> Selection:
    """Take a share on the places of a lock; writes nothing.

    Raises:
        SettingsError: the suite file cannot be taken.
    """
    suites = load_suites(context, source) if source is not None else []
    selection = make_selection(
        what.catalog,
        what.rules,
        stage=share.stage,
        percent=share.percent,
        by=share.by,
        files=share.files,
        keyword=share.keyword,
        suite=Decider(suites) if suites else None,
        only_ids=share.ids or None,
        durations=what.durations,
        lock=None if places is None else places.lock,
        lock_source="" if places is None else places.source,
        must_run=what.must_run,
        scope_version=what.scope_version,
    )
    if selection.ladder is None or places is None:
        return selection
    note = replace(selection.ladder, remarks=places.remarks + selection.ladder.remarks)
    return replace(selection, ladder=note)


def selected_lines(selection: Selection) -> list[str]:
    """What was selected, for people: by count, by seconds, and how the ladder comes to it."""
    seconds = ""
    if selection.in_scope_s and selection.selected_s is not None:
        seconds = f", {selection.selected_s / selection.in_scope_s:.1%} of the seconds".replace("%", " %")
    count = f"selected {len(selection.ids):,} of {selection.in_scope:,} in-scope tests"
    lines = [f"{count} ({selection.percent:g} %{seconds})"]
    return lines + (note_lines(selection.ladder) if selection.ladder else [])


def refuse_part(share: Share, files: Sequence[str]) -> None:
    """Refuse to lock a part of the tests: the lock gives every test in scope its place.

    Args:
        share: what was asked for.
        files: globs of the settings; what they leave out is not part of this checkout's tests.

    Raises:
        UsageError: --files, -k or --id was given.
    """
    flags = {"--files": share.files != tuple(files), "-k": share.keyword is not None, "--id": bool(share.ids)}
    if given := [flag for flag, is_given in flags.items() if is_given]:
        raise UsageError(
            f"--relock is given with {', '.join(given)}, which leaves tests out",
            remedy="relock all tests in scope, then select a part of them",
        )


def refuse_nothing(selection: Selection) -> None:
    """Refuse to go on with nothing; files that could not be collected are something to report.

    Raises:
        NothingToRunError: no test was selected although a share above 0 % was asked for.
    """
    if selection.collect_errors:
        return
    if selection.moved and not selection.ids:
        moved = ", ".join(f"{len(ids):,} to {bucket}" for bucket, ids in selection.moved.items())
        raise NothingToRunError(
            f"nothing to run in lane {selection.lane}: every selected test moves ({moved})",
            remedy="name a later lane with --lane, or raise its limits (lanes in the settings)",
        )
    require_tests(selection)


def plan_step(
    catalog: Catalog,
    selection: Selection,
    durations: Durations,
    *,
    shards: int,
    plan_file: Path,
    durations_file: Path | None = None,
    run: Run | None = None,
    say: Callable[[str], None] | None = None,
) -> Plan:
    """Split the selection over `shards`; write the plan, and the seconds it was made with where named.

    Args:
        catalog: every test there is.
        selection: those to plan.
        durations: what was measured.
        shards: how many workers there are.
        plan_file: the plan to write.
        durations_file: the estimates to write.
        run: settings that say how time-outs follow from the estimates; None plans without time-outs.
        say: told in one line where the estimates come from.

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
    timeouts = {} if run is None else _timeouts(estimates, run)
    limits = Limits(timeouts=timeouts)
    plan = make_plan(tests, test_s=test_s, file_s=file_s, shards=shards, limits=limits)
    if durations_file is not None:
        write_durations(durations_file, Durations(tests=test_s, files=file_s))
    write_plan(plan_file, plan)
    if say is not None:
        counts = how_estimated(estimates)
        told = ", ".join(f"{counts[source]:,} {source}" for source in EstimateSource if counts[source])
        say(f"estimates: {told}")
    return plan


def _timeouts(estimates: Mapping[str, Estimate], run: Run) -> dict[str, float]:
    return file_timeouts(
        estimates, factor=run.timeout_factor, floor_s=run.timeout_floor_s, ceiling_s=run.test_timeout_s
    )
