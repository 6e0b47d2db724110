"""A clean copy of a project's sources: what is committed or changed, and nothing else that lies around."""

from __future__ import annotations

import os
import shutil
import stat
import tomllib
from collections.abc import Iterable
from pathlib import Path

from ci.core.errors import BadFileError, CommandError, MissingInputError
from ci.core.git import SUBMODULE, git, parts
from ci.package.project import PYPROJECT, Project
from ci.package.source import MovedError, refuse_other

# Of a checkout without Git; packages of their own may have the names of those that only the top leaves out.
_LEFT_OUT = {".git", ".hg", "__pycache__", ".nox", ".venv", ".spyre-ci"}
_LEFT_OUT_AT_TOP = {"build", "dist"}
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
# So that the copy's commit is the same for the same files.
_NOBODY = {"NAME": "spyre-ci", "EMAIL": "spyre-ci@localhost"}


def export(project: Project, into: Path) -> Path:
    """Copy the project's files, with what is changed in the checkout, into a folder of its own.

    The copy is a repository of one commit, because build back ends ask Git which files belong to an sdist.
    Of a clean checkout it holds what the commit holds and nothing else, whatever became of it meanwhile.

    Args:
        project: the checkout.
        into: the folder; what an earlier export left there goes.

    Raises:
        BadFileError: a link leads out of the project, a file is none, or Git converts one.
        MissingInputError: a submodule was not fetched.
        MovedError: the checkout changed since it was read.
        CommandError: git did not answer, or what was left there cannot be removed.
    """
    empty(into)
    files = _tracked(project.folder) if project.source.commit else _all(project.folder)
    for name in files:
        _copy(project.folder, into, name)
    _refuse_leading_out(project.folder, into, files)
    set_times(into, project.source.committed_at)
    if project.source.commit and not project.source.dirty:
        refuse_other(project.folder, project.source, into, files)
        _refuse_read_otherwise(project, into)
    _commit(into, project.source.committed_at)
    return into


def set_times(tree: Path, seconds: int) -> None:
    """Give every file one time and the rights Git knows, so that archives of the tree are the same."""
    for folder, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = Path(folder, name)
            if not path.is_symlink():
                runs = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if runs else 0o644)
            os.utime(path, (seconds, seconds), follow_symlinks=False)


def empty(folder: Path) -> None:
    """Make a folder one with nothing in it.

    Raises:
        CommandError: what is there cannot be removed.
    """
    try:
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as error:
        raise CommandError(
            f"what an earlier build left here cannot be removed: {error}",
            where=folder,
            remedy="delete the folder; it may be another user's",
        ) from error


def _tracked(folder: Path) -> list[str]:
    """Files of the commit that are still there, those of submodules and new ones that were added too."""
    found: list[str] = []
    held = list(parts(folder))
    fetched = {part.below for part in held}
    for part in held:
        for entry in part.entries:
            name = f"{part.below}{entry.name}"
            if entry.mode != SUBMODULE or not (folder / name).is_dir():
                found.append(name)
            elif f"{name}/" not in fetched:
                raise MissingInputError(
                    f"submodule {name!r} was not fetched, and nothing of it would be packaged",
                    where=folder,
                    remedy="fetch it: git submodule update --init --recursive (actions/checkout: "
                    "submodules: recursive)",
                )
    return sorted(name for name in dict.fromkeys(found) if os.path.lexists(folder / name))


def _all(folder: Path) -> list[str]:
    found = []
    for top, folders, files in os.walk(folder):
        left_out = _LEFT_OUT | (_LEFT_OUT_AT_TOP if Path(top) == folder else set())
        folders[:] = sorted(name for name in folders if name not in left_out)
        links = [name for name in folders if Path(top, name).is_symlink()]
        # A file `.git` is a submodule's.
        named = [*links, *(name for name in files if name != ".git")]
        found += [str(Path(top, name).relative_to(folder)) for name in named]
    return sorted(found)


def _copy(folder: Path, into: Path, name: str) -> None:
    source, target = folder / name, into / name
    if not Path(os.path.realpath(source)).is_relative_to(folder):
        raise _leads_out(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        mode = source.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise BadFileError(
                f"is no file any more but a {_KINDS.get(stat.S_IFMT(mode), 'device')}",
                where=source,
                remedy=f"put the file back: git checkout -- {ascii(name)[1:-1]}",
            )
        shutil.copy2(source, target, follow_symlinks=False)
    except OSError as error:
        raise BadFileError(f"cannot be copied: {error}", where=source, remedy="check its rights") from error


def _refuse_leading_out(folder: Path, into: Path, names: Iterable[str]) -> None:
    """Raise where a link of the copy leads out of it, as an absolute one into the checkout does."""
    root = into.resolve()
    for name in names:
        if (into / name).is_symlink() and not Path(os.path.realpath(into / name)).is_relative_to(root):
            raise _leads_out(folder / name)


def _leads_out(link: Path) -> BadFileError:
    what = f"is a link that leads out of the project: {link.readlink()}" if link.is_symlink() else None
    return BadFileError(
        what or "is reached through a link that leads out of the project",
        where=link,
        remedy="put the file itself there, or make it a link that is relative and stays in the project",
    )


def _refuse_read_otherwise(project: Project, tree: Path) -> None:
    """Raise where what was read of pyproject.toml is not what was copied."""
    if tomllib.loads((tree / PYPROJECT).read_text(encoding="utf-8")) != project.pyproject:
        raise MovedError(
            "changed after it was read",
            where=project.folder / PYPROJECT,
            remedy="begin again, and leave the checkout alone until the end",
        )


def _commit(tree: Path, seconds: int) -> None:
    # Without the sign, Git takes small numbers for something else than seconds.
    moment = f"@{seconds} +0000"
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in _NOBODY.items()}
    env |= {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment, "GIT_CONFIG_GLOBAL": os.devnull}
    steps: Iterable[list[str]] = (
        ["init", "--quiet"],
        ["add", "--all", "--force", "--", "."],
        ["commit", "--quiet", "--no-verify", "--allow-empty", "--message", "sources"],
    )
    for words in steps:
        git(tree, "-c", "core.autocrlf=false", "-c", "commit.gpgsign=false", *words, environ=env)
