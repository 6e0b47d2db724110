"""Components' repositories: which commit a ref is, and the files of a commit."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci.core.errors import CommandError, UsageError
from ci.core.process import run_command

TIMEOUT_S = 900
ASK_TIMEOUT_S = 60
_COMMIT = re.compile(r"[0-9a-f]{40}")


def commit_of(url: str, ref: str, *, environ: Mapping[str, str]) -> str:
    """The commit that a branch, a tag or a commit is.

    Args:
        url: of the repository.
        ref: a branch goes before a tag of the same name; a whole commit is taken as it is.
        environ: git's; it is told to ask nobody for a password.

    Raises:
        CommandError: git is not there, or the repository cannot be reached.
        UsageError: the repository has no such ref.
    """
    if _COMMIT.fullmatch(ref):
        return ref
    said = run_command(
        ["git", "ls-remote", "--", url, f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}"],
        timeout_s=ASK_TIMEOUT_S,
        env=_quiet(environ),
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
        remedy="check its spelling; a commit has to be whole, 40 digits",
    )


def revision_of(folder: Path, *, environ: Mapping[str, str]) -> str:
    """The commit a folder's checkout is at, with `-dirty` where something in the folder is not committed.

    Args:
        folder: of a checkout; of none, the answer is empty.
        environ: git's.
    """
    git: list[str | Path] = ["git", "-C", folder]
    try:
        commit = run_command([*git, "rev-parse", "HEAD"], timeout_s=ASK_TIMEOUT_S, env=environ).strip()
        changed = run_command([*git, "status", "--porcelain", "."], timeout_s=ASK_TIMEOUT_S, env=environ)
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
    git: list[str | Path] = ["git", "-C", folder]
    env = _quiet(environ)
    partly = ["--filter=blob:none"] if below else []
    run_command(["git", "init", "--quiet", folder], timeout_s=ASK_TIMEOUT_S, env=env)
    try:
        run_command(
            [*git, "fetch", "--quiet", "--depth=1", *partly, "--", url, commit],
            timeout_s=TIMEOUT_S,
            env=env,
            remedy=f"check that {url} can be reached and gives out {commit}",
        )
        if below:
            # The filter leaves files to be fetched at checkout, which asks the remote by name.
            for key, value in (("url", url), ("promisor", "true")):
                run_command([*git, "config", f"remote.origin.{key}", value], timeout_s=ASK_TIMEOUT_S, env=env)
            run_command([*git, "sparse-checkout", "set", *below], timeout_s=ASK_TIMEOUT_S, env=env)
        run_command(
            [*git, "-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", "FETCH_HEAD"],
            timeout_s=TIMEOUT_S,
            env=env,
        )
        if not below:
            run_command(
                [*git, "submodule", "update", "--quiet", "--init", "--recursive", "--depth=1"],
                timeout_s=TIMEOUT_S,
                env=env,
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


def _quiet(environ: Mapping[str, str]) -> Mapping[str, str]:
    return {**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "LC_ALL": "C"}
