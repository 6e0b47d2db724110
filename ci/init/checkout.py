"""Where a checkout stands, as Git says: its branch, its repository on GitHub, what Git ignores."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError, MissingInputError, UsageError
from ci.core.git import git
from test_selection.files import read_bounded

# owner/name of an address on GitHub; a user or a token in it stays there.
_GITHUB = re.compile(r"(?:^|[/@])github\.com[:/]/?([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+?)(?:\.git)?/?$")
# A branch that can stand in YAML as it is.
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
WORKFLOW = ".github/workflows/spyre-ci.yml"
# The branch of a workflow that is there, as its template writes it.
_KEPT = re.compile(rf"^    branches: \[([\"']?)({_BRANCH.pattern})\1\] *\r?$", re.MULTILINE)
_WRITTEN_BY_RUNS = ("runs/", ".spyre-ci/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a checkout stands.

    Attributes:
        folder: of it.
        is_root: whether it is the repository's own folder, where GitHub and Jenkins look.
        branch: that changes go into.
        repository: owner/name on GitHub; empty where that is unknown.
        notes: what was assumed; a sentence each.
    """

    folder: Path
    is_root: bool = True
    branch: str = "main"
    repository: str = ""
    notes: tuple[str, ...] = ()


def find_place(folder: Path) -> Place:
    """Ask Git where a folder stands.

    Raises:
        MissingInputError: there is no such folder.
        UsageError: it is a file, a bare repository or a folder of Git's own.
    """
    if not folder.is_dir():
        error = UsageError if folder.exists() else MissingInputError
        raise error("is not a folder", where=folder, remedy="name the folder of a checkout")
    folder = folder.resolve()
    root = next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), None)
    bare = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
    if bare or ".git" in folder.parts:
        raise UsageError("belongs to Git itself", where=folder, remedy="name the folder of a checkout")
    kept = _kept_branch(folder)
    branch, assumed = kept or "main", "" if kept else ": branch main is assumed"
    if root is None:
        return Place(folder=folder, branch=branch, notes=(f"not a Git repository{assumed}",))
    try:
        git(folder, "rev-parse", "--git-dir")
    except CommandError as error:
        why = error.what.splitlines()[-1].lstrip(" |")
        note = f"Git cannot read this repository ({why}){assumed}"
        return Place(folder=folder, is_root=root == folder, branch=branch, notes=(note,))
    branch, notes = _branch(folder, kept)
    # `git add --all` would add what runs write.
    if len(_answer(folder, "check-ignore", *(f"{one}x" for one in _WRITTEN_BY_RUNS)).splitlines()) < 2:  # noqa: PLR2004
        notes.append(f"runs write {' and '.join(_WRITTEN_BY_RUNS)} here: add both to .gitignore")
    return Place(
        folder=folder,
        is_root=root == folder,
        branch=branch,
        repository=github_name(_answer(folder, "config", "--get", "remote.origin.url")),
        notes=tuple(notes),
    )


def github_name(address: str) -> str:
    """owner/name of an address on GitHub; empty for any other."""
    found = _GITHUB.search(address.strip())
    return f"{found[1]}/{found[2]}" if found else ""


def _kept_branch(folder: Path) -> str:
    """The branch that the workflow which is there names, as a checkout of CI knows no other; else empty."""
    try:
        found = _KEPT.search(read_bounded(folder / WORKFLOW).decode("utf-8", "replace"))
    except OSError:
        return ""
    return found[2] if found else ""


def _branch(folder: Path, kept: str) -> tuple[str, list[str]]:
    head = _answer(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD").removeprefix("origin/")
    if kept:
        differs = f"{WORKFLOW} names the branch {kept}, and origin's is {head}"
        return kept, [differs] if head not in {"", kept} else []
    if _BRANCH.fullmatch(head):
        return head, []
    for one in ("main", "master"):
        if _answer(folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{one}"):
            return one, []
    current = _answer(folder, "symbolic-ref", "--short", "HEAD")
    branch = current if _BRANCH.fullmatch(current) else "main"
    return branch, [f"branch {branch} is assumed to be the one that changes go into"]


def _answer(folder: Path, *words: str) -> str:
    """What Git prints; empty where it fails, as for a name that does not exist."""
    try:
        return git(folder, *words).strip()
    except CommandError:
        return ""
