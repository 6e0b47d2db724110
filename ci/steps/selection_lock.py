"""Which lock gives the ranks: the one beside the settings, one made for this run, or one made anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.report.history import failure_shares
from ci.runner.source import OP_SUITE as OP_SUITE_TESTS
from ci.runner.source import Source
from ci.steps.context import Context
from test_selection.catalog import Catalog, CatalogTest
from test_selection.difference import Side, compare, few
from test_selection.lock import OP_SUITE, PYTORCH, Lock, members, mismatch, read_lock, write_lock
from test_selection.scope import file_in_scope
from test_selection.stage import InScope


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedLock:
    """The lock that is used, what it is called, whether nobody keeps it, and what there is to say of it."""

    lock: Lock
    source: str
    fresh: bool = False
    remarks: tuple[str, ...] = ()


def tree_of(source: Source | None, catalog: Catalog) -> str:
    """Which tests a catalog is of; where nobody noted the source, its files tell."""
    if source is not None:
        return OP_SUITE if source.where is None else PYTORCH
    return OP_SUITE if all((OP_SUITE_TESTS / name).is_file() for name in catalog.files) else PYTORCH


def find_lock(context: Context, what: InScope) -> UsedLock:
    """The kept lock where it is of these tests; else a fresh one.

    Raises:
        BadFileError: the kept lock cannot be read.
    """
    path = lock_path(context)
    remarks: tuple[str, ...] = ()
    if path.exists():
        lock = read_lock(path)
        why = mismatch(lock, torch=what.catalog.pytorch, device=what.catalog.device, tree=what.tree)
        if not why:
            return UsedLock(lock=lock, source=path.name)
        remarks = (f"{path.name} is not used: it was made for {why}",)
    reason = "the lock file is for other tests" if remarks else f"there is no {path.name}"
    source = f"made for this run, because {reason}"
    return UsedLock(lock=what.lock(), source=source, fresh=True, remarks=remarks)


def relock(context: Context, what: InScope) -> UsedLock:
    """Write the kept lock anew, and say who moves in and out of each stage of the roll-out."""
    path = lock_path(context)
    lock = what.lock(_history(context, what.catalog.device))
    before = None
    if path.exists():
        unread = "the previous lock cannot be read, so moves are unknown"
        before = context.attempt(unread, lambda: read_lock(path))
    write_lock(path, lock)
    context.say(f"relocked {len(lock.order.tests):,} tests: {path}")
    device, rules = what.catalog.device, what.rules
    if missing := sum(file_in_scope(file, device, rules) for file in what.catalog.collect_errors):
        context.say(f"files in scope that could not be collected, whose tests have no rank: {missing}")
    if before is not None:
        if why := mismatch(before, torch=what.catalog.pytorch, device=device, tree=what.tree):
            context.say(f"the previous lock was made for {why}")
        context.say(_ranks_changed(before, lock))
        for line in _moves(context, what, before, lock):
            context.say(line)
    return UsedLock(lock=lock, source=f"{path.name}, just relocked")


def lock_path(context: Context) -> Path:
    """Where the lock is kept."""
    return context.settings.resolve(context.settings.model.pytorch.selection_lock)


def _ranks_changed(before: Lock, after: Lock) -> str:
    """Who gets a rank and who loses it: a catalog of some files alone costs all others theirs."""
    old, new = ({test.id for test in lock.order.tests} for lock in (before, after))
    if old == new:
        return "ranks: unchanged"
    return f"ranks: {_told({'added': sorted(new - old), 'removed': sorted(old - new)})}"


def _told(changes: Mapping[str, Sequence[str]]) -> str:
    """What becomes of ids, by what they do: how many, and a few of them."""
    return "; ".join(f"{len(ids):,} {what} ({few(ids)})" for what, ids in changes.items() if ids)


def stage_members(
    context: Context, lock: Lock, tests: Sequence[CatalogTest], must_run: Collection[str] = ()
) -> dict[str, list[str]]:
    """The ids that each stage of the roll-out has of some tests, by what it is called."""
    return {
        f"stage {number} ({row.percent:g} % by {row.by})": [
            test.id for test in members(tests, lock, percent=row.percent, by=row.by, must_run=must_run)
        ]
        for number, row in sorted(context.settings.model.stages.items())
        if row.percent
    }


def _moves(context: Context, what: InScope, before: Lock, after: Lock) -> Iterator[str]:
    """A line a stage that changes; tests count that are in scope now."""
    tests = after.order.tests
    known = [test.id for test in tests]
    old, new = (
        Side(name="", known=known, selected=stage_members(context, lock, tests, what.must_run))
        for lock in (before, after)
    )
    for moves in compare(old, new).moves:
        told = _told({"move in": moves.moved_in, "move out": moves.moved_out})
        yield f"{moves.share}: {told or 'no test moves'}"


def _history(context: Context, device: str) -> dict[str, float]:
    history = context.history
    if not history.there:
        return {}
    unread = "history: cannot be read, so ties are broken by seconds and hash"
    return context.attempt(unread, lambda: failure_shares(history, device=device)) or {}
