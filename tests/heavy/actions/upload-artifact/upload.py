"""What the stand-in of actions/upload-artifact does, by the real one's rules as far as ours use them."""

from __future__ import annotations

import os
import shutil
import sys
from glob import glob
from pathlib import Path


def main() -> int:
    """Copy the files; 1 where there are none and that is an error, or where the name is taken."""
    here = Path.cwd()
    patterns = [here / line.strip() for line in os.environ["PATHS"].splitlines() if line.strip()]
    found = sorted({file for pattern in patterns for file in _files(pattern)})
    if os.environ["HIDDEN"] != "true":
        found = [file for file in found if not any(part[0] == "." for part in file.relative_to(here).parts)]
    target = Path(os.environ["STAND_IN_ARTIFACTS"], os.environ["NAME"])
    if not found:
        return int(os.environ["NONE"] == "error")
    if target.exists() and os.environ["OVERWRITE"] != "true":
        return 1
    shutil.rmtree(target, ignore_errors=True)
    base = Path(os.path.commonpath([_base(pattern) for pattern in patterns]))
    for file in found:
        copy = target / file.relative_to(base)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return 0


def _files(pattern: Path) -> list[Path]:
    matched = [Path(name) for name in glob(str(pattern), recursive=True, include_hidden=True)]  # noqa: PTH207
    below = [file for one in matched if one.is_dir() for file in one.rglob("*")]
    return [one for one in [*matched, *below] if one.is_file()]


def _base(pattern: Path) -> str:
    """The folder whose contents a pattern uploads: all before its first wildcard."""
    parts = list(pattern.parts)
    wild = next((index for index, part in enumerate(parts) if "*" in part), None)
    if wild is not None:
        return str(Path(*parts[:wild]))
    return str(pattern if pattern.is_dir() else pattern.parent)


if __name__ == "__main__":
    sys.exit(main())
