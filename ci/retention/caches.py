"""What the state folder holds so that the next run is faster: collections, unpacked archives, trees of Git.

All of it can be made again. Each is known by the name that only we give; what has another name is not ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ci.core.shared_folders import WHOLE
from ci.retention.disk import measure
from ci.retention.folders import Look
from ci.retention.things import Foreign, Found, Thing
from ci.retention.trash import PREFIX

CACHES, WORKTREES = "caches", "worktrees"
# Where bisects keep what they built of commits.
BISECT = "bisect"
_BUCKET, _RECORD = re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{64}\.json\.gz")
_ARCHIVE, _STAGING = re.compile(r"archive-[0-9a-f]{16}"), re.compile(r"\.unpacking-[A-Za-z0-9_]+")
_STORE, _COMMIT = re.compile(r"git-[0-9a-f]{16}"), re.compile(r"[0-9a-f]{40,64}")
_BUILD, _BUILDING = re.compile(r"[0-9a-f]{8,64}"), re.compile(r"[0-9a-f]{40,64}\.wheel")
# What builds that failed said, and what searches lock.
_BESIDE = re.compile(r"build-[0-9a-f]{12}\.log|[0-9a-f]{40,64}\.lock")
_REPRODUCED = re.compile(r"(?:shell|unpacked)-[A-Za-z0-9_]+")
_WHOLE = ".whole"

# Where something of a cache is, and what each folder on the way there is called, and it itself.
_PLACES = (
    (("cache", "collect"), (_BUCKET, _RECORD)),
    (("sources",), (re.compile(f"{_ARCHIVE.pattern}|{_STAGING.pattern}"),)),
    ((BISECT,), (_BUILD, re.compile(f"{_COMMIT.pattern}|{_BUILDING.pattern}"))),
    (("reproduce",), (_REPRODUCED,)),
)


def find_caches(state: Path, look: Look) -> Found:
    """Collected files, unpacked archives, what bisects built of commits, and checkouts that shells had."""
    things: list[Thing] = []
    foreign: list[Foreign] = []
    for place, patterns in _PLACES:
        for path in _below(state.joinpath(*place), patterns, foreign):
            name = path.name if len(patterns) == 1 else f"{path.parent.name}/{path.name}"
            things += _thing(path, CACHES, name, look, last_used(path))
    return Found(things=things, foreign=foreign)


def _below(folder: Path, patterns: Sequence[re.Pattern[str]], foreign: list[Foreign]) -> Iterator[Path]:
    """What has the names that are given there, folder by folder; the rest is foreign."""
    first, *rest = patterns
    for path in _entries(folder):
        if _STORE.fullmatch(path.name) or (BISECT in folder.parts[-2:] and _BESIDE.fullmatch(path.name)):
            continue  # a clone, whose trees are a kind of their own, and what lies beside builds
        if not first.fullmatch(path.name) or path.is_symlink():
            foreign.append(_foreign(CACHES, path))
        elif rest:
            yield from _below(path, rest, foreign)
        else:
            yield path


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
                things += _thing(path, WORKTREES, name, look, tree_last_used(path))
            elif not path.name.endswith(_WHOLE):
                foreign.append(_foreign(WORKTREES, path))
    return Found(things=things, foreign=foreign)


def is_record(thing: Thing) -> bool:
    """Whether it is a kept collection: a run reads it at once, and needs no longer that it is there."""
    return _RECORD.fullmatch(Path(thing.path).name) is not None


def last_used(path: Path) -> float:
    """When something of a cache was last used; what a bisect built is dated by its mark."""
    return max(_time(path), _time(path / WHOLE))


def tree_last_used(tree: Path) -> float:
    """When a checked out commit was last used: it is dated by its mark."""
    return max(_time(tree), _time(mark_of(tree)))


def build_of(path: Path) -> Path | None:
    """What a bisect built of a commit, of that or of the wheel being built for it; None: it is neither."""
    if path.parent.parent.name != BISECT or not path.parent.parent.is_dir():
        return None
    return path.with_name(path.name.removesuffix(".wheel"))


def mark_of(tree: Path) -> Path:
    """The file beside a tree that says it is whole, and by its time when it was last used."""
    return tree.with_name(f"{tree.name}{_WHOLE}")


def lock_of(tree: Path) -> Path:
    """What whoever works on a tree's repository has the lock of."""
    return tree.parent.parent / "lock"


def _thing(path: Path, kind: str, name: str, look: Look, at: float) -> Iterator[Thing]:
    with suppress(FileNotFoundError):  # gone since it was listed
        if path.is_symlink():
            return
        measured = measure(path, user=look.user, mounts=look.mounts)
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
    with suppress(FileNotFoundError, NotADirectoryError):
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
