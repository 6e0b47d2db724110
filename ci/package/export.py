"""Copy a checkout's files to where a back end, tests or linters may do as they like."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError
from ci.core.git import git
from ci.core.text import escaped
from ci.package.project import Project, in_repository, read_source, refuse_moved

# Of a folder that no repository holds; packages may have the names of those that only the top leaves out.
_LEFT_OUT = {".git", ".hg", "__pycache__", ".nox", ".venv", ".spyre-ci"}
_LEFT_OUT_AT_TOP = {"build", "dist"}
# So that the copy's commit is the same for the same files.
_NOBODY = {"NAME": "spyre-ci", "EMAIL": "spyre-ci@localhost"}


def export(project: Project, into: Path) -> Path:
    """Copy the project's files, with what is changed in the checkout, into a folder of its own.

    Args:
        project: the checkout.
        into: the folder; what an earlier export left there goes.

    Raises:
        BadFileError: a link leads out of the project, or a file is none.
        MissingInputError: a submodule was not fetched.
        MovedError: the checkout changed since it was read.
        CommandError: git did not answer.
    """
    source = project.source
    if source.commit:
        names = listed_files(project.folder, "--cached", "--recurse-submodules")
    else:
        names = _walked(project.folder)
    copy_files(project.folder, names, into)
    for name in names:
        if not Path(os.path.realpath(into / name)).is_relative_to(into.resolve()):
            raise BadFileError(
                "is a symbolic link to a place outside the project",
                where=project.folder / name,
                remedy="replace it by the file, or by a relative link within the project",
            )
    if source.commit:
        refuse_moved(project.folder, source, read_source(project.folder))
    commit_copy(into, source.committed_at)
    return into


def listed_files(folder: Path, *which: str) -> list[str]:
    """The files below a folder that Git lists and that are still there, by name.

    Raises:
        CommandError: git did not answer.
    """
    names = git(folder, "ls-files", "-z", *which, "--", ".").split("\0")
    return sorted(name for name in set(filter(None, names)) if os.path.lexists(folder / name))


def checkout_files(folder: Path) -> list[str]:
    """The files a checkout is of: tracked and new ones without submodules; all but leftovers without Git."""
    if in_repository(folder):
        names = listed_files(folder, "--cached", "--others", "--exclude-standard")
        if found := [name for name in names if (folder / name).is_symlink() or not (folder / name).is_dir()]:
            return found
    return _walked(folder)


def _walked(folder: Path) -> list[str]:
    below = (one.relative_to(folder) for one in folder.rglob("*") if one.is_symlink() or not one.is_dir())
    kept = (one for one in below if _LEFT_OUT.isdisjoint(one.parts))
    return sorted(str(one) for one in kept if one.parts[0] not in _LEFT_OUT_AT_TOP)


def copy_files(folder: Path, names: Sequence[str], into: Path) -> None:
    """Copy files into an emptied folder, links as links, with the rights that Git knows.

    Raises:
        BadFileError: one is neither a file nor a link, or cannot be read.
        MissingInputError: one is a submodule that was not fetched.
    """
    if into.exists():
        shutil.rmtree(into)
    into.mkdir(parents=True)
    for name in names:
        source, target = folder / name, into / name
        if source.is_dir() and not source.is_symlink():
            raise MissingInputError(
                f"submodule {name!r} was not fetched, so its files would be missing in the package",
                where=folder,
                remedy="git submodule update --init --recursive (actions/checkout: submodules: recursive)",
            )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}:
                raise  # which is no fault of the file's
            remedy = f"check its permissions, or restore it: git checkout -- {escaped(name)}"
            raise BadFileError(f"cannot be copied: {error}", where=source, remedy=remedy) from error
        mode = target.lstat().st_mode
        if stat.S_ISREG(mode):
            target.chmod(0o755 if mode & 0o100 else 0o644)


def commit_copy(tree: Path, seconds: int) -> None:
    """Make a copy a repository of one commit: back ends and linters ask Git which files there are.

    Args:
        tree: the copy.
        seconds: since the epoch; of the commit.
    """
    # Without the sign, Git takes small numbers for something else than seconds.
    moment = f"@{seconds} +0000"
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in _NOBODY.items()}
    env |= {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment, "GIT_CONFIG_GLOBAL": os.devnull}
    for words in (
        ["init", "--quiet"],
        ["add", "--all", "--force", "--", "."],
        ["commit", "--quiet", "--no-verify", "--allow-empty", "--message", "sources"],
    ):
        git(tree, "-c", "core.autocrlf=false", "-c", "commit.gpgsign=false", *words, environ=env)
