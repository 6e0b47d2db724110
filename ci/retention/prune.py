"""Pruning: look at every kind, decide, and remove what goes; a dry run ends before the last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, CommandError, SpyreCiError
from ci.core.locks import alone
from ci.core.progress import bar
from ci.core.text import escaped
from ci.report.released import Released, read_releases
from ci.retention.account import Account, Failed, line
from ci.retention.caches import BISECT, CACHES, WORKTREES, find_caches, find_worktrees, is_record
from ci.retention.decide import decide, hold
from ci.retention.disk import mount_points
from ci.retention.folders import BISECTS, REPRODUCTIONS, RUNS, Look, calls_of, find_folders, words_in
from ci.retention.images import IMAGES, find_on_engine, remove_image
from ci.retention.removing import KeptError, is_in_use, remove_file, remove_folder, remove_tree
from ci.retention.rules import KINDS, STORE, Wish, find_runs, forget, rule_of
from ci.retention.things import DAY_S, Decision, Found, Rule, Thing
from ci.retention.trash import NotRemovedError, empty, left_over
from ci.steps.context import Context

FOLDERS = (REPRODUCTIONS, BISECTS, RUNS)
LOCK = "prune.lock"
# Whoever collects has no lock, and has read what he wants of a tree by then.
READ_S = 6 * 3600.0


class PruneInUseError(SpyreCiError):
    """Another prune of the same settings is at work."""

    exit_code = EXIT_INCOMPLETE


@dataclass(slots=True, kw_only=True)
class _Work:
    """A prune under way."""

    context: Context
    wish: Wish
    look: Look
    now: float
    account: Account
    tell: Callable[[str], object]

    def rule(self, kind: str) -> Rule:
        return rule_of(self.context.settings.model, self.wish, kind)

    def decide(self, kind: str, found: Found) -> Sequence[Decision]:
        """Decide on a kind, and note it."""
        rule = self.rule(kind)
        decisions = decide(found.things, rule, now=self.now)
        self.account.rules[kind] = rule
        self.account.foreign += found.foreign
        self.account.decisions[kind] = decisions
        return decisions

    def remove(self, kind: str, remove: Callable[[Thing], object]) -> None:
        """Remove what goes of a kind, one after the other; what cannot go is noted, and the rest goes on."""
        done = []
        for one in self.account.decisions[kind]:
            if one.goes and not self.wish.dry_run:
                self.look.seen(one.thing.name)
                try:
                    remove(one.thing)
                except KeptError as kept:
                    one = replace(one, goes=False, why=str(kept), frees=0)  # noqa: PLW2901  # what it came to
                except (SpyreCiError, OSError) as error:
                    self.account.failed.append(_failed(one.thing, error))
                    one = replace(one, goes=False, why="could not be removed", frees=0)  # noqa: PLW2901
            if one.goes:
                self.tell(line(one))
            done.append(one)
        self.account.decisions[kind] = done


def _failed(thing: Thing, error: SpyreCiError | OSError) -> Failed:
    if isinstance(error, SpyreCiError):
        why = error.what + (f" ({error.remedy})" if error.remedy else "")
    else:
        why = error.strerror or str(error)
    return Failed(kind=thing.kind, path=thing.path, why=why)


def prune_step(context: Context, wish: Wish, *, tell: Callable[[str], object]) -> Account:
    """Look, decide and remove.

    Args:
        context: the outside world.
        wish: what is asked for.
        tell: is told of each thing that goes, or would.

    Raises:
        PruneInUseError: another prune is at work.
        CommandError: images are asked for by name, and no engine answers.
        SpyreCiError: a store cannot be used.
    """
    now = context.clock()
    account = Account(dry_run=wish.dry_run, at=now)
    with ExitStack() as stack:
        if not wish.dry_run:
            stack.enter_context(_alone(context.state(LOCK)))
            _finish_trash(context, account)
        released = read_releases(context.settings)
        account.decisions = {kind: () for kind in KINDS if wish.wants(kind)}
        account.broken = [(str(path), why) for path, why in released.broken]
        looking = stack.enter_context(_looking(context))
        look = Look(user=os.getuid(), mounts=mount_points(), released=released, seen=looking)
        work = _Work(context=context, wish=wish, look=look, now=now, account=account, tell=tell)
        found = _folders(work)
        _caches(work, found)
        if wish.wants(IMAGES):
            _images(work, stack, found)
        _store(work, released)
    return account


@contextmanager
def _looking(context: Context) -> Iterator[Callable[[str], None]]:
    """Progress, told of each thing that was looked at; measuring many takes long."""
    with bar(context.console, context.monotonic, "looked at", 0) as progress:
        seen = count(1)

        def advance(name: str) -> None:
            progress.expect(max(next(seen), progress.total))
            progress.advance(escaped(name))

        yield advance


def _alone(path: Path) -> AbstractContextManager[None]:
    busy = PruneInUseError("another prune is at work here", where=path, remedy="let it end, then prune again")
    return alone(path, busy)


def _finish_trash(context: Context, account: Account) -> None:
    """Delete what a prune that was cut off had moved away."""
    state = context.state()
    places = [
        context.runs,
        state / "sources",
        *sorted((state / "sources").glob("git-*/trees")),
        *sorted((state / BISECT).glob("*/")),
    ]
    for place in places:
        for trash in left_over(place):
            try:
                empty(trash)
                account.finished.append(str(trash))
            except NotRemovedError as error:
                account.failed.append(Failed(kind="trash", path=str(trash), why=str(error.what)))


def _folders(work: _Work) -> list[Decision]:
    """Decide on reproductions, bisects and runs, in this order: those that stay hold the runs they name."""
    found = find_folders(work.context.runs, work.look)
    words: set[str] = set()
    every: list[Decision] = []
    for kind in FOLDERS:
        things = found[kind].things
        if kind == RUNS:
            named = {one.name for one in things if calls_of(Path(one.path)) & words}
            things = hold(things, dict.fromkeys(named, "a reproduction or a bisect that stays names it"))
        if not work.wish.wants(kind):
            decided: Sequence[Decision] = [
                Decision(thing=one, goes=False, why="not asked for") for one in things
            ]
        else:
            decided = _unless_in_use(work, kind, replace(found[kind], things=things))
            work.remove(kind, partial(remove_folder, look=work.look, now=work.now))
            decided = work.account.decisions[kind]
        every += decided
        if kind != RUNS:
            for one in decided:
                if not one.goes:
                    words |= words_in(Path(one.thing.path))
    return every


def _unless_in_use(work: _Work, kind: str, found: Found) -> Sequence[Decision]:
    """Decide, without what somebody works in: only of what would go is it asked, as asking takes its lock."""
    things = list(found.things)
    while True:
        decided = decide(things, work.rule(kind), now=work.now)
        busy = {
            one.thing.name: "in use now" for one in decided if one.goes and is_in_use(Path(one.thing.path))
        }
        if not busy:
            return work.decide(kind, replace(found, things=things))
        things = hold(things, busy)


def _caches(work: _Work, folders: Sequence[Decision]) -> None:
    state = work.context.state()
    reading = any(
        one.thing.cut_off and one.thing.at is not None and work.now - one.thing.at < DAY_S for one in folders
    )
    for kind, find, remove in (
        (CACHES, find_caches, remove_file),
        (WORKTREES, find_worktrees, remove_tree),
    ):
        if not work.wish.wants(kind):
            continue
        found = find(state, work.look)
        names = {
            one.name: "a run that has not ended may read it" if reading else "somebody may be reading it"
            for one in found.things
            if not is_record(one) and (reading or (one.at is not None and work.now - one.at < READ_S))
        }
        work.decide(kind, replace(found, things=hold(found.things, names)))
        work.remove(kind, remove)


def _images(work: _Work, stack: ExitStack, folders: Sequence[Decision]) -> None:
    words = (word for one in folders if not one.goes for word in words_in(Path(one.thing.path)))
    try:
        found, client = find_on_engine(work.context, stack, work.look.released, words)
    except CommandError as error:
        if IMAGES in work.wish.only:
            raise
        work.account.notes.append(f"images were not looked at: {error.what}")
        del work.account.decisions[IMAGES]
        return
    work.decide(IMAGES, found)
    work.remove(IMAGES, partial(remove_image, client))


def _store(work: _Work, released: Released) -> None:
    context, wish = work.context, work.wish
    if not wish.wants(STORE):
        return
    decided = work.decide(STORE, find_runs(context, released))
    gone = [one for one in decided if one.goes]
    if not wish.dry_run:
        forget(context, [one.thing.name for one in gone])
    for one in gone:
        work.tell(line(one))
