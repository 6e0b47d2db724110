"""Collect: from a source of tests to a catalog, without a card."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import ci
from ci.core.addresses import without_credentials
from ci.core.errors import MissingInputError
from ci.core.operating_system import AUTO, start_method
from ci.core.progress import bar
from ci.core.text import counted
from ci.core.withheld import without_job_secrets
from ci.device.environment import TEST_BASE, device_environment
from ci.runner import instantiation
from ci.runner.collect import CollectCache, Collection, CollectOptions, collect, collection_key, find_files
from ci.runner.environment_info import installed_torch
from ci.runner.session import OWN_CONFTEST
from ci.runner.source import OP_SUITE, Source, fetch, op_suite
from ci.steps.context import Context
from ci.steps.folder import RunFolder, read_source
from ci.steps.share import Share
from test_selection.catalog import write_catalog
from test_selection.ids import file_of
from test_selection.suite_decide import for_root
from test_selection.suite_model import Root, Suite
from test_selection.suite_read import load_suite, suite_paths


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


def noted_source(context: Context, folder: RunFolder) -> Source | None:
    """The source a run folder noted; None where nobody did.

    Raises:
        SpyreCiError: of `resolve_source`.
    """
    noted = read_source(folder)
    return None if noted is None else resolve_source(context, noted.where)


def worker_environment(context: Context, source: Source) -> dict[str, str]:
    """The environment of every process that imports tests."""
    device = context.settings.model.device
    project = str(Path(ci.__file__).parent.parent)
    path = [one for one in context.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    if project not in path:  # else it stands where somebody wants it: behind what a bisect built of a commit
        path.insert(0, project)
    return {
        **without_job_secrets(context.environ),
        **device_environment(device.name, device.refuse_ops, device.refuse_dtypes),
        "PYTHONPATH": os.pathsep.join(path),
        "TORCH_ROOT": str(source.tests.parent),
        **({OWN_CONFTEST: "1"} if source.own_conftest else {}),
        # Plugins of the user's environment would run inside PyTorch's tests.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # Sets of text have the same order in every process, and so have the ids made from them.
        "PYTHONHASHSEED": "0",
    }


def requested_files(tests: Path, share: Share) -> list[str]:
    """The files that hold what is wanted: those of the ids where tests are named one by one.

    Raises:
        UsageError: an id is none.
        MissingInputError: there is no such file.
    """
    if not share.one_by_one:
        return find_files(tests, share.files)
    named = dict.fromkeys([*map(file_of, share.ids), *share.whole_files])
    try:
        return find_files(tests, [glob.escape(file) for file in named])
    except MissingInputError:
        pattern = next((one for one in named if glob.has_magic(one) and not (tests / one).exists()), None)
        if pattern is None:
            raise
        raise MissingInputError(
            f"there is no test file {pattern!r}",
            where=tests,
            remedy=f"give a pattern with its flag: --files {shlex.quote(pattern)}",
        ) from None


def collect_step(context: Context, source: Source, share: Share, folder: RunFolder) -> Collection:
    """Collect the wanted files and write the catalog.

    Raises:
        MissingInputError: a glob that matches no file.
        UsageError: what is named one by one is no test id.
        CommandError: the collecting process could not work.
        SettingsError: processes are to be forked where that is not safe.
    """
    settings = context.settings.model
    method = start_method(settings.run.start_method)
    files = requested_files(source.tests, share)
    environ = worker_environment(context, source)
    options = CollectOptions(
        device=settings.device.name,
        environ=environ,
        workers=settings.collect.workers or context.cores,
        timeout_s=settings.collect.file_timeout_s,
        method=method,
        may_change=settings.run.start_method == AUTO,
    )
    with bar(context.console, context.monotonic, "collecting", len(files)) as shown:
        found = collect(
            source.tests,
            files,
            version=installed_torch().version,
            options=options,
            cache=_cache(context, source, environ),
            progress=shown.advance,
        )
    write_catalog(folder.catalog, found.catalog)
    tests, errors = len(found.catalog.tests), len(found.catalog.collect_errors)
    empty = len(set(files) - {test.file for test in found.catalog.tests}) - errors
    context.detail(
        f"collected {counted(tests, 'test')} of {counted(len(files), 'file')}"
        + (f", {found.cached} of them from the cache" if found.cached else "")
        + (f"; {errors} could not be collected" if errors else "")
        + (f"; {counted(empty, 'holds', 'hold')} no test for {settings.device.name}" if empty else "")
    )
    clashing = sum(len(names) for names in found.clashes.values())
    if clashing:
        context.say(
            f"{counted(clashing, 'id names', 'ids name')} more than one test; the later ones got #2 and up"
        )
    return found


def _cache(context: Context, source: Source, environ: Mapping[str, str]) -> CollectCache | None:
    settings = context.settings.model
    if not settings.collect.cache:
        return None
    hooks = Path(instantiation.__file__)
    extra = [hooks, hooks.with_name("session.py"), TEST_BASE]
    suites = suite_files(context, is_op_suite=source.where is None)
    # Where the tree lies does not change what it holds.
    facts = {name: value for name, value in environ.items() if not name.endswith("_ROOT")}
    key = collection_key(facts, device=settings.device.name, extra=[*extra, *suites])
    root = source.tests.parent
    return CollectCache(folder=context.state("cache", "collect"), root=root, tests=source.tests, key=key)


def suite_files(context: Context, *, is_op_suite: bool) -> list[Path]:
    """The suite files for some tests: those of the settings, else the op suite's own for its tests.

    Raises:
        MissingInputError: `pytorch.suite` names nothing that is there.
    """
    named = context.settings.model.pytorch.suite
    if named is not None:
        several = named if isinstance(named, list) else [named]
        return suite_paths([context.settings.resolve(one) for one in several], Path.cwd())
    # The op suite's declared gaps are those of the device; the control has none.
    control = context.settings.model.device.name == "cpu"
    return [OP_SUITE / "suite.yaml"] if is_op_suite and not control else []


def root_of(*, is_op_suite: bool) -> Root:
    """The tree that tests are of: the op suite is the device's own."""
    return "device" if is_op_suite else "torch"


def load_suites(context: Context, *, is_op_suite: bool) -> list[Suite]:
    """The suites for some tests, as they speak of their tree.

    Raises:
        MissingInputError: `pytorch.suite` names nothing that is there.
        SettingsError: a suite file cannot be taken.
    """
    suites = [load_suite(path) for path in suite_files(context, is_op_suite=is_op_suite)]
    return for_root(suites, root_of(is_op_suite=is_op_suite))
