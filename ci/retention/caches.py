"""What the state folder keeps for later runs, each entry recognized by a name that spyre-ci gives."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext, suppress
from pathlib import Path

from ci.core.locks import alone
from ci.core.shared_folders import WHOLE, lock_of
from ci.retention.disk import discard, measure
from ci.retention.rules import DAY_S, Item, KeptError

CACHES, WORKTREES = "caches", "worktrees"
_COLLECTED, _REPRODUCE = "cache/collect", "reproduce"
# Where entries lie in the state folder, and what interrupted prunes leave.
FOLDERS = ("cache/collect/*", "sources", "sources/git-*/trees", "bisect/*", _REPRODUCE)
# Folders in the state folder, what is kept in them, and of which kind it is.
_PLACES = (
    (_COLLECTED, re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}\.json\.gz"), CACHES),
    ("sources", re.compile(r"archive-[0-9a-f]{16}|\.unpacking-\w+"), CACHES),
    ("bisect", re.compile(r"[0-9a-f]{8,64}/[0-9a-f]{40,64}(\.wheel)?"), CACHES),
    (_REPRODUCE, re.compile(r"(shell|unpacked)-\w+"), CACHES),
    ("sources", re.compile(r"git-[0-9a-f]{16}/trees/[0-9a-f]{40,64}"), WORKTREES),
)


def find_caches(state: Path, *, now: float, running: bool = False) -> list[Item]:
    """Find collected tests, unpacked archives, builds of bisects, copies of checkouts, and worktrees.

    What was used within the last day is kept: runs lock neither archives nor worktrees.

    Args:
        state: the state folder.
        now: seconds since the epoch.
        running: whether a run has not ended, which may use all but collected tests.
    """
    items = []
    for place, names, kind in _PLACES:
        folder = state.resolve() / place
        for path in sorted(path for depth in ("*", "*/*", "*/*/*") for path in folder.glob(depth)):
            name = str(path.relative_to(folder))
            # A name behind a symbolic link resolves to another; a link to itself does not.
            if not names.fullmatch(name) or path.is_symlink() or os.path.realpath(path) != str(path):
                continue
            with suppress(FileNotFoundError):  # removed since it was listed
                (size, held), at = measure(path), _last_used(path)
                why = "a run that has not ended may use it" if running and place != _COLLECTED else ""
                held = held or ("used within the last day" if now - at < DAY_S else why)
                items.append(
                    Item(kind=kind, name=name, path=str(path), at=at, bytes=size, held=held, remove=_remove)
                )
    return items


def _last_used(path: Path) -> float:
    """When an entry was last used: whoever uses it touches it, or the file that marks it as complete."""
    times = [path.lstat().st_mtime]
    inside = path.rglob("*") if path.parent.name == _REPRODUCE else ()  # people edit in a shell's copy
    for mark in (path / WHOLE, _mark(path), *inside):
        with suppress(OSError):  # not there, or not to be read, which `measure` says
            times.append(mark.lstat().st_mtime)
    return max(times)


def _mark(tree: Path) -> Path:
    """The file beside a worktree that says it is complete."""
    return tree.with_name(f"{tree.name}.whole")


def _lock(path: Path) -> Path | None:
    if path.parent.name == "trees":
        return path.parent.parent / "lock"
    if path.parent.parent.name == "bisect":
        return lock_of(path.with_name(path.name.removesuffix(".wheel")))
    return None


def _remove(item: Item) -> None:
    """Remove an entry, under the lock of those who make or use it.

    Raises:
        KeptError: it is in use, or was used since it was found.
        OSError: it cannot be removed.
    """
    path = Path(item.path)
    lock = _lock(path)
    with nullcontext() if lock is None else alone(lock, KeptError("in use")):
        try:
            if path.is_symlink() or _last_used(path) != item.at:
                raise KeptError("used meanwhile")
            if held := measure(path)[1]:
                raise KeptError(held)
            # First: a worktree without its mark is made again, whatever becomes of this.
            _mark(path).unlink(missing_ok=True)
            discard(path)
        except FileNotFoundError as error:
            raise KeptError("removed meanwhile") from error
