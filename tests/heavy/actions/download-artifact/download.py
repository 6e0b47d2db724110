"""What the stand-in of actions/download-artifact does, by the real one's rules as far as ours use them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def main() -> int:
    """Copy the artifacts; 1 where one was named and is not found."""
    kept, target = Path(os.environ["STAND_IN_ARTIFACTS"]), Path(os.environ["TARGET"])
    name, pattern = os.environ["NAME"], os.environ["PATTERN"]
    if name and not (kept / name).is_dir():
        return 1
    # As minimatch has it: {a,b} is either.
    patterns = pattern[1:-1].split(",") if pattern.startswith("{") else [name or pattern or "*"]
    for artifact in sorted(one for each in patterns for one in kept.glob(each)):
        alone = bool(name) or os.environ["MERGE"] == "true"
        shutil.copytree(artifact, target if alone else target / artifact.name, dirs_exist_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
