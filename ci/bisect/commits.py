"""The commits between two ends, asked of the user's repository, which is only read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError, MissingInputError, UsageError
from ci.core.git import git

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Any more, and an end is a mistake: PyTorch has some 20,000 commits a year.
MOST = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is searched.

    Attributes:
        commits: the good end, the candidates in their order, the last of which is the bad end; whole SHAs.
        notes: what a reader must know of how they were chosen, a sentence each.
    """

    commits: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a commit says of itself; data of whoever wrote it.

    Attributes:
        sha: whole.
        authored: the author's date, ISO-8601.
        subject: the first line of its message.
        body: the rest.
    """

    sha: str
    authored: str
    subject: str
    body: str


def check_repository(folder: Path) -> Path:
    """The top of a repository with commits; its Git folder for one without files.

    Raises:
        MissingInputError: there is no such folder, or it is in no Git repository.
    """
    if not folder.is_dir():
        raise MissingInputError(
            "there is no such folder", where=folder, remedy="name a clone of PyTorch with --pytorch-src"
        )
    try:
        return Path(git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir").rstrip("\n"))
    except CommandError as error:
        said = error.what.splitlines()[-1].removeprefix("  | ")
        raise MissingInputError(
            f"is no Git repository that can be read: {said}",
            where=folder,
            remedy="name a clone with its history, as `git clone` makes it, with --pytorch-src",
        ) from error


def is_shallow(folder: Path) -> bool:
    """Whether the history of a repository was cut off."""
    return git(folder, "rev-parse", "--is-shallow-repository").strip() == "true"


def resolve(folder: Path, named: str, *, flag: str) -> str:
    """The whole SHA of a commit.

    Args:
        folder: of the repository.
        named: a SHA, tag or branch.
        flag: where it comes from, for the error.

    Raises:
        UsageError: the repository has no such commit.
    """
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{named}^{{commit}}")
    try:
        found = git(folder, *asked).strip() if named and "\0" not in named else ""
    except CommandError:
        found = ""
    if _SHA.fullmatch(found):
        return found
    more = "--unshallow " if is_shallow(folder) else ""
    raise UsageError(
        f"{named!r} is no commit of the repository",
        where=flag,
        remedy=f"fetch it with `git fetch {more}` in {folder}, or name another",
    )


def line_between(folder: Path, good: str, bad: str) -> Line:
    """The commits from a good to a bad one, by first parents: what was merged counts as one commit.

    Where the good one is on another branch, the search begins where both parted.

    Args:
        folder: of the repository.
        good: whole SHA.
        bad: whole SHA.

    Raises:
        UsageError: they are one commit, stand the other way round, or are too far apart.
        MissingInputError: nothing connects them, as where the clone is shallow.
    """
    if good == bad:
        raise UsageError(f"the good and the bad end are one commit, {good[:12]}", remedy="name two")
    base, notes = _parted(folder, good, bad), list[str]()
    if base == bad:
        raise UsageError(
            f"the bad end {bad[:12]} comes before the good end {good[:12]}",
            remedy="swap --good and --bad; what mended a test is not searched for",
        )
    if base != good:
        notes.append(
            f"{good[:12]} is on a branch of its own: the search begins where it parted, at {base[:12]}, "
            "of which nothing is known yet"
        )
    found = git(folder, "rev-list", "--first-parent", "--reverse", f"--max-count={MOST + 1}", bad, f"^{base}")
    commits = found.split()
    if len(commits) > MOST:
        raise UsageError(f"there are more than {MOST:,} commits between the ends", remedy="name nearer ones")
    whole = int(git(folder, "rev-list", "--count", bad, f"^{base}").strip())
    if whole > len(commits):
        notes.append(
            f"{whole - len(commits):,} commits came by merges: only first parents are searched, "
            "and a merge stands for all it brought"
        )
    return Line(commits=(base, *commits), notes=tuple(notes))


def about(folder: Path, sha: str) -> About:
    """What a commit says of itself.

    Raises:
        CommandError: git did not answer.
    """
    said = git(folder, "show", "--no-patch", "--no-show-signature", "--format=%aI%x00%s%x00%b", sha, "--")
    authored, subject, body = said.split("\0", 2)
    return About(sha=sha, authored=authored, subject=subject, body=body.rstrip("\n"))


def _parted(folder: Path, good: str, bad: str) -> str:
    """Where two commits parted; the good one itself where the bad one came out of it."""
    try:
        found = git(folder, "merge-base", "--", good, bad).split()
    except CommandError:
        found = []
    if found:
        return found[0]
    if is_shallow(folder):
        raise MissingInputError(
            f"nothing connects {good[:12]} with {bad[:12]}: the clone is shallow",
            where=folder,
            remedy=f"fetch the rest: git -C {folder} fetch --unshallow",
        )
    raise MissingInputError(
        f"{good[:12]} and {bad[:12]} have no commit in common",
        where=folder,
        remedy="name two commits of one history",
    )
