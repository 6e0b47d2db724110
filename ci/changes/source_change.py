"""A change of source code, as Git has it: between two commits, to the files as they lie there, or a diff."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError, UsageError
from ci.core.git import find_object, finish_git, git, scratch_index

# Python source of a repository that is read at once; PyTorch's whole tree has 60 MiB.
MOST_BYTES = 256 << 20
_REMEDY = "name two commits of this repository as BASE..HEAD, or one to compare your files with"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """A change.

    Attributes:
        folder: the repository's top.
        base: the tree before it, as Git names it.
        head: the tree after it.
        words: what was compared, for people.
        files: those that differ, by their paths from the top.
    """

    folder: Path
    base: str
    head: str
    words: str
    files: tuple[str, ...]

    def python_files(self, tree: str, below: str = "") -> dict[str, bytes]:
        """The Python files of one of its trees, by path.

        Args:
            tree: `base` or `head`.
            below: the folder that is wanted, or a file; empty: all.

        Raises:
            CommandError: git did not answer.
            UsageError: they are larger than MOST_BYTES.
        """
        glob = f":(literal){below}" if below.endswith(".py") else f":(glob){below and below + '/'}**/*.py"
        ended = finish_git(self.folder, "archive", "--format=tar", tree, "--", glob)
        if ended.code:
            return {}  # it has no such file
        if len(ended.stdout) > MOST_BYTES:
            raise UsageError(f"has more than {MOST_BYTES >> 20} MiB of Python source", where=self.folder)
        with tarfile.open(fileobj=io.BytesIO(ended.stdout)) as archive:
            return {
                one.name: content.read()
                for one in archive
                if one.isreg() and (content := archive.extractfile(one)) is not None
            }


def change_of_commits(folder: Path, named: str) -> SourceChange:
    """The change that BASE..HEAD names; or from BASE to the files as they lie in the folder, new ones too.

    Args:
        folder: in the repository.
        named: BASE..HEAD; BASE...HEAD, from where HEAD left BASE; or BASE.

    Raises:
        UsageError: it names no commits of this repository.
    """
    base, dots, head = named.partition("..")
    since_fork, head = head.startswith("."), head.removeprefix(".") or "HEAD"
    top = _top(folder)
    first = _commit(top, base or "HEAD", named)
    if not dots:
        tree, others = _working_tree(top)
        return _change(top, f"{first}^{{tree}}", tree, f"{first:.12} and the files here", others)
    last = _commit(top, head, named)
    if since_fork:
        first = git(top, "merge-base", first, last, remedy=_REMEDY).strip()
    return _change(top, f"{first}^{{tree}}", f"{last}^{{tree}}", f"{first:.12} and {last:.12}")


def change_of_diff(folder: Path, diff: Path) -> SourceChange:
    """The change of a diff that applies to the files as they are committed, or that is in them already.

    Args:
        folder: in the repository.
        diff: as `git diff` writes it.

    Raises:
        UsageError: it can neither be applied nor taken out.
    """
    top = _top(folder)
    with_it, without = f"HEAD and HEAD with {diff.name}", f"HEAD without {diff.name} and HEAD"
    for way, words in (((), with_it), (("--reverse",), without)):
        with scratch_index() as index:
            git(top, "read-tree", "HEAD", variables=index)
            applied = finish_git(top, "apply", "--cached", *way, str(diff.resolve()), variables=index)
            if applied.code == 0:
                other = git(top, "write-tree", variables=index).strip()
                trees = (other, "HEAD^{tree}") if way else ("HEAD^{tree}", other)
                return _change(top, *trees, words)
    said = os.fsdecode(applied.stderr).splitlines()[:1]
    raise UsageError(
        f"does not apply to HEAD, neither way: {''.join(said)}",
        where=diff,
        remedy="give what `git diff` prints, made from the commit that is checked out",
    )


def _change(top: Path, base: str, head: str, words: str, others: Sequence[str] = ()) -> SourceChange:
    names = git(
        top, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", base, head, "--"
    )
    files = tuple(filter(None, [*names.split("\0"), *others]))
    return SourceChange(folder=top, base=base, head=head, words=words, files=files)


def _working_tree(top: Path) -> tuple[str, list[str]]:
    """The tree of the files as they lie there, and new ones of which Git is to keep no copy: no source."""
    new = git(top, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    others = [name for name in new if not name.endswith(".py")]
    with scratch_index() as index:
        git(top, "read-tree", "HEAD", variables=index)
        git(top, "add", "--update", variables=index)
        if len(others) < len(new):
            git(top, "add", "--", ":(glob)**/*.py", variables=index)
        return git(top, "write-tree", variables=index).strip(), others


def _top(folder: Path) -> Path:
    try:
        return Path(git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
    except CommandError as error:
        raise UsageError(
            "is in no Git repository", where=folder, remedy="run it in the checkout that changed"
        ) from error


def _commit(top: Path, name: str, named: str) -> str:
    if found := find_object(top, f"{name}^{{commit}}"):
        return found
    raise UsageError(f"{named!r}: {name!r} is no commit of this repository", where=top, remedy=_REMEDY)
