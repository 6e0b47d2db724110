"""What the state folder holds so that the next run is faster: collections, unpacked archives, trees of Git.

All of it can be made again. Each is known by the name that only we give; what has another name is not ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ci.retention.disk import measure
from ci.retention.folders import Look
from ci.retention.things import Foreign, Found, Thing
from ci.retention.trash import PREFIX

CACHES, WORKTREES = "caches", "worktrees"
_BUCKET, _RECORD = re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{64}\.json\.gz")
_ARCHIVE, _STAGING = re.compile(r"archive-[0-9a-f]{16}"), re.compile(r"\.unpacking-[A-Za-z0-9_]+")
_STORE, _COMMIT = re.compile(r"git-[0-9a-f]{16}"), re.compile(r"[0-9a-f]{40,64}")
_WHOLE = ".whole"


def find_caches(state: Path, look: Look) -> Found:
    """Collected files and unpacked archives."""
    things: list[Thing] = []
    foreign: list[Foreign] = []
    for folder in _real_folders(state / "cache" / "collect"):
        if not _BUCKET.fullmatch(folder.name):
            foreign.append(_foreign(CACHES, folder))
            continue
        for path in _entries(folder):
            if _RECORD.fullmatch(path.name):
                things += _thing(path, CACHES, path.name.partition(".")[0], look)
            else:
                foreign.append(_foreign(CACHES, path))
    for path in _entries(state / "sources"):
        if _ARCHIVE.fullmatch(path.name) or _STAGING.fullmatch(path.name):
            things += _thing(path, CACHES, path.name, look)
        elif not _STORE.fullmatch(path.name):
            foreign.append(_foreign(CACHES, path))
    return Found(things=things, foreign=foreign)


def find_worktrees(state: Path, look: Look) -> Found:
    """Checked out commits of PyTorch, each a worktree of a repository of ours, dated by its mark."""
    things: list[Thing] = []
    foreign: list[Foreign] = []
    for store in _real_folders(state / "sources"):
        if not _STORE.fullmatch(store.name):
            continue
        for path in _entries(store / "trees"):
            if _COMMIT.fullmatch(path.name):
                name = f"{store.name}/{path.name}"
                things += _thing(path, WORKTREES, name, look, dated=mark_of(path))
            elif not path.name.endswith(_WHOLE):
                foreign.append(_foreign(WORKTREES, path))
    return Found(things=things, foreign=foreign)


def mark_of(tree: Path) -> Path:
    """The file beside a tree that says it is whole, and by its time when it was last used."""
    return tree.with_name(f"{tree.name}{_WHOLE}")


def lock_of(tree: Path) -> Path:
    """What whoever works on a tree's repository has the lock of."""
    return tree.parent.parent / "lock"


def _thing(path: Path, kind: str, name: str, look: Look, *, dated: Path | None = None) -> Iterator[Thing]:
    with suppress(FileNotFoundError):  # gone since it was listed
        if path.is_symlink():
            return
        measured = measure(path, user=look.user, mounts=look.mounts)
        at = max(_time(path), _time(dated) if dated is not None else 0.0)
        look.seen(name)
        yield Thing(
            kind=kind,
            name=name,
            path=str(path),
            at=at,
            own=measured.own,
            shared=measured.shared,
            held=measured.held,
        )


def _time(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.lstat().st_mtime
    return 0.0


def _entries(folder: Path) -> list[Path]:
    if folder.is_symlink():
        return []
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(PREFIX))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _real_folders(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_dir() and not path.is_symlink()]


def _foreign(kind: str, path: Path) -> Foreign:
    why = "is a link, and none is followed" if path.is_symlink() else "has no name that we give"
    return Foreign(kind=kind, path=str(path), why=why)
