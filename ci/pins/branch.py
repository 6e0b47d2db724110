"""A branch with one commit, made of what Git has, without checkout: the user's files and index stay.

Neither hooks nor filters run: what the commit holds is a pin and its ledger, written by us. It is signed
where the user's commits are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError, UsageError
from ci.core.git import git
from ci.core.text import escaped

# Modes of files, as Git writes them.
PLAIN, _PROGRAM = "100644", "100755"
_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
# Of machines where nobody told Git who they are, such as a CI's.
_NAME, _EMAIL = "spyre-ci", "spyre-ci@users.noreply.github.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository and the commit that is checked out in it.

    Attributes:
        top: its folder.
        head: the commit.
        on: the branch that is checked out; empty where there is none, as in most CIs.
    """

    top: Path
    head: str
    on: str


def repository_at(folder: Path) -> Repository:
    """The repository a folder is in.

    Raises:
        UsageError: it is in none, or in one without a commit.
        CommandError: git is not installed.
    """
    try:
        top = git(folder, "rev-parse", "--show-toplevel").removesuffix("\n")
    except CommandError as error:
        if "ended with code" not in error.what:
            raise
        # Of another owner's checkout Git says the same, in other words.
        said = escaped(error.what.splitlines()[-1].strip(" |"))
        raise UsageError(
            f"is in no checkout of Git, and a change is a branch: {said}",
            where=folder,
            remedy="run it in a checkout",
        ) from error
    try:
        head = git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
    except CommandError as error:
        raise UsageError("has no commit yet", where=top, remedy="commit the settings first") from error
    # Of a detached HEAD this is `HEAD`, which no branch can be called.
    on = git(folder, "rev-parse", "--symbolic-full-name", "HEAD").strip().removeprefix("refs/heads/")
    return Repository(top=Path(top), head=head, on="" if on == "HEAD" else on)


def name_in(repository: Repository, path: Path) -> str:
    """A file's name in the repository.

    Raises:
        UsageError: it is elsewhere.
    """
    try:
        return path.resolve().relative_to(repository.top.resolve()).as_posix()
    except ValueError as error:
        raise UsageError(
            f"is outside of the repository in {repository.top}",
            where=path,
            remedy="keep pins and their ledger in one",
        ) from error


def content_at(repository: Repository, commit: str, name: str) -> tuple[str, bytes] | None:
    """Mode and bytes of a file as a commit has it; None where it has none of that name.

    Raises:
        UsageError: it is no plain file there, but a link or a folder.
        CommandError: git did not answer.
    """
    listed = git(repository.top, "ls-tree", "-z", "--full-tree", commit, "--", f":(literal){name}")
    if not listed:
        return None
    mode, kind, sha = listed.partition("\t")[0].split(" ")
    if kind != "blob" or mode not in {PLAIN, _PROGRAM}:
        raise UsageError(
            "is committed as a link or a folder, not as a file",
            where=repository.top / name,
            remedy="name the file itself",
        )
    return mode, os.fsencode(git(repository.top, "cat-file", "blob", sha))


def tip_of(repository: Repository, branch: str, *, within: str = "") -> str | None:
    """The commit of a branch; None where there is none of that name.

    Args:
        repository: it is in.
        branch: its name.
        within: a commit that is to have all of it; empty: any branch.

    Raises:
        CommandError: git did not answer.
    """
    pattern = f"refs/heads/{branch}"
    merged = [f"--merged={within}"] if within else []
    listed = git(repository.top, "for-each-ref", "--format=%(objectname) %(refname)", *merged, pattern)
    return next((line.split()[0] for line in listed.splitlines() if line.endswith(f" {pattern}")), None)


def is_merged(repository: Repository, branch: str) -> bool:
    """Whether what is checked out has more than a branch, and all of it; not where there is no such branch.

    Raises:
        CommandError: git did not answer.
    """
    return tip_of(repository, branch, within=repository.head) not in {None, repository.head}


def files_in(repository: Repository, commit: str, folder: str) -> set[str]:
    """Names of all files in a folder as a commit has it.

    Raises:
        CommandError: git did not answer.
    """
    words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", f":(literal){folder}")
    return set(git(repository.top, *words).split("\0")) - {""}


def make_branch(
    repository: Repository,
    branch: str,
    files: Mapping[str, tuple[str, bytes]],
    message: str,
    *,
    now: float,
    on: str = "",
) -> str:
    """Make a branch that is the checked out commit and one more, or add one to it; the commit.

    Args:
        repository: it is made in.
        branch: its name, which nothing may have that is not `on`.
        files: mode and content by name; what is not among them stays as it is.
        message: of the commit.
        now: seconds since the epoch.
        on: the branch's commit, where it is there.

    Raises:
        CommandError: git refused, such as a branch that came meanwhile, or a signature that cannot be made.
    """
    top = repository.top
    with tempfile.TemporaryDirectory(prefix="spyre-ci-pins-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        _git(top, "read-tree", on or repository.head, variables=index)
        for number, (_, content) in enumerate(files.values()):
            Path(folder, f"{number}").write_bytes(content)
        paths = [str(Path(folder, f"{number}")) for number in range(len(files))]
        made = _git(top, "hash-object", "-w", "--no-filters", "--", *paths).split()
        added: list[str] = []
        for (name, (mode, _)), sha in zip(files.items(), made, strict=True):
            added += ["--cacheinfo", f"{mode},{sha},{name}"]
        _git(top, "update-index", "--add", *added, variables=index)
        tree = _git(top, "write-tree", variables=index).strip()
        written = Path(folder, "message")
        written.write_text(message, encoding="utf-8")
        signs = _git(top, "config", "--type=bool", "--default=false", "--get", "commit.gpgSign").strip()
        commit = _git(
            top, "commit-tree", tree, "-p", on or repository.head, "-F", str(written),
            *(["-S"] if signs == "true" else []), variables=_who(top, now),
        ).strip()  # fmt: skip
    # An empty value before: nothing of that name may be there.
    _git(top, "update-ref", "-m", "spyre-ci pins", f"refs/heads/{branch}", commit, on)
    return commit


def _git(top: Path, *words: str, variables: Mapping[str, str] | None = None) -> str:
    return git(top, *_NO_HOOKS, *words, variables=variables)


def _who(top: Path, now: float) -> dict[str, str]:
    """Who commits and when: the user, as far as Git knows one."""
    when = f"@{int(now)} +0000"
    made = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    for key, value in (("name", _NAME), ("email", _EMAIL)):
        if _git(top, "config", "--default=", "--get", f"user.{key}").strip():
            continue
        for role in ("AUTHOR", "COMMITTER"):
            variable = f"GIT_{role}_{key.upper()}"
            made[variable] = os.environ.get(variable) or value
    return made
