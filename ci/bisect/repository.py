"""The user's clone, which is only read, and a repository of ours that borrows its objects.

Neither worktrees, index, refs nor settings of the user's clone are touched, and none of its hooks run.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from ci.bisect.record import Candidate
from ci.core.addresses import without_credentials
from ci.core.errors import CommandError, UsageError
from ci.core.folders import make_removable
from ci.core.git import git

SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# `safe.bareRepository` refuses a bare repository that is not named.
_BARE = "--git-dir=."
# Writing a commit's files runs no hook, downloads no LFS file and asks for no password.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false")
_QUIET = {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true"}
# What GitHub puts behind a subject.
_NUMBER = re.compile(r"\(#([1-9][0-9]{0,9})\)\s*$")


def resolve(clone: Path, name: str, *, flag: str) -> str:
    """The full SHA of a commit, tag or branch; `flag` is where the name comes from.

    Raises:
        UsageError: the clone has no such commit, or is not a Git repository.
    """
    why = "it does not name a commit"
    try:
        found = git(clone, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}").strip()
        if SHA.fullmatch(found):
            return found
    except CommandError as error:
        why = error.what.splitlines()[-1].removeprefix("  | ")
    raise UsageError(
        f"{name!r} is not a commit of {clone}: {why}",
        where=flag,
        remedy="name a commit of a clone with its history; `git fetch --unshallow` completes a shallow one",
    )


def commits_between(clone: Path, good: str, bad: str) -> list[str]:
    """The commits from a good to a bad one by first parents.

    If the good commit is on another branch, the first one is where that branched off.

    Raises:
        UsageError: the commits are the same, or in the wrong order, or have no commit in common.
    """
    base = ""
    with contextlib.suppress(CommandError):
        base = git(clone, "merge-base", "--", good, bad).split()[0]
    if base in {"", bad}:
        same = (
            "is the good commit, or comes before it" if base else "has no history in common with the good one"
        )
        raise UsageError(
            f"the bad commit {bad[:12]} {same}: {good[:12]}",
            where="--bad",
            remedy="swap --good and --bad"
            if base
            else "in a shallow clone, run `git fetch --unshallow` first",
        )
    commits = git(clone, "rev-list", "--first-parent", "--reverse", bad, f"^{base}").split()
    shallow = clone / git(clone, "rev-parse", "--git-path", "shallow").strip()
    if shallow.is_file() and commits[0] in shallow.read_text(encoding="ascii"):
        raise UsageError(
            f"the clone is shallow: commits between {base[:12]} and {commits[0][:12]} are missing",
            where=clone,
            remedy="run `git fetch --unshallow` first",
        )
    return [base, *commits]


def candidate(clone: Path, sha: str) -> Candidate:
    """A commit as it is told to people; its texts are data of whoever wrote it."""
    words = ("show", "--no-patch", "--no-show-signature", "--format=%aI%x00%s", sha, "--")
    authored, subject = git(clone, *words).rstrip("\n").split("\0", 1)
    return Candidate(sha=sha, authored=authored, subject=subject, pull_request=pull_request(subject))


def pull_request(subject: str) -> int | None:
    """The number of a commit's pull request, if its subject ends with one. Pure."""
    number = _NUMBER.search(subject)
    return int(number[1]) if number else None


class Trees:
    """Folders with the files of commits, below a folder of ours that is made anew.

    Raises:
        CommandError: git could not make the repository.
    """

    def __init__(self, folder: Path, clone: Path) -> None:
        remove(folder)
        folder.mkdir(parents=True)
        self._folder, self._repository = folder, folder / "borrowed.git"
        words = ("clone", "--quiet", "--bare", "--shared", "--template=", "--", str(clone.resolve()))
        git(folder, *_NO_HOOKS, *words, str(self._repository))
        # Builds ask for the remote, and a partial clone fetches from it what it does not have.
        for name in ("url", "promisor"):
            with contextlib.suppress(CommandError):
                value = without_credentials(git(clone, "config", "--get", f"remote.origin.{name}").strip())
                git(self._repository, _BARE, "config", f"remote.origin.{name}", value)

    def make(self, sha: str) -> Path:
        """Write a commit's files; the folder is a worktree, so that builds can ask Git.

        Raises:
            CommandError: git could not.
        """
        tree = self._folder / sha[:16]
        remove(tree)  # what a full disk left of it
        words = ("worktree", "add", "--quiet", "--detach", "--force", str(tree), sha)
        git(self._repository, _BARE, *_NO_HOOKS, *words, variables=_QUIET)
        return tree


def remove(folder: Path) -> None:
    """Remove a folder, also where a build made parts of it read-only."""
    with contextlib.suppress(OSError):
        make_removable(folder)
    shutil.rmtree(folder, ignore_errors=True)
