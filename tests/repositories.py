"""Git in a repository that a test made."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Source of a back end, as far as it says which kernel serves which operator.
TWO_KERNELS = """\
@impl("aten::add.Tensor")
def add(a, b):
    return a + b
@impl("aten::mul.Tensor")
def mul(a, b):
    return a * b
"""


def git(folder: Path, *words: str) -> str:
    """What git says in a folder; commits are somebody's and not signed, whatever is set on this machine."""
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    argv = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def commit(
    folder: Path, files: Mapping[str, str | bytes | None] | None = None, message: str = "change"
) -> str:
    """Write files, take those away that are None, and commit everything, in a repository made if need be."""
    for name, content in (files or {}).items():
        path = folder / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@dataclass(frozen=True)
class Repository:
    """A real one, on a branch main."""

    folder: Path

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def commit(self, changes: Mapping[str, str | bytes | None] | None = None) -> str:
        return commit(self.folder, changes)

    def merged(self, base: str, head: str) -> str:
        """A commit that merges `head` into `base`, as GitHub checks a pull request out."""
        self.git("checkout", "--quiet", "--detach", base)
        self.git("merge", "--quiet", "--no-ff", "--no-edit", head)
        return self.git("rev-parse", "HEAD")

    def shallow(self, folder: Path, depth: int) -> Repository:
        """A clone of what is checked out, as actions/checkout with a fetch-depth makes it."""
        folder.mkdir()
        clone = Repository(folder)
        clone.git("init", "--quiet")
        clone.git("fetch", "--quiet", f"--depth={depth}", self.folder.as_uri(), "HEAD")
        clone.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
        return clone
