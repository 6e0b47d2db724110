"""PyTorch's tree from a Git repository: shallow and sparse, a folder a commit.

Two runs may want two refs of one repository at the same time, and a branch moves while a run reads its
files: so every commit has its own folder, and only one process at a time works on the repository.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from ci.core.addresses import without_credentials
from ci.core.errors import CommandError, UsageError
from ci.core.git import git
from ci.core.locks import alone

GIT_TIMEOUT_S = 900
# What PyTorch's tests read of their repository besides test/ itself.
SPARSE_FOLDERS = ("test", "tools", "torch/testing")
# A tree without Git, put beside an image, has the commit it is of in this file.
COMMIT_FILE = ".pytorch-commit"
# Commits whose files are kept, the last used ones; a tree is some 100 MB.
KEPT_TREES = 8


def checkout(where: str, cache: Path) -> Path:
    """The folder with the files of `git+URL@ref`.

    Raises:
        UsageError: `where` is not `git+URL@ref`.
        CommandError: git could not fetch the ref, or another process kept the repository for too long.
    """
    url, ref = _address(where)
    store = cache / f"git-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
    store.mkdir(parents=True, exist_ok=True)
    lock = store / "lock"
    busy = CommandError(f"{lock} is locked by another process", remedy="end it, or try again later")
    with alone(lock, busy, timeout_s=2 * GIT_TIMEOUT_S):
        sha = _fetch(url, ref, store / "repository")
        tree = store / "trees" / sha
        if not _mark(tree).is_file():
            _fill(tree, sha, store / "repository")
        _mark(tree).touch()
        _forget_old(store / "trees")
    return tree


def _address(where: str) -> tuple[str, str]:
    url, _, ref = where.removeprefix("git+").rpartition("@")
    if not url or not ref or ref.startswith("-") or not re.fullmatch(r"[\w./+-]+", ref):
        raise UsageError(
            f"{without_credentials(where)!r} is not git+URL@ref",
            remedy="name the branch, tag or SHA, such as git+https://github.com/pytorch/pytorch@v2.13.0",
        )
    if without_credentials(url) != url:
        raise UsageError(
            f"{without_credentials(where)} was given with a user name or password",
            remedy="leave them out; git asks its credential helper",
        )
    if urlsplit(url).scheme not in {"https", "http", "ssh", "file", "git"}:
        raise UsageError(f"{url!r} is not an https, ssh or file address", remedy="use git+https://…@ref")
    return url, ref


def _fetch(url: str, ref: str, repository: Path) -> str:
    """Fetch a ref and return its commit."""
    git(repository.parent, "init", "--quiet", str(repository), timeout_s=60)
    # A git that was killed leaves its lock files; whoever holds our lock knows that no git is at work.
    for stale in (repository / ".git").glob("*.lock"):
        stale.unlink()
    git(
        repository,
        *("fetch", "--quiet", "--depth=1", "--filter=blob:none", "--", url, ref),
        timeout_s=GIT_TIMEOUT_S,
        remedy=f"check that {url} can be reached and has {ref} (a SHA needs all 40 digits)",
    )
    # The filter leaves blobs to be fetched at checkout, which asks the remote by name.
    git(repository, "config", "remote.origin.url", url, timeout_s=60)
    git(repository, "config", "remote.origin.promisor", "true", timeout_s=60)
    return git(repository, "rev-parse", "FETCH_HEAD^{commit}", timeout_s=60).strip()


def _fill(tree: Path, sha: str, repository: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)  # of a checkout that was cut off
    git(repository, "worktree", "prune", timeout_s=60)
    git(repository, "worktree", "add", "--no-checkout", "--detach", str(tree), sha, timeout_s=60)
    git(tree, "sparse-checkout", "set", *SPARSE_FOLDERS, timeout_s=GIT_TIMEOUT_S)
    git(tree, "checkout", "--quiet", "--detach", sha, timeout_s=GIT_TIMEOUT_S)


def _mark(tree: Path) -> Path:
    """The file beside a tree that says it is whole, and by its time when it was last used."""
    return tree.with_name(f"{tree.name}.whole")


def _forget_old(trees: Path) -> None:
    marks = sorted(trees.glob("*.whole"), key=lambda mark: mark.stat().st_mtime)
    for mark in marks[:-KEPT_TREES]:
        mark.unlink()
        shutil.rmtree(mark.with_suffix(""), ignore_errors=True)
