"""Git, asked what a merge queue's commit is made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ci.core.errors import CommandError
from ci.core.git import finish_git, git, shows_token


def tree_of(folder: Path, commit: str) -> str:
    """The tree of a commit.

    Raises:
        CommandError: the clone does not hold it.
    """
    return git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{commit}^{{tree}}").strip()


def merged_tree(folder: Path, base: str, head: str) -> str:
    """The tree that merging a commit into another gives.

    Raises:
        CommandError: a commit is not there, or they do not merge by themselves.
    """
    return git(folder, "merge-tree", "--write-tree", base, head).split("\n", 1)[0].strip()


def bring(folder: Path, number: int, sha: str, environ: Mapping[str, str]) -> None:
    """Have the newest commit of a pull request in the clone, where it is not there yet.

    Args:
        folder: of the checkout, whose remote `origin` is the repository.
        number: of the pull request.
        sha: its newest commit.
        environ: `GITHUB_SERVER_URL` says whom the token of GITHUB_TOKEN is shown to.

    Raises:
        CommandError: it cannot be had.
    """
    if _is_there(folder, sha):
        return
    variables = {"GIT_TERMINAL_PROMPT": "0", **_header(environ)}
    words = ("fetch", "--quiet", "--no-tags", "origin", f"refs/pull/{number}/head")
    ended = finish_git(folder, *words, variables=variables)
    if ended.code or not _is_there(folder, sha):
        raise CommandError(
            f"the commit {sha[:12]} of pull request {number} cannot be had",
            remedy="check out with fetch-depth: 0, and let the job read contents",
        )


def _header(environ: Mapping[str, str]) -> dict[str, str]:
    """The token for git, for one server only; nothing where there is none."""
    token, server = environ.get("GITHUB_TOKEN", ""), environ.get("GITHUB_SERVER_URL", "")
    if not token or urlsplit(server).scheme != "https":
        return {}
    return shows_token(server.rstrip("/"), token, os.environ)


def _is_there(folder: Path, sha: str) -> bool:
    return not finish_git(folder, "cat-file", "-e", f"{sha}^{{commit}}").code
