"""Print the folders and files of tests whose room is touched by what changed since a commit, a line each.

usage: touched.py COMMIT. Which tests are a room's stands in tests/rooms.yaml.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
ROOMS = ROOT / "tests" / "rooms.yaml"
# Nothing that runs: documents tell, and lint or the quick tests hold them to what they tell.
PROSE = ("docs/", "changelog.d/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")


def changed(base: str) -> list[str]:
    """What is not as it was at a commit; a file that was moved counts at both places."""
    listed = subprocess.run(
        ["git", "diff", "--name-only", "--no-renames", "-z", base, "HEAD", "--"],  # noqa: S607  # as the user has it
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return [name for name in listed.stdout.split("\0") if name]


def touched(files: Sequence[str], rooms: Mapping[str, Sequence[str]]) -> list[str]:
    """The tests of each room that has one of the files.

    A test that changed is its own; what stands beside tests touches those of its folder. A file of no room,
    such as what all rooms stand on, touches every room.

    Args:
        files: by their paths from the top of the checkout.
        rooms: folders or files of tests, by the folder or file that begins a room.
    """
    found: dict[str, None] = {}
    for file in files:
        if file.startswith(PROSE) or file.startswith("tests/unit/"):
            continue
        of = [tests for room, tests in rooms.items() if file == room or file.startswith(f"{room}/")]
        if not of and file.startswith("tests/") and file.count("/") > 1:
            own = file if Path(file).name.startswith("test_") else str(Path(file).parent)
            of = [[own] if (ROOT / own).exists() else []]
        found |= dict.fromkeys(one for tests in of or rooms.values() for one in tests)
    return sorted(found)


def main() -> int:
    """Print the tests; 2 where the commit is not known."""
    rooms = yaml.safe_load(ROOMS.read_text(encoding="utf-8"))
    try:
        files = changed(sys.argv[1])
    except (subprocess.SubprocessError, IndexError) as error:
        said = getattr(error, "stderr", "") or "name the commit to compare with"
        print(f"touched.py: {said.strip()}", file=sys.stderr)  # noqa: T201  # the output of a script
        return 2
    for one in touched(files, rooms):
        print(one)  # noqa: T201  # the same
    return 0


if __name__ == "__main__":
    sys.exit(main())
