"""A checkout, its branches and its remote, by Git; the user's files and index stay as they are.

Commits are made of what Git has, without a checkout; neither hooks nor filters run. The token is shown to
GitHub's own address only, and stands in Git's environment, never among its arguments.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from ci.core.addresses import without_secrets
from ci.core.errors import EXIT_INCOMPLETE, CommandError, UsageError
from ci.core.git import git, scratch_index, shows_token

TIMEOUT_S = 300
PLAIN = "100644"
_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
_WHO = ("-c", "user.name=spyre-ci", "-c", "user.email=spyre-ci@users.noreply.github.com")


class RemoteError(CommandError):
    """A remote was not reached, or did not take a branch."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A repository and the commit that is checked out; `on` is the branch, empty where there is none."""

    top: Path
    head: str
    on: str

    def name_of(self, path: Path) -> str:
        """A file's name in the repository.

        Raises:
            UsageError: it is elsewhere.
        """
        try:
            return path.resolve().relative_to(self.top.resolve()).as_posix()
        except ValueError as error:
            outside, remedy = (
                f"is outside the repository in {self.top}",
                "keep pins and their ledger in one repository",
            )
            raise UsageError(outside, where=path, remedy=remedy) from error

    def file(self, commit: str, name: str) -> tuple[str, bytes] | None:
        """Mode and content of a file as a commit has it; None where it has none of that name."""
        listed = self._git("ls-tree", "-z", "--full-tree", commit, "--", f":(literal){name}")
        mode, kind, sha = listed.partition("\t")[0].split(" ") if listed else ("", "", "")
        return (mode, os.fsencode(self._git("cat-file", "blob", sha))) if kind == "blob" else None

    def files(self, commit: str, folder: str) -> set[str]:
        """The names of all files in a folder as a commit has it; none for no commit."""
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", f":(literal){folder}")
        return set(self._git(*words).split("\0")) - {""} if commit else set()

    def tip(self, branch: str) -> str:
        """The commit of a branch; empty where there is no such branch."""
        return self._git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip()

    def commit(
        self, branch: str, files: Mapping[str, tuple[str, bytes]], message: str, *, now: float, on: str = ""
    ) -> str:
        """Make a branch of one more commit than what is checked out, or than its own tip `on`; the commit.

        Args:
            branch: its name.
            files: mode and content by name; other files stay as they are.
            message: of the commit.
            now: seconds since the epoch.
            on: the branch's commit, where it is there.

        Raises:
            CommandError: Git refused, such as a branch that came meanwhile.
        """
        parent = on or self.head
        with tempfile.TemporaryDirectory(prefix="spyre-ci-pins-") as name, scratch_index() as index:
            folder = Path(name)
            self._git("read-tree", parent, variables=index)
            (folder / "text").write_text(message, encoding="utf-8")
            for path, (mode, content) in files.items():
                (folder / "content").write_bytes(content)
                sha = self._git("hash-object", "-w", "--no-filters", "--", str(folder / "content")).strip()
                self._git("update-index", "--add", "--cacheinfo", f"{mode},{sha},{path}", variables=index)
            tree = self._git("write-tree", variables=index).strip()
            when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"@{int(now)} +0000")
            words = ("commit-tree", tree, "-p", parent, "-F", str(folder / "text"))
            commit = self._git(*_WHO, *words, variables=when).strip()
        # An empty value before: nothing of that name may be there.
        self._git("update-ref", "-m", "spyre-ci pins", f"refs/heads/{branch}", commit, on)
        return commit

    def _git(self, *words: str, variables: Mapping[str, str] | None = None) -> str:
        return git(self.top, *_NO_HOOKS, *words, variables=variables)


def checkout_at(folder: Path) -> Checkout:
    """The checkout that a folder is in.

    Raises:
        CommandError: it is in none, or in one without a commit; or Git is not installed.
    """
    asked = partial(git, folder, remedy="run it in a Git checkout that has a commit")
    # Of a detached HEAD the third is `HEAD`, which no branch can be called.
    top, head, on = (
        asked("rev-parse", *words).removesuffix("\n")
        for words in (("--show-toplevel",), ("--verify", "HEAD^{commit}"), ("--symbolic-full-name", "HEAD"))
    )
    return Checkout(top=Path(top), head=head, on="" if on == "HEAD" else on.removeprefix("refs/heads/"))


def credentials(address: str, *, api: str, token: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which Git shows a token to a remote; none where it is not GitHub's host; pure."""
    there, here = urlsplit(address), urlsplit(api)
    host = "github.com" if here.netloc == "api.github.com" else here.netloc
    if there.scheme != here.scheme or there.netloc != host:
        return {}
    return shows_token(f"{there.scheme}://{host}", token, environ)


class Remote:
    """A checkout's remote.

    Args:
        checkout: has it.
        name: that Git knows it by, such as origin.
        api: of GitHub.
        token: of GitHub, shown where the remote is on its host.

    Raises:
        RemoteError: there is no such remote.
    """

    def __init__(self, checkout: Checkout, name: str, *, api: str, token: str) -> None:
        self._top, self._name = checkout.top, name
        self._variables = {"GIT_TERMINAL_PROMPT": "0"}
        address = self._git("remote", "get-url", "--push", "--", name).strip()
        self._variables |= credentials(address, api=api, token=token, environ=os.environ)

    def tip(self, branch: str) -> str:
        """The commit of a branch there; empty where it is not found."""
        return self._git("ls-remote", "--", self._name, f"refs/heads/{branch}").partition("\t")[0].strip()

    def fetch(self, branch: str) -> None:
        """Have a branch here that is there."""
        shallow = self._git("rev-parse", "--is-shallow-repository").strip() == "true"
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")
        ref = f"refs/heads/{branch}"
        self._git("fetch", *quiet, *(["--depth=1"] if shallow else []), "--", self._name, f"{ref}:{ref}")

    def push(self, branch: str) -> None:
        """Send a branch there; another one of that name stays."""
        quiet = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
        self._git("push", *quiet, "--", self._name, f"refs/heads/{branch}:refs/heads/{branch}")

    def _git(self, *words: str) -> str:
        try:
            return git(self._top, *_NO_HOOKS, *words, variables=self._variables, timeout_s=TIMEOUT_S)
        except CommandError as error:
            remedy = "check its name, its branches, and that this machine may read and write it"
            said = without_secrets(error.what)
            raise RemoteError(said, where=f"remote {self._name}", remedy=remedy) from error
