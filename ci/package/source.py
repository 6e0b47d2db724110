"""Say where a project stands in its repository: the commit, what differs from it, the release before it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ci.core.addresses import without_credentials
from ci.core.errors import EXIT_INCOMPLETE, CommandError, SpyreCiError
from ci.core.git import Part, changes, git, hidden_changes, parts
from ci.core.text import escaped, listed

_DIGITS = 12
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a project stands in its repository.

    Attributes:
        commit: its SHA; empty where there is no repository that holds the project.
        url: of the repository it was cloned from, without credentials; empty where there is none.
        dirty: files, relative to the project, that differ from the commit.
        untracked: files, relative to the project, that are neither in the commit nor ignored.
        tag: the highest release tag at or before the commit; empty where there is none.
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


class MovedError(SpyreCiError):
    """A checkout that changed, or went to another commit, while it was looked at."""

    exit_code = EXIT_INCOMPLETE


def read_source(folder: Path, tag_prefix: str = "v") -> Source:
    """Read where a folder stands; a `Source` without a commit where no repository holds it.

    Raises:
        CommandError: git did not answer.
    """
    if not in_repository(folder):
        return Source(commit="")
    held = list(parts(folder))
    if not held[0].entries and not (folder / ".git").exists():
        # The repository around it has nothing of it: its commit says nothing of these files.
        return Source(commit="")
    tag, distance = _last_release(folder, tag_prefix)
    dirty, untracked = _changes(folder, held)
    return Source(
        commit=git(folder, "rev-parse", "--verify", "HEAD^{commit}").strip(),
        url=without_credentials(_origin(folder)),
        dirty=dirty,
        untracked=untracked,
        tag=tag,
        distance=distance,
        shallow=git(folder, "rev-parse", "--is-shallow-repository").strip() == "true",
        committed_at=int(git(folder, "log", "-1", "--format=%ct", "HEAD").strip()),
    )


def in_repository(folder: Path) -> bool:
    """Whether a folder is in a checkout of Git."""
    return any((parent / ".git").exists() for parent in [folder.resolve(), *folder.resolve().parents])


def top_of(folder: Path) -> Path:
    """The top folder of the checkout that a folder is in.

    Raises:
        CommandError: it is in none.
    """
    return Path(git(folder, "rev-parse", "--show-toplevel").removesuffix("\n")).resolve()


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
    return _printable(dirty), _printable(name.removeprefix(prefix) for name in untracked)


def _printable(names: Iterable[str]) -> tuple[str, ...]:
    """Names that can be printed and written to records: bytes that are no UTF-8 stand as escapes."""
    return tuple(dict.fromkeys(os.fsencode(name).decode(errors="backslashreplace") for name in names))


def _last_release(folder: Path, prefix: str) -> tuple[str, int]:
    """The highest release tag at or before HEAD, and the commits since."""
    names = git(folder, "tag", "--merged=HEAD", "--list", f"{prefix}*").split()
    released = {Version(name.removeprefix(prefix)): name for name in names if is_release(name, prefix)}
    tag = released[max(released)] if released else ""
    since = f"refs/tags/{tag}..HEAD" if tag else "HEAD"
    return tag, int(git(folder, "rev-list", "--count", since).strip())


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


def refuse_moved(folder: Path, before: Source, now: Source, *, again: str) -> None:
    """Raise where a checkout is at another commit than before, or differs from it where it did not.

    Args:
        folder: the checkout.
        before: where it stood.
        now: where it stands.
        again: what is to be done anew.

    Raises:
        MovedError: it is not what it was.
    """
    remedy = f"{again} again, and leave it alone until the end"
    if now.commit != before.commit:
        names = [one[:_DIGITS] or "no commit" for one in (before.commit, now.commit)]
        raise MovedError(f"the checkout went from {names[0]} to {names[1]}", where=folder, remedy=remedy)
    changed = [escaped(name) for name in now.dirty if name not in before.dirty]
    if changed:
        raise MovedError(
            f"the checkout changed meanwhile: {listed(changed, _SHOWN)}", where=folder, remedy=remedy
        )


def with_settings(folder: Path, source: Source, path: Path | None) -> Source:
    """Add the settings file to a source's changes where the commit does not hold it as it is.

    Settings say what is left out of a check. Git does not tell of a file that is ignored, and in a larger
    repository it is not asked outside the project. A file from elsewhere is whoever's who named it.

    Args:
        folder: the project's.
        source: where it stands.
        path: of the settings file; None: there is none.

    Raises:
        CommandError: git did not answer.
    """
    if path is None or not source.commit:
        return source
    top, real = top_of(folder), path.resolve()
    # A link in the repository is the repository's, wherever it leads.
    places = [path.parent.resolve() / path.name, real]
    inside = [str(place.relative_to(top)) for place in places if place.is_relative_to(top)]
    if not inside:
        return source
    asked = ("status", "--porcelain", "-z", "--ignored", "--untracked-files=all", "--", *inside)
    if real.is_relative_to(top) and not git(top, *asked):
        return source
    name = os.path.relpath(top / inside[0], folder.resolve())
    return replace(source, dirty=tuple(dict.fromkeys([*source.dirty, *_printable([name])])))
