"""The scope as the settings have it: the rules, bound to what the device declares, and what buckets allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ci.core.errors import UsageError
from ci.core.text import counted
from ci.runner.collect import find_files
from ci.runner.source import fetch
from ci.steps.context import Context
from ci.steps.folder import CATALOG_FILE, RunFolder, find_run
from ci.steps.past_durations import past_durations
from test_selection.buckets import BUCKETS, Bucket, Destination, destination, split_by_bucket
from test_selection.capabilities import declared
from test_selection.catalog import Catalog, read_catalog
from test_selection.explain import Explanation
from test_selection.rules import Rules, default_rules, load_rules
from test_selection.selection import Selection

DEFAULT_BUCKET = "nightly"


def scope_rules(context: Context) -> Rules:
    """The rules of the settings, or the shipped ones, where the device declares what the settings say.

    Raises:
        SettingsError: the rules file cannot be taken.
    """
    settings = context.settings.model
    named = settings.pytorch.rules
    rules = load_rules(context.settings.resolve(named)) if named is not None else default_rules()
    return rules.for_device(declared(settings.device.ops, settings.device.dtypes))


def bucket_limits(context: Context) -> dict[str, Bucket]:
    """What each bucket allows, from the most frequent one to the most patient."""
    buckets = context.settings.model.buckets
    return {name: Bucket(**getattr(buckets, name).model_dump()) for name in type(buckets).model_fields}


def known_bucket(name: str) -> str:
    """A bucket's name, unchanged.

    Raises:
        UsageError: there is no such bucket.
    """
    if name not in BUCKETS:
        raise UsageError(
            f"there is no bucket {name!r}", where="--bucket", remedy=f"known: {', '.join(BUCKETS)}"
        )
    return name


def buckets_of(context: Context, told: Explanation, device: str, rules: Rules) -> dict[str, Destination]:
    """Where each bucket has an explained test run, by what earlier runs of it took."""
    seconds = past_durations(context, device).tests.get(told.test.id, 0.0)
    mask = sum(1 << index for index in told.buckets)
    limits = bucket_limits(context)
    return {name: destination(mask, seconds, rules.buckets, limits, name) for name in limits}


def scope_catalog(context: Context, run_dir: Path | None, catalog: Path | None) -> Catalog:
    """The catalog that is named, by itself or by its run; else the latest run's.

    Raises:
        MissingInputError: there is none.
    """
    if catalog is not None:
        return read_catalog(catalog)
    if run_dir is not None:
        return read_catalog(RunFolder(path=run_dir.resolve()).catalog)
    runs = context.runs
    folder = find_run(runs, "latest", holding=CATALOG_FILE)
    context.say(f"catalog: {folder.catalog}")
    return read_catalog(folder.catalog)


def tree_files(context: Context, where: str) -> list[str]:
    """Every test file of a PyTorch tree, relative to its tests' folder.

    Raises:
        SpyreCiError: the tree cannot be had.
    """
    return find_files(fetch(where, context.state("sources")).tests, ())


def hold_to_bucket(
    context: Context,
    selection: Selection,
    catalog: Catalog,
    *,
    bucket: str,
    seconds: Mapping[str, float],
    rules: Rules,
) -> Selection:
    """The selection without what the bucket does not allow, which is listed by where it runs, and said."""
    chosen = set(selection.ids)
    tests = [test for test in catalog.tests if test.id in chosen]
    split = split_by_bucket(tests, seconds, rules.buckets, bucket_limits(context), bucket)
    for later, ids in split.moved.items():
        example, reason = next(iter(ids.items()))
        moving = counted(len(ids), "test moves", "tests move")
        context.say(f"{moving} to the {later} bucket, such as {example} ({reason})")
    if split.beyond:
        example, reason = next(iter(split.beyond.items()))
        are = counted(len(split.beyond), "test is", "tests are")
        context.say(f"{are} beyond every bucket, such as {example} ({reason})")
    moved = {name for ids in split.moved.values() for name in ids}
    return replace(
        selection,
        bucket=bucket,
        ids=[name for name in selection.ids if name not in moved],
        moved=split.moved,
        beyond=split.beyond,
        expectations={name: one for name, one in selection.expectations.items() if name not in moved},
    )
