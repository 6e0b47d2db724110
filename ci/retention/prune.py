"""Pruning: find the items of each kind, decide on them, remove what goes, and say what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from ci.config.model import SettingsModel
from ci.core.container_engine import engine
from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, CommandError, SpyreCiError
from ci.core.locks import alone
from ci.core.text import escaped, iso_utc, size
from ci.report.released import read_releases
from ci.retention.caches import CACHES, FOLDERS, WORKTREES, find_caches
from ci.retention.disk import delete, find_trash
from ci.retention.folders import BISECTS, REPRODUCTIONS, RUNS, find_folders
from ci.retention.images import IMAGES, find_images
from ci.retention.rules import GIB, Decision, Item, KeptError, Rule, decide_all, is_young
from ci.retention.stored_runs import STORE, find_stored_runs, forget
from ci.steps.context import Context
from test_selection.files import schema_name

KINDS = (RUNS, REPRODUCTIONS, BISECTS, CACHES, WORKTREES, IMAGES, STORE)
ENGINE_TIMEOUT_S = 120
LOCK = "prune.lock"


class PruneInUseError(SpyreCiError):
    """Another prune of the same state folder is running."""

    exit_code = EXIT_INCOMPLETE


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a prune did, or would do.

    Attributes:
        dry_run: whether nothing was removed.
        at: when, in seconds since the epoch.
        kinds: the rule of each kind, and what was decided of its items.
        foreign: paths in `runs` that are not of spyre-ci.
        failed: kind, path and why of what could not be removed.
        broken: path and why of releases that cannot be read.
        notes: sentences for people.
        finished: what an interrupted prune left, and this one deletes.
    """

    dry_run: bool
    at: float
    kinds: dict[str, tuple[Rule, list[Decision]]] = field(default_factory=dict)
    foreign: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    broken: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """3 if something could not be removed or a release cannot be read, else 0."""
        return EXIT_INCOMPLETE if self.failed or self.broken else EXIT_OK

    def as_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        rows = [(one.goes, _row(one)) for _, ones in self.kinds.values() for one in ones]
        return {
            "schema": schema_name("prune"),
            "dry_run": self.dry_run,
            "at": iso_utc(self.at),
            "exit_code": self.exit_code,
            "kinds": {kind: _counts(*of_kind) for kind, of_kind in self.kinds.items()},
            "removed": [row for goes, row in rows if goes],
            "kept": [row for goes, row in rows if not goes],
            "foreign": self.foreign,
            "failed": self.failed,
            "broken_releases": self.broken,
            "notes": self.notes,
            "finished": self.finished,
        }

    def lines(self) -> Iterator[str]:
        """A summary for people."""
        removed = "would be removed" if self.dry_run else "removed"
        for kind, (rule, ones) in self.kinds.items():
            count = _counts(rule, ones)
            freed = f" ({size(count['freed'])})" if count["removed"] else ""
            kept = count["found"] - count["removed"]
            yield f"{kind}: {count['removed']:,} {removed}{freed}, {kept:,} kept"
            for why, number in Counter(one.why for one in ones if not one.goes).most_common():
                yield escaped(f"  {number:,} kept: {why}")
        for title, rows in (
            ("left alone", self.foreign),
            ("not removed", self.failed),
            ("release that cannot be read, so nothing that it may name is removed", self.broken),
        ):
            yield from (escaped(f"{title}: {row['path']}: {row['why']}") for row in rows)
        deleted = "would delete" if self.dry_run else "deleted"
        yield from (escaped(f"{deleted} what an interrupted prune left: {path}") for path in self.finished)
        yield from map(escaped, self.notes)


def _counts(rule: Rule, decisions: list[Decision]) -> dict[str, Any]:
    gone = [one.item.bytes for one in decisions if one.goes]
    return {
        "keep_days": rule.keep_days,
        "keep_bytes": None if rule.keep_gib is None else rule.keep_gib * GIB,
        "keep_last": rule.keep_last,
        "found": len(decisions),
        "bytes": sum(one.item.bytes for one in decisions),
        "removed": len(gone),
        "freed": sum(gone),
    }


def _row(decision: Decision) -> dict[str, Any]:
    item = decision.item
    row = {name: getattr(item, name) for name in ("kind", "name", "path", "bytes")}
    row["at"] = None if item.at is None else iso_utc(item.at)
    return row | {"frees": item.bytes if decision.goes else 0, "why": decision.why}


