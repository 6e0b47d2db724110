"""Components' repositories: which commit a ref is, and the files of a commit."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ci.core.errors import CommandError, UsageError
from ci.core.git import git

TIMEOUT_S = 900
ASK_TIMEOUT_S = 60
# It asks nobody for a password.
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "LC_ALL": "C"}
COMMIT = re.compile(r"[0-9a-f]{40}")


def commit_of(url: str, ref: str, *, environ: Mapping[str, str]) -> str:
    """The commit that a branch, a tag or a commit is.

    Args:
        url: of the repository.
        ref: a branch goes before a tag of the same name; a whole commit is taken as it is.
        environ: git's; it is told to ask nobody for a password.

    Raises:
        CommandError: git is not found, or the repository cannot be reached.
        UsageError: the repository has no such ref.
    """
    if COMMIT.fullmatch(ref):
        return ref
    said = git(
        Path(),
        *("ls-remote", "--", url, f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}"),
        timeout_s=ASK_TIMEOUT_S,
        variables=_QUIET,
        environ=environ,
        remedy=f"check that {url} can be reached from here",
    )
    found = {name: commit for commit, _, name in (line.partition("\t") for line in said.splitlines())}
    # An annotated tag is an object of its own; with ^{} it is the commit that it names.
    for name in (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}"):
        if name in found:
            return found[name]
    raise UsageError(
        f"{url} has no branch or tag {ref!r}",
        where="git.ref",
        remedy="check its spelling; a commit needs all its 40 digits",
    )


def revision_of(folder: Path, *, environ: Mapping[str, str]) -> str:
    """The commit a folder's checkout is at, with `-dirty` where something in the folder is not committed.

    Args:
        folder: of a checkout; of none, the answer is empty.
        environ: git's.
    """
    try:
        commit = git(folder, "rev-parse", "HEAD", environ=environ, timeout_s=ASK_TIMEOUT_S).strip()
        changed = git(folder, "status", "--porcelain", ".", environ=environ, timeout_s=ASK_TIMEOUT_S)
    except CommandError:
        return ""
    return f"{commit}-dirty" if changed.strip() else commit


def put_files(
    url: str, commit: str, folder: Path, *, environ: Mapping[str, str], below: Sequence[str] = ()
) -> None:
    """Put the files of a commit into a folder, without the repository's history.

    Args:
        url: of the repository.
        commit: 40 hex digits.
        folder: is made; must not be there.
        environ: git's.
        below: folders whose files are wanted, besides those at the top; none: all of them, and submodules.

    Raises:
        CommandError: the commit cannot be fetched.
    """
    asked = partial(git, folder, variables=_QUIET, environ=environ, timeout_s=TIMEOUT_S)
    partly = ["--filter=blob:none"] if below else []
    folder.mkdir(parents=True, exist_ok=True)
    asked("init", "--quiet")
    try:
        asked(
            *("fetch", "--quiet", "--depth=1", *partly, "--", url, commit),
            remedy=f"check that {url} can be reached and has {commit}",
        )
        if below:
            # The filter leaves files to be fetched at checkout, which asks the remote by name.
            for key, value in (("url", url), ("promisor", "true")):
                asked("config", f"remote.origin.{key}", value)
            asked("sparse-checkout", "set", *below)
        asked("-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", "FETCH_HEAD")
        if not below:
            asked(
                *("submodule", "update", "--quiet", "--init", "--recursive", "--depth=1"),
                remedy=f"check that the submodules of {url} can be reached",
            )
    except CommandError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    for inside in (folder / ".git", *folder.rglob(".git")):
        if inside.is_dir():
            shutil.rmtree(inside)
        else:
            inside.unlink(missing_ok=True)
