"""Select: from a catalog to the tests of a stage, by the selection order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ci.core.errors import NothingToRunError, UsageError
from ci.core.text import counted, listed
from ci.runner.source import Source
from ci.steps.change_order import ChangeRequest, change_lines, order_by_change
from ci.steps.collect import load_suites
from ci.steps.context import Context
from ci.steps.selection_lock import UsedLock, find_lock, lock_path, relock, tree_of
from ci.steps.share import Share
from test_selection.capabilities import declared
from test_selection.catalog import Catalog
from test_selection.durations import Durations
from test_selection.lock import FILE as LADDER_FILE
from test_selection.lock import OP_SUITE, write_lock
from test_selection.rules import Rules, default_rules, load_rules, must_run_ids, rules_version
from test_selection.selection import Selection, note_lines, tier_note_lines, write_selection
from test_selection.stage import InScope, make_selection, require_tests
from test_selection.suite_decide import Decider
from test_selection.tiers import Tier, split_by_tier


def scope_rules(context: Context) -> Rules:
    """The rules of the settings, or the shipped ones, where the device declares what the settings say.

    Raises:
        SettingsError: the rules file cannot be taken.
    """
    settings = context.settings.model
    named = settings.pytorch.rules
    rules = load_rules(context.settings.resolve(named)) if named is not None else default_rules()
    return rules.for_device(declared(settings.device.ops, settings.device.dtypes))


def tier_limits(context: Context) -> dict[str, Tier]:
    """What each tier allows, from the most frequent one to the most patient."""
    tiers = context.settings.model.tiers
    return {name: Tier(**getattr(tiers, name).model_dump()) for name in type(tiers).model_fields}


def select_step(
    context: Context,
    catalog: Catalog,
    share: Share,
    *,
    out: Path,
    source: Source | None,
    durations: Durations,
    relocking: bool = False,
    change: ChangeRequest | None = None,
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
        change: the change that orders the tests, and the budget that they are cut to.

    Raises:
        SettingsError: the rules or the suite file cannot be taken.
        BadFileError: the lock cannot be read.
        UsageError: a relock of a part of the tests.
    """
    what = in_scope(context, catalog, source, durations)
    used: UsedLock | None = None
    if relocking:
        refuse_part(share, context.settings.model.pytorch.files)
        used = relock(context, what)
    elif share.percent > 0 and not share.one_by_one:
        used = find_lock(context, what)
        beside = out.with_name(LADDER_FILE)
        # A lock made for one run never becomes the kept one unasked.
        if used.fresh and beside.resolve() != lock_path(context):
            write_lock(beside, used.lock)
    selection = choose(context, what, share, used=used)
    if not share.one_by_one:  # what is named one by one runs, whatever the tier
        seconds = tier_seconds(used, durations)
        selection = hold_to_tier(
            context, selection, catalog, tier=share.tier, seconds=seconds, rules=what.rules
        )
    if change is not None and change.given:
        selection = order_by_change(context, selection, catalog, change, source=source, durations=durations)
    write_selection(out, selection)
    if selection.missing:
        gone = counted(len(selection.missing), "of the named tests is", "of the named tests are")
        context.say(f"{gone} not in the catalog any more: {listed(selection.missing, 1)}")
    return selection


def tier_seconds(used: UsedLock | None, durations: Durations) -> Mapping[str, float]:
    """What each test takes, for the tiers: as the lock has it, so that it stays, else as measured."""
    if used is None or used.fresh:
        return durations.tests
    lock = used.lock
    kept = {test.id: seconds for test, seconds in zip(lock.order.tests, lock.seconds, strict=True)}
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


def choose(context: Context, what: InScope, share: Share, *, used: UsedLock | None) -> Selection:
    """Take a share on the places of a lock; writes nothing.

    Raises:
        SettingsError: the suite file cannot be taken.
    """
    suites = load_suites(context, is_op_suite=what.tree == OP_SUITE)
    ids = named_tests(what.catalog, share.ids) if share.one_by_one else None
    selection = make_selection(
        what,
        stage=share.stage,
        percent=share.percent,
        by=share.by,
        files=share.files,
        keyword=share.keyword,
        suite=Decider(suites) if suites else None,
        only_ids=ids,
        whole_files=share.whole_files,
        lock=None if used is None else used.lock,
        lock_source="" if used is None else used.source,
    )
    if selection.ladder is None or used is None:
        return selection
    note = replace(selection.ladder, remarks=used.remarks + selection.ladder.remarks)
    return replace(selection, ladder=note)


