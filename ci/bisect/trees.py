"""Trees of single commits, in a repository of our own that only borrows the user's objects.

Neither worktrees, index, HEAD, refs nor settings of the user's repository are touched, and nothing there has
to be cleaned up: what a search leaves behind is its own folder, whole or not.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from ci.bisect.commits import check_repository
from ci.core.addresses import without_credentials
from ci.core.errors import CommandError, FileSystemError, MissingInputError
from ci.core.git import git

# Says that a folder is ours to remove, with all that is in it.
MARK = ".spyre-ci-bisect"
_NAME = "borrowed.git"
# Nothing of a commit runs, is downloaded or asked for when its files are written.
QUIET = {
    "GIT_LFS_SKIP_SMUDGE": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true",
}  # fmt: skip
_NO_HOOKS = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "submodule.recurse=false",
    "-c",
    "advice.detachedHead=false",
)


class Trees:
    """Folders with the files of commits.

    Args:
        folder: takes the repository and the trees; it is ours alone, and is made.
        source: the user's repository.

    Raises:
        MissingInputError: the source is no repository.
        CommandError: git could not make ours.
        FileSystemError: there is something at the folder that is not ours.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        remove(folder)
        self._folder = folder
        self._whole: set[Path] = set()
        common = check_repository(source)
        folder.mkdir(parents=True)
        (folder / MARK).touch()
        self._repository = folder / _NAME
        kind = git(source, "rev-parse", "--show-object-format").strip()
        words = ("init", "--quiet", "--bare", "--template=", f"--object-format={kind}", str(self._repository))
        git(folder, *_NO_HOOKS, *words)
        self._borrow(source, common)

    def make(self, sha: str) -> Path:
        """Write a commit's files; the folder is a worktree of our repository, so that builds can ask Git.

        Raises:
            CommandError: git could not.
        """
        tree = self._folder / sha[:16]
        if tree not in self._whole:
            if tree.exists():  # git was killed, or the disk was full: some files are there, and some are not
                self.drop(tree)
            git(
                self._repository, *_NO_HOOKS, "worktree", "add", "--quiet", "--detach", str(tree), sha,
                variables=QUIET,
            )  # fmt: skip
            self._whole.add(tree)
        return tree

    def drop(self, tree: Path) -> None:
        """Remove a tree with whatever was made in it."""
        self._whole.discard(tree)
        _remove_all(tree)
        # A folder of ours: nobody else's worktree is noted there.
        git(self._repository, "worktree", "prune")

    def close(self) -> None:
        """Remove everything."""
        remove(self._folder)

    def _borrow(self, source: Path, common: Path) -> None:
        objects = Path(
            git(source, "rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip("\n")
        )
        if "\n" in str(objects) or str(objects).startswith('"'):
            raise MissingInputError(
                "has a name that Git cannot borrow from", where=objects, remedy="use a clone elsewhere"
            )
        info = self._repository / "objects" / "info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "alternates").write_text(f"{objects}\n", encoding="utf-8", errors="surrogateescape")
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(common / "shallow", self._repository / "shallow")
        git(self._repository, "config", "gc.auto", "0")
        url = _asked(source, "remote.origin.url")
        if url:
            git(self._repository, "config", "remote.origin.url", without_credentials(url))
        if _asked(source, "remote.origin.promisor") == "true":  # what is not there yet is fetched into ours
            for name, value in (
                ("core.repositoryformatversion", "1"),
                ("extensions.partialClone", "origin"),
                ("remote.origin.promisor", "true"),
                (
                    "remote.origin.partialclonefilter",
                    _asked(source, "remote.origin.partialclonefilter") or "blob:none",
                ),
            ):
                git(self._repository, "config", name, value)


def remove(folder: Path) -> None:
    """Remove a folder of trees, as one that a killed search left.

    Raises:
        FileSystemError: it is not ours.
    """
    if not folder.exists():
        return
    if not (folder / MARK).is_file() and any(folder.iterdir()):
        raise FileSystemError(
            "is in the way and is not a bisect's", where=folder, remedy="move it away, or set another `runs`"
        )
    for one in folder.iterdir():  # what says that it is ours goes last, or half a folder would be nobody's
        if one.name != MARK:
            _remove_all(one)
    _remove_all(folder)


def _remove_all(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a folder that a build made read-only
        for one in (folder, *folder.rglob("*")):
            if one.is_dir() and not one.is_symlink():
                with contextlib.suppress(OSError):
                    one.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _asked(folder: Path, name: str) -> str:
    try:
        return git(folder, "config", "--get", name).strip()
    except CommandError:
        return ""
