"""A change's branch and the repository it came from: whether it is there already, and sending it there.

The token is for GitHub's own address only, and stands in Git's environment, not among its arguments (law 9).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from ci.core.addresses import without_secrets
from ci.core.errors import EXIT_INCOMPLETE, CommandError, UsageError
from ci.core.git import finish_git, shows_token
from ci.core.text import escaped
from ci.pins.branch import Repository

TIMEOUT_S = 300


class PushError(CommandError):
    """The other repository was not reached, or did not take a branch."""

    exit_code = EXIT_INCOMPLETE


def credentials(address: str, *, api: str, token: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which Git shows a token to an address; none where that is not the API's host; pure.

    Args:
        address: of the remote.
        api: of GitHub, whose token it is.
        token: to be shown.
        environ: the environment, which may give Git settings already.
    """
    there, here = urlsplit(address), urlsplit(api)
    host = "github.com" if here.netloc == "api.github.com" else here.netloc
    if there.scheme != here.scheme or there.netloc != host:
        return {}
    return shows_token(f"{there.scheme}://{host}", token, environ)


class Remote:
    """Another repository of the same project.

    Args:
        repository: the one here.
        name: that Git knows it by, such as origin.
        api: of GitHub, whose token is shown to it where it is there.
        token: for it.

    Raises:
        UsageError: there is no remote of that name.
    """

    def __init__(self, repository: Repository, name: str, *, api: str, token: str) -> None:
        self._top = repository.top
        self._name = name
        self._variables = {"GIT_TERMINAL_PROMPT": "0"}
        ended = self._run("remote", "get-url", "--push", "--", name)
        if ended[0]:
            raise UsageError(
                f"there is no remote {name!r}", where=repository.top, remedy="name another with --remote"
            )
        address = ended[1].strip()
        self._variables |= credentials(address, api=api, token=token, environ=os.environ)

    def fetch(self, branch: str) -> None:
        """Have a branch here as it is there; nothing is done where it is here, or is not there.

        Raises:
            PushError: it was not reached.
        """
        ref = f"refs/heads/{branch}"
        if self.tip(ref) and self._run("rev-parse", "--verify", "--quiet", ref)[0]:
            self._fetch(f"{ref}:{ref}")

    def tip(self, ref: str) -> str:
        """The commit that a ref names there; empty where it is not there.

        Raises:
            PushError: it was not reached.
        """
        return self._asked("ls-remote", "--", self._name, ref).partition("\t")[0].strip()

    def commit_of(self, pull: int) -> str:
        """The commit of a pull request, which GitHub keeps when its branch is gone; it is here afterwards.

        Raises:
            PushError: it was not reached, or knows none of that number.
        """
        ref = f"refs/pull/{pull}/head"
        self._fetch(ref)
        return self.tip(ref)

    def has(self, branch: str, commit: str) -> bool:
        """Whether a commit here has all that a branch there has.

        Raises:
            PushError: it was not reached.
        """
        tip = self.tip(f"refs/heads/{branch}")
        return bool(tip) and not self._run("merge-base", "--is-ancestor", tip, commit)[0]

    def push(self, branch: str) -> None:
        """Send a branch there; one that is there already is as it is here, or stays.

        Raises:
            PushError: it was not reached, or has something else under this name.
        """
        ref = f"refs/heads/{branch}"
        quiet = ["--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"]
        self._asked("push", *quiet, "--", self._name, f"{ref}:{ref}")

    def _fetch(self, spec: str) -> None:
        shallow = self._asked("rev-parse", "--is-shallow-repository").strip() == "true"
        depth = ["--depth=1"] if shallow else []
        quiet = ["--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"]
        self._asked("fetch", *quiet, *depth, "--", self._name, spec)

    def _asked(self, *words: str) -> str:
        code, out, err = self._run(*words)
        if code:
            said = "".join(f"\n  | {escaped(without_secrets(line))}" for line in err.splitlines()[-10:])
            raise PushError(
                f"git {words[0]} ended with code {code}{said}",
                where=f"remote {self._name}",
                remedy="check that this machine may read and write it, and what is there under this name",
            )
        return out

    def _run(self, *words: str) -> tuple[int, str, str]:
        hooks = f"core.hooksPath={os.devnull}"
        ended = finish_git(self._top, "-c", hooks, *words, variables=self._variables, timeout_s=TIMEOUT_S)
        return ended.code, ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace")