def named_tests(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """The ids that names stand for: an id, pytest's own name for it, or what either begins with.

    `file::Class` is all tests of a class and `file::test` all that were made of a template, as pytest takes
    them. A name that stands for nothing is given back.
    """
    known = {test.id for test in catalog.tests}
    wanted = {name for name in names if name not in known}
    found: dict[str, list[str]] = {name: [] for name in names}
    for test in catalog.tests if wanted else ():
        for name in wanted.intersection([*parents(test.id), *parents(test.node)]):
            found[name].append(test.id)
    return list(dict.fromkeys(one for name, ids in found.items() for one in ids or [name]))


def parents(name: str) -> list[str]:
    """A name without its parameters, and its class; and the name itself."""
    base = name.partition("[")[0]
    parts = base.split("::")
    return [name, base, *("::".join(parts[:length]) for length in range(2, len(parts)))]


def refuse_unmatched(share: Share, selection: Selection, among: int) -> None:
    """Refuse an expression that no test matches, as the reason why nothing would run.

    Args:
        share: what was asked for.
        selection: what came of it.
        among: how many tests there are.

    Raises:
        NothingToRunError: -k matches none of them.
    """
    if share.keyword and among and not selection.in_scope and not selection.out_of_scope:
        raise NothingToRunError(
            f"-k {share.keyword!r} matches none of {counted(among, 'test')}",
            remedy="see the names with `spyre-ci pytorch --dry-run`, or leave -k out",
        )


def selected_lines(selection: Selection, *, ladder: bool = True) -> list[str]:
    """What was selected, for people: by count, by seconds, and how the selection order comes to it.

    Args:
        selection: of the tests in scope.
        ladder: tell all of the order, and not only what the user should know or do.
    """
    seconds = ""
    if selection.in_scope_s and selection.selected_s is not None:
        seconds = f", {selection.selected_s / selection.in_scope_s:.1%} of the seconds".replace("%", " %")
    count = f"selected {selection.selected:,} of {counted(selection.in_scope, 'in-scope test')}"
    lines = [f"{count} ({selection.percent:g} %{seconds})", *tier_note_lines(selection.tier_note)]
    if selection.change is not None:
        lines += change_lines(selection.change, len(selection.ids) + selection.change.left_out)
    if selection.ladder is None:
        return lines
    return [*lines, *(note_lines(selection.ladder) if ladder else selection.ladder.remarks)]


def refuse_part(share: Share, files: Sequence[str]) -> None:
    """Refuse to lock a part of the tests: the lock gives every test in scope its place.

    Args:
        share: what was asked for.
        files: globs of the settings; what they leave out is not part of this checkout's tests.

    Raises:
        UsageError: --files, -k or names of tests were given.
    """
    flags = {
        "--files": share.files != tuple(files),
        "-k": share.keyword is not None,
        "names of tests": share.one_by_one,
    }
    if given := [flag for flag, is_given in flags.items() if is_given]:
        raise UsageError(
            f"--relock is given with {', '.join(given)}, which leaves tests out",
            remedy="relock all tests in scope, then select some of them",
        )


def refuse_nothing(selection: Selection) -> None:
    """Refuse to go on with nothing; files that could not be collected are something to report.

    Raises:
        NothingToRunError: no test was selected although a share above 0 % was asked for.
    """
    if not selection.collect_errors:
        require_tests(selection)


def hold_to_tier(
    context: Context,
    selection: Selection,
    catalog: Catalog,
    *,
    tier: str,
    seconds: Mapping[str, float],
    rules: Rules,
) -> Selection:
    """The selection without what the tier does not allow, which is listed by where it runs, and said."""
    chosen = set(selection.ids)
    tests = [test for test in catalog.tests if test.id in chosen]
    split = split_by_tier(tests, seconds, rules.tiers, tier_limits(context), tier)
    for later, ids in split.moved.items():
        example, reason = next(iter(ids.items()))
        moving = counted(len(ids), "test moves", "tests move")
        context.say(f"{moving} to the {later} tier, such as {example} ({reason})")
    if split.beyond:
        example, reason = next(iter(split.beyond.items()))
        are = counted(len(split.beyond), "test is", "tests are")
        context.say(f"{are} beyond every tier, such as {example} ({reason})")
    moved = {name for ids in split.moved.values() for name in ids}
    return replace(
        selection,
        bucket=tier,
        ids=[name for name in selection.ids if name not in moved],
        moved=split.moved,
        beyond=split.beyond,
        expectations={name: one for name, one in selection.expectations.items() if name not in moved},
    )
