"""Git in a repository that a test made."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """What git says in a folder; commits are somebody's and not signed, whatever is set on this machine."""
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    argv = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def commit(folder: Path, files: Mapping[str, str | bytes] | None = None, message: str = "change") -> str:
    """Write files and commit everything, in a repository that is made where there is none; the commit."""
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")
