"""A checkout: where it stands, as Git says, and its files, read as text within bounds and never run."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError, MissingInputError, UsageError
from ci.core.git import git

# A back end has some hundreds of files; a tree of PyTorch beside it would have tens of thousands.
MOST_FILES = 4000
MOST_FOLDERS = 20_000
MOST_BYTES = 1 << 20
MOST_IN_ALL = 64 << 20
_PYTHON, _CXX = {".py"}, {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"}
_NOT_ITS_OWN = {
    "build", "dist", "node_modules", "site-packages", "third_party", "runs", "venv", "__pycache__",
    "tests", "test",
}  # fmt: skip
_METADATA = ("pyproject.toml", "setup.cfg", "setup.py")
# owner/name of an address on GitHub, however it is spelled; what else it holds (a user, a token) stays there.
_GITHUB = re.compile(r"(?:^|[/@])github\.com[:/](?:/)?([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+?)(?:\.git)?/?$")
# A branch that goes into YAML and Groovy as it is.
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
_LEFT = ("runs/", ".spyre-ci/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What of a checkout is looked at.

    Attributes:
        metadata: pyproject.toml and its kin by name, those that are there.
        python: Python sources by path.
        cxx: C and C++ sources by path.
        partly: whether there are more files than are looked at.
    """

    metadata: dict[str, str]
    python: dict[str, str]
    cxx: dict[str, str]
    partly: bool = False


def read_sources(folder: Path, *, show: Callable[[int], None] = lambda _: None) -> Sources:
    """Read what says which back end a checkout is; links are not followed, tests not looked at.

    Args:
        folder: of the checkout.
        show: is told how many files were looked at, now and then.

    Raises:
        OSError: the folder cannot be listed.
    """
    os.listdir(folder)  # noqa: PTH208  # os.walk would say nothing of one that cannot be listed
    sources = Sources(metadata={}, python={}, cxx={})
    for name in _METADATA:
        if (text := read_text(folder / name)) is not None:
            sources.metadata[name] = text
    signs = 0
    for count, path in enumerate(_files(folder)):
        if path is None or count == MOST_FILES or signs > MOST_IN_ALL:
            return Sources(metadata=sources.metadata, python=sources.python, cxx=sources.cxx, partly=True)
        if count % 100 == 0:
            show(count)
        if (text := read_text(folder / path)) is not None:
            signs += len(text)
            (sources.python if Path(path).suffix in _PYTHON else sources.cxx)[path] = text
    return sources


def read_text(path: Path) -> str | None:
    """A plain file's text, whatever its bytes; None where there is no such file, or one that is too large.

    A named pipe is not opened, which would wait for whoever writes into it.
    """
    try:
        seen = path.lstat()
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_BYTES:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def _files(folder: Path) -> Iterator[str | None]:
    """Sources by their paths; None where there are too many folders to look at."""
    for count, (here, folders, names) in enumerate(os.walk(folder)):
        if count == MOST_FOLDERS:
            yield None
            return
        # A folder with a pyvenv.cfg is an environment, whatever it is called.
        folders[:] = sorted(
            one
            for one in folders
            if one not in _NOT_ITS_OWN
            and not one.startswith(".")
            and not os.path.lexists(os.path.join(here, one, "pyvenv.cfg"))  # noqa: PTH118  # of os.walk
        )
        for name in sorted(names):
            if Path(name).suffix in _PYTHON | _CXX:
                yield Path(here, name).relative_to(folder).as_posix()


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
