"""Collect, select, plan: from a tree of tests to shards, without a card."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ci
from ci.addresses import without_credentials
from ci.device.environment import TEST_BASE, device_environment
from ci.errors import PlanMismatchError, UsageError
from ci.progress import bar
from ci.runner import instantiation
from ci.runner.child import default_start_method
from ci.runner.collect import Collection, CollectOptions, collect, find_files
from ci.runner.collect_cache import CollectCache, collection_key
from ci.runner.installed import installed_torch
from ci.runner.source import OP_SUITE, Source, fetch, op_suite
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.catalog import Catalog, write_catalog
from test_selection.durations import Durations, estimate_files, estimate_tests, write_durations
from test_selection.pack import make_plan
from test_selection.plan import Plan, write_plan
from test_selection.scope import default_rules, load_rules
from test_selection.selection import Selection, write_selection
from test_selection.stage import make_selection, require_tests
from test_selection.suite_config import Decider, Root, Suite, for_root, load_suite, suite_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What part of the tests is wanted.

    Attributes:
        stage: the row of the roll-out, or None where a percentage was asked for by itself.
        percent: of the in-scope tests, 0 to 100.
        files: globs of test files.
        keyword: an expression of pytest's `-k`.
        ids: canonical ids; when given, these and no others.
    """

    stage: int | None
    percent: float
    files: tuple[str, ...] = ()
    keyword: str | None = None
    ids: tuple[str, ...] = ()

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
) -> Share:
    """Resolve what was asked for against the roll-out.

    Raises:
        UsageError: a stage the roll-out does not have, a percentage there cannot be, or both of them.
    """
    model = context.settings.model
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
        return Share(stage=None, percent=percent, files=globs, keyword=keyword)
    number = model.stage if stage is None else stage
    if number not in model.stages:
        known = ", ".join(f"{one} ({row.percent:g} %)" for one, row in sorted(model.stages.items()))
        where = "--stage" if stage is not None else "stage (settings)"
        raise UsageError(f"there is no stage {number}", where=where, remedy=f"the stages are {known}")
    return Share(stage=number, percent=model.stages[number].percent, files=globs, keyword=keyword)


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
) -> Selection:
    """Restrict, scope and take the share; write `selection.json` to `out`.

    Raises:
        SettingsError: the rules or the suite file cannot be taken.
    """
    settings = context.settings.model
    rules = load_rules(context.settings.resolve(settings.pytorch.rules)) if settings.pytorch.rules else None
    suites = load_suites(context, source) if source is not None else []
    selection = make_selection(
        catalog,
        rules or default_rules(),
        stage=share.stage,
        percent=share.percent,
        files=share.files,
        keyword=share.keyword,
        suite=Decider(suites) if suites else None,
        only_ids=share.ids or None,
        durations=durations,
    )
    write_selection(out, selection)
    if selection.missing:
        context.say(
            f"{len(selection.missing)} of the named tests are not there any more: {selection.missing[0]}"
            + (" …" if len(selection.missing) > 1 else "")
        )
    return selection


def refuse_nothing(selection: Selection) -> None:
    """Refuse to go on with nothing; files that could not be collected are something to report.

    Raises:
        NothingToRunError: no test was selected although a share above 0 % was asked for.
    """
    if not selection.collect_errors:
        require_tests(selection)


def plan_step(
    catalog: Catalog,
    selection: Selection,
    durations: Durations,
    *,
    shards: int,
    plan_file: Path,
    durations_file: Path | None = None,
) -> Plan:
    """Split the selection over `shards`; write the plan, and the seconds it was made with where named.

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
    test_s = estimate_tests(tests, durations)
    file_s = estimate_files(catalog, durations)
    plan = make_plan(tests, test_s=test_s, file_s=file_s, shards=shards)
    if durations_file is not None:
        write_durations(durations_file, Durations(tests=test_s, files=file_s))
    write_plan(plan_file, plan)
    return plan
