"""Git in a repository that a test made."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """What git says in a folder; commits are somebody's and not signed, whatever is set on this machine."""
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    argv = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
