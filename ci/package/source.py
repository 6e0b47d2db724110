"""Where a project stands in its repository: the commit, what differs from it, and the release before it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ci.core.addresses import without_credentials
from ci.core.errors import CommandError
from ci.core.git import Part, changes, git, hidden_changes, parts

# As many releases as git weighs against each other; its own 10 may leave out the nearest.
_CANDIDATES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a project stands in its repository.

    Attributes:
        commit: its SHA; empty where there is no repository that holds the project.
        url: of the repository it was cloned from, without credentials; empty where there is none.
        dirty: files, relative to the project, that differ from the commit.
        untracked: files, relative to the project, that are neither in the commit nor ignored.
        tag: the release tag nearest before the commit; empty where there is none.
        distance: commits since the tag, or since the first where there is none.
        shallow: whether the clone lacks history, so that tag and distance may be wrong.
        committed_at: seconds since the epoch.
    """

    commit: str
    url: str = ""
    dirty: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    tag: str = ""
    distance: int = 0
    shallow: bool = False
    committed_at: int = 0

    def as_json(self) -> dict[str, Any]:
        """As records name it."""
        return {"commit": self.commit, "url": self.url, "dirty": list(self.dirty)}


def read_source(folder: Path, tag_prefix: str = "v") -> Source:
    """Where a folder stands in its repository; a `Source` without a commit where no repository holds it.

    Raises:
        CommandError: git did not answer.
    """
    if not any((parent / ".git").exists() for parent in [folder.resolve(), *folder.resolve().parents]):
        return Source(commit="")
    held = list(parts(folder))
    if not held[0].entries and not (folder / ".git").exists():
        # The repository around it has nothing of it: its commit says nothing of these files.
        return Source(commit="")
    commit = git(folder, "rev-parse", "--verify", "HEAD^{commit}").strip()
    tag, distance = _nearest(folder, tag_prefix)
    dirty, untracked = _changes(folder, held)
    return Source(
        commit=commit,
        url=without_credentials(_origin(folder)),
        dirty=dirty,
        untracked=untracked,
        tag=tag,
        distance=distance,
        shallow=git(folder, "rev-parse", "--is-shallow-repository").strip() == "true",
        committed_at=int(git(folder, "log", "-1", "--format=%ct", "HEAD").strip()),
    )


def _changes(folder: Path, held: Sequence[Part]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    status = git(
        folder, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames",
        "--ignore-submodules=none", "--", ".",
    )  # fmt: skip
    changed, untracked = changes(status)
    # Git names them from the top of the repository.
    prefix = git(folder, "rev-parse", "--show-prefix").removesuffix("\n")
    hidden = [f"{part.below}{name}" for part in held for name in hidden_changes(part)]
    dirty = [*(name.removeprefix(prefix) for name in changed), *hidden]
    return _shown(dirty), _shown(name.removeprefix(prefix) for name in untracked)


def _shown(names: Iterable[str]) -> tuple[str, ...]:
    """Names that can be printed and written to records: bytes that are no UTF-8 stand as escapes."""
    return tuple(dict.fromkeys(os.fsencode(name).decode(errors="backslashreplace") for name in names))


def _nearest(folder: Path, prefix: str) -> tuple[str, int]:
    """The release tag nearest before HEAD, the highest of a commit's, and the commits since."""
    known = _releases(folder, prefix, "--merged=HEAD")
    if not known:
        return "", int(git(folder, "rev-list", "--count", "HEAD").strip())
    wanted = [f"--match={tag}" for tag in known.values()]
    said = git(folder, "describe", "--tags", "--long", f"--candidates={_CANDIDATES}", *wanted, "HEAD").strip()
    name = said.rsplit("-", 2)[0]
    tag = known.get(name, name)
    beside = set(_releases(folder, prefix, f"--points-at={tag}^{{commit}}").values()) | {tag}
    best = max(beside, key=lambda one: (Version(one.removeprefix(prefix)), one))
    # What describe counts goes by dates, and is too high where commits have the same.
    return best, int(git(folder, "rev-list", "--count", f"refs/tags/{best}..HEAD").strip())


def _releases(folder: Path, prefix: str, which: str) -> dict[str, str]:
    """Tags that are versions, by their names, and by those they were given first (describe says these)."""
    shown = "--format=%(refname:strip=2) %(tag)"
    found: dict[str, str] = {}
    for line in git(folder, "for-each-ref", which, shown, f"refs/tags/{prefix}*").splitlines():
        name, _, first = line.partition(" ")
        if is_release(name, prefix):
            found |= {first: name} if first and first not in found else {}
            found[name] = name
    return found


def is_release(tag: str, prefix: str) -> bool:
    """Whether a tag is the prefix and a version (PEP 440); pure."""
    text = tag.removeprefix(prefix)
    if not tag.startswith(prefix) or not text[:1].isdecimal():
        return False
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _origin(folder: Path) -> str:
    try:
        return git(folder, "remote", "get-url", "origin").strip()
    except CommandError:
        return ""
