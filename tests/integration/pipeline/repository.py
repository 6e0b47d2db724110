"""A real repository, made and cloned as pipelines find it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Repository:
    """A real one, with a branch main that has code and a document."""

    folder: Path

    def git(self, *words: str) -> str:
        argv = ["git", "-C", str(self.folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def commit(self, changes: Mapping[str, str | None], *, message: str = "change") -> str:
        """Write files, take those away whose text is None, and commit; the commit's name."""
        for name, text in changes.items():
            path = self.folder / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

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
