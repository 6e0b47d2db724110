"""Check the repository as a whole: its layout, its size, and that it holds no path of one machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYOUT = (
    "ci", ".github/workflows", "jenkins", "noxfile.py", "test_selection", "images", "scripts", "tests",
    "pyproject.toml", "README.md", "CONTRIBUTING.md", "LICENSE", ".ci/run",
)  # fmt: skip
LOCK_FILES = {"uv.lock", "poetry.lock", "package-lock.json", "Pipfile.lock"}
MAX_BYTES = 500_000
# Absolute paths of a person's or a build machine's home.
HOME_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root)/[a-z]")


def tracked() -> list[str]:
    """Every file git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607  # git is where the user has it
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def problems(files: list[str]) -> list[str]:
    """What is wrong, a line each."""
    found = [f"{name} is missing" for name in LAYOUT if not (ROOT / name).exists()]
    for name in files:
        path = ROOT / name
        if path.name in LOCK_FILES:
            found.append(f"{name}: a lock file records a registry")
        if path.stat().st_size > MAX_BYTES:
            found.append(f"{name}: {path.stat().st_size} bytes, more than {MAX_BYTES}")
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if HOME_PATH.search(line) and name != "scripts/check_repository.py":
                found.append(f"{name}:{number}: a path of one machine: {line.strip()[:80]}")
    return found


def main() -> int:
    """Print every problem; 1 when there is one."""
    found = problems(tracked())
    for line in found:
        print(line)  # noqa: T201  # the output of a script
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
