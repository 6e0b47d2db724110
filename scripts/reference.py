"""Writes docs/reference of what the code says, or with `--man DIR` man pages."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ci.cli.app import app  # noqa: E402  # of this checkout
from ci.cli.facts import Facts, walk  # noqa: E402
from ci.cli.reference import man_pages, pages  # noqa: E402
from test_selection.files import write_text  # noqa: E402

FOLDER = ROOT / "docs" / "reference"
SCHEMAS = ROOT / "docs" / "schemas"


def facts() -> list[Facts]:
    """Every verb and group of this checkout."""
    return list(walk(typer.main.get_command(app)))


def wanted() -> dict[str, str]:
    """The pages as they have to be, by file name."""
    return pages(facts(), sorted(path.name for path in SCHEMAS.glob("*.json")))


def differing() -> list[str]:
    """The files of docs/reference that are not as the code says, missing ones and superfluous ones too."""
    made = wanted()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    return sorted(name for name in {*made, *there} if made.get(name) != there.get(name))


def write(made: dict[str, str], folder: Path) -> None:
    """Write files to a folder; a page that is none any more goes."""
    for name, text in made.items():
        write_text(folder / name, text)
    if folder == FOLDER:
        for path in folder.glob("*.md"):
            if path.name not in made:
                path.unlink()


def main() -> int:
    """Do what is asked for; 1 where `--check` finds a page that is old."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="Write nothing; end with 1 where a page is old.")
    parser.add_argument("--man", type=Path, metavar="DIR", help="Write man pages to a folder instead.")
    given = parser.parse_args()
    if given.man is not None:
        try:
            number = version("spyre-ci")
        except PackageNotFoundError:
            number = ""
        write(man_pages(facts(), number), given.man)
        return 0
    if not given.check:
        write(wanted(), FOLDER)
        return 0
    old = differing()
    for name in old:
        sys.stderr.write(
            f"docs/reference/{name} is not what the code says: run python scripts/reference.py\n"
        )
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
