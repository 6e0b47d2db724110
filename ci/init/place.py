"""Where a checkout stands: its repository, its branch, where it came from; Git is asked, never told."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError, MissingInputError, UsageError
from ci.core.git import git

# owner/name of an address on GitHub, however it is spelled; what else it holds (a user, a token) stays there.
_GITHUB = re.compile(r"(?:^|[/@])github\.com[:/](?:/)?([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+?)(?:\.git)?/?$")
# A branch that goes into YAML and Groovy as it is.
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
_LEFT = ("runs/", ".spyre-ci/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a checkout stands.

    Attributes:
        folder: of it.
        is_root: whether it is that repository's own folder, where GitHub and Jenkins look.
        branch: that changes go into.
        repository: owner/name on GitHub; empty where that is not known.
        notes: what was assumed.
    """

    folder: Path
    is_root: bool
    branch: str = "main"
    repository: str = ""
    notes: tuple[str, ...] = ()


def look(folder: Path) -> Place:
    """Look where a checkout stands.

    Raises:
        MissingInputError: there is no such folder.
        UsageError: it is no folder, or one of Git's own.
    """
    if not folder.exists():
        raise MissingInputError("there is no such folder", where=folder, remedy="name a checkout")
    if not folder.is_dir():
        raise UsageError("is no folder", where=folder, remedy="name the checkout's folder")
    folder = folder.resolve()
    root = repository_of(folder)
    if root is None:
        # As `git init --bare` lays one out.
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
            raise UsageError("is a bare repository", where=folder, remedy="name a checkout of it")
        said = "this is no Git repository: its branch is assumed to be main, its GitHub repository not known"
        return Place(folder=folder, is_root=True, notes=(said,))
    if ".git" in folder.parts:
        raise UsageError("is a folder of Git's own", where=folder, remedy="name the checkout's folder")
    try:
        git(folder, "rev-parse", "--git-dir")
    except CommandError as error:
        why = error.what.splitlines()[-1].lstrip(" |")
        told = f"Git was asked in vain ({why}): the branch is assumed to be main"
        return Place(folder=folder, is_root=root == folder, notes=(told,))
    branch, notes = _branch(folder)
    # What runs leave in a checkout; whoever adds all files would add it.
    if len(_asked(folder, "check-ignore", "--no-index", *(f"{one}x" for one in _LEFT)).splitlines()) != len(
        _LEFT
    ):
        notes.append(
            f"Git does not ignore {' and '.join(_LEFT)}, which runs write here: add them to .gitignore"
        )
    return Place(
        folder=folder,
        is_root=root == folder,
        branch=branch,
        repository=github_name(_asked(folder, "config", "--get", "remote.origin.url")),
        notes=tuple(notes),
    )


def repository_of(folder: Path) -> Path | None:
    """The folder with a `.git` that a folder is in: a file in a worktree and in a submodule."""
    return next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), None)


def github_name(address: str) -> str:
    """owner/name of an address on GitHub; empty for any other; pure."""
    found = _GITHUB.search(address.strip())
    return f"{found[1]}/{found[2]}" if found else ""


def _branch(folder: Path) -> tuple[str, list[str]]:
    said = _asked(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD").removeprefix("origin/")
    if _BRANCH.fullmatch(said):
        return said, []
    for one in ("main", "master"):
        if _asked(folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{one}"):
            return one, []
    now = _asked(folder, "symbolic-ref", "--short", "HEAD")
    if _BRANCH.fullmatch(now):
        return now, [f"branch {now} is assumed to be what changes go into, as it is checked out"]
    return "main", ["branch main is assumed to be what changes go into"]


def _asked(folder: Path, *words: str) -> str:
    try:
        return git(folder, *words).strip()
    except CommandError:
        return ""
