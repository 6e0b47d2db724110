"""A clean copy of a project's sources: what is committed or changed, and nothing else that lies around."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from ci.errors import BadFileError
from ci.package.project import Project
from ci.process import run_command

_GIT_TIMEOUT_S = 600
# Of a checkout without Git.
_LEFT_OUT = {".git", ".hg", "__pycache__", ".nox", ".venv", "build", "dist", ".spyre-ci"}
# So that the copy's commit is the same for the same files.
_NOBODY = {"NAME": "spyre-ci", "EMAIL": "spyre-ci@localhost"}


def export(project: Project, into: Path) -> Path:
    """Copy the project's files, with what is changed in the checkout, into a folder of its own.

    The copy is a repository of one commit, because build back ends ask Git which files belong to an sdist.

    Args:
        project: the checkout.
        into: a folder that is not there yet.

    Raises:
        BadFileError: a link leads out of the project.
        CommandError: git did not answer.
    """
    files = _tracked(project.folder) if project.source.commit else _all(project.folder)
    for name in files:
        _copy(project.folder, into, name)
    set_times(into, project.source.committed_at)
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


def _tracked(folder: Path) -> list[str]:
    """Files of the commit that are still there, those of submodules and new ones that were added too."""
    listed = run_command(
        ["git", "-C", folder, "ls-files", "-z", "--cached", "--recurse-submodules", "--", "."],
        timeout_s=_GIT_TIMEOUT_S,
    )
    names = dict.fromkeys(name for name in listed.split("\0") if name)
    return sorted(name for name in names if os.path.lexists(folder / name))


def _all(folder: Path) -> list[str]:
    found = []
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        found += [str(Path(top, name).relative_to(folder)) for name in files]
    return sorted(found)


def _copy(folder: Path, into: Path, name: str) -> None:
    source, target = folder / name, into / name
    if source.is_dir() and not source.is_symlink():
        return  # a submodule that was not fetched
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink() and not source.resolve().is_relative_to(folder):
        raise BadFileError(
            f"is a link that leads out of the project: {source.readlink()}",
            where=source,
            remedy="put the file itself there",
        )
    shutil.copy2(source, target, follow_symlinks=False)


def _commit(tree: Path, seconds: int) -> None:
    moment = f"{seconds} +0000"
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in _NOBODY.items()}
    env |= {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment, "GIT_CONFIG_GLOBAL": os.devnull}
    steps: Iterable[list[str]] = (
        ["init", "--quiet"],
        ["add", "--all", "--force", "--", "."],
        ["commit", "--quiet", "--no-verify", "--allow-empty", "--message", "sources"],
    )
    for words in steps:
        run_command(
            ["git", "-C", tree, "-c", "core.autocrlf=false", "-c", "commit.gpgsign=false", *words],
            timeout_s=_GIT_TIMEOUT_S,
            env=env,
        )
