"""Components' files as a build takes them, and the hash that names those of a folder of this machine.

What Git ignores stays out, and what `.dockerignore` at its top leaves out, as in every build of a container.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from docker.utils import exclude_paths

from ci.core.errors import CommandError, MissingInputError
from ci.core.git import git

TIMEOUT_S = 60
_LIST = ("ls-files", "--cached", "--others", "--exclude-standard")
IGNORE = ".dockerignore"
PREFIX = "tree:"


def put_checkout(folder: Path, target: Path, *, environ: Mapping[str, str]) -> str:
    """Copy what is built of a folder; returns the name of just these files, `tree:` and a hash.

    Args:
        folder: of a checkout, or any other.
        target: is made; must not be there.
        environ: git's.

    Raises:
        MissingInputError: there is no such folder.
        CommandError: git fails, or a link leads out of the folder.
    """
    if not folder.is_dir():
        raise MissingInputError(
            "there is no such folder", where=folder, remedy="name a checkout of the component"
        )
    kept = _kept(folder, IGNORE)
    # Git lists what is deleted and not committed, too.
    return _copy(folder, target, [name for name in _names(folder, environ) if name in kept])


def put_folder(folder: Path, target: Path, *, containerfile: str) -> str:
    """Copy what a builder takes of a folder, all but what its `.dockerignore` leaves out; returns its name.

    Args:
        folder: has the Containerfile.
        target: is made; must not be there.
        containerfile: its name in the folder; is taken in any case.

    Raises:
        CommandError: a link leads out of the folder.
    """
    return _copy(folder, target, sorted(_kept(folder, containerfile)))


def _copy(folder: Path, target: Path, names: Iterable[str]) -> str:
    target.mkdir(parents=True)
    for name in names:
        source, copy = folder / name, target / name
        if source.is_symlink() or source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
        elif source.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
    # What a container has where such a link leads is not what is here.
    for path in sorted(path for path in target.rglob("*") if path.is_symlink()):
        if not Path(os.path.normpath(path.parent / path.readlink())).is_relative_to(target):
            raise CommandError(
                f"a link leads out of the folder: {path.relative_to(target)} to {path.readlink()}",
                where=folder,
                remedy="remove it, or have Git or .dockerignore ignore it",
            )
    return tree_of(target)


def _kept(folder: Path, always: str) -> set[str]:
    """What a folder's `.dockerignore` keeps, and a file that is kept always, relative to the folder."""
    path = folder / IGNORE
    said = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    patterns = [
        line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return exclude_paths(str(folder), [*patterns, f"!{always}"], dockerfile=IGNORE)


def tree_of(folder: Path) -> str:
    """The name of a folder's files: of their names, contents and whether they can be executed."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda found: found.relative_to(folder).as_posix()):
        if path.is_symlink():
            kind, content = "link", os.fsencode(path.readlink())
        elif path.is_file():
            kind = "program" if path.stat().st_mode & 0o100 else "file"
            content = path.read_bytes()
        else:
            continue
        name = os.fsencode(path.relative_to(folder).as_posix())
        digest.update(b"%s %d %s %d\0" % (kind.encode(), len(name), name, len(content)))
        digest.update(content)
    return f"{PREFIX}{digest.hexdigest()}"


def _names(folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Files to build, relative to the folder; those of submodules too."""
    if not _is_checkout(folder, environ):
        for path in folder.rglob("*"):
            if not path.is_dir() or path.is_symlink():
                yield path.relative_to(folder).as_posix()
        return
    said = git(folder, *_LIST, "-z", environ=environ, timeout_s=TIMEOUT_S)
    for name in sorted(set(said.split("\0")) - {""}):
        below = folder / name
        # A submodule is listed as its folder, and another repository inside with a slash behind.
        if below.is_dir() and not below.is_symlink():
            yield from (f"{name.rstrip('/')}/{one}" for one in _names(below, environ))
        else:
            yield name


def _is_checkout(folder: Path, environ: Mapping[str, str]) -> bool:
    """Whether Git has a word on a folder: it, or one above, is a checkout's, and does not ignore it."""
    if (folder / ".git").exists():
        return True
    if not any((above / ".git").exists() for above in folder.resolve().parents):
        return False
    return bool(git(folder, *_LIST, environ=environ, timeout_s=TIMEOUT_S).strip())
