"""Folders that are to go, whatever a build or a test did to their modes."""

from __future__ import annotations

import os
from pathlib import Path


def make_removable(folder: Path) -> None:
    """Let the owner of a folder into it and every folder below, and write there; links are not followed.

    Raises:
        OSError: it is another user's, or not there.
    """
    folder.chmod(0o700)
    for here, folders, _ in os.walk(folder):
        for path in (Path(here, name) for name in folders):
            if not path.is_symlink():
                path.chmod(0o700)