def prune(
    context: Context,
    *,
    only: Collection[str],
    keep: Mapping[str, float | None],
    dry_run: bool,
    say: Callable[[str], object],
) -> Outcome:
    """Find, decide and remove; a dry run removes nothing.

    Args:
        context: the outside world.
        only: kinds; none: all.
        keep: fields of a rule, before those of the settings; None: not given.
        dry_run: whether nothing is removed.
        say: takes a line for each item that goes.

    Raises:
        PruneInUseError: another prune is running.
        CommandError: images are asked for by name, and there is no container engine.
        SpyreCiError: the store of results cannot be used.
    """
    outcome = Outcome(dry_run=dry_run, at=context.clock())
    with ExitStack() as stack:
        if not dry_run:
            lock = context.state(LOCK)
            busy = PruneInUseError("another prune is running", where=lock, remedy="wait until it ends")
            stack.enter_context(alone(lock, busy))
        _delete_trash(context, outcome)
        items = _find(context, only, outcome, stack)
        rules = {
            # Results are kept longer than caches: flags are for them only where they are named.
            kind: _rule(context.settings.model, kind, keep if kind != STORE or kind in only else {})
            for kind in KINDS
            if not only or kind in only
        }
        for kind, decisions in decide_all(items, rules, now=outcome.at).items():
            if kind == STORE and not dry_run:
                decisions = forget(context, decisions, found_at=outcome.at)  # noqa: PLW2901  # what became of them
            outcome.kinds[kind] = rules[kind], [_carry_out(one, outcome, say) for one in decisions]
    return outcome


def _rule(model: SettingsModel, kind: str, given: Mapping[str, float | None]) -> Rule:
    keep = {"keep_days": model.store.keep_days} | getattr(model.retention, kind).model_dump()
    return Rule(**keep | {name: value for name, value in given.items() if value is not None})


def _delete_trash(context: Context, outcome: Outcome) -> None:
    """Delete what an interrupted prune had renamed."""
    state = context.state()
    for trash in find_trash([context.runs, *(path for folder in FOLDERS for path in state.glob(folder))]):
        try:
            if not outcome.dry_run:
                delete(trash)
            outcome.finished.append(str(trash))
        except (KeptError, OSError) as error:
            outcome.failed.append({"kind": "trash", "path": str(trash), "why": _reason(error)})


def _find(context: Context, only: Collection[str], outcome: Outcome, stack: ExitStack) -> list[Item]:
    """Find the items of every kind; the container engine stays open as long as the stack."""
    released = read_releases(context.settings)
    outcome.broken = [{"path": str(path), "why": why} for path, why in released.broken]
    items, foreign = find_folders(context.runs, released, now=outcome.at)
    outcome.foreign = [{"kind": RUNS, "path": str(path), "why": why} for path, why in foreign.items()]
    running = any(one.unfinished and (is_young(one, outcome.at) or one.in_use(one)) for one in items)
    items += find_caches(context.state(), now=outcome.at, running=running)
    if not only or IMAGES in only:
        try:
            with ExitStack() as opened:
                client = opened.enter_context(engine(context.environ, timeout_s=ENGINE_TIMEOUT_S))
                items += find_images(client, released)
                stack.push(opened.pop_all())
        except CommandError as error:
            if only:
                raise
            outcome.notes.append(f"images were left out: {error.what}")
    if not only or STORE in only:
        items += find_stored_runs(context, released)
    return items


def _carry_out(decision: Decision, outcome: Outcome, say: Callable[[str], object]) -> Decision:
    """Remove an item that goes; return what became of it."""
    item = decision.item
    try:
        if decision.goes and not outcome.dry_run:
            item.remove(item)
    except KeptError as kept:
        return replace(decision, goes=False, why=kept.what)
    except (SpyreCiError, OSError) as error:
        outcome.failed.append({"kind": item.kind, "path": item.path, "why": _reason(error)})
        return replace(decision, goes=False, why="could not be removed")
    if decision.goes:
        say(escaped(f"{item.kind}: {item.name}: {decision.why}, {size(item.bytes)}"))
    return decision


def _reason(error: SpyreCiError | OSError) -> str:
    if isinstance(error, SpyreCiError):
        return error.what
    return f"{error.strerror or error} (check the permissions of its folder, then prune again)"
