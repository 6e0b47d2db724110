"""Which suite files are meant by files, folders and globs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from test_selection.errors import MissingInputError


def suite_paths(named: Sequence[str | Path], base: Path) -> list[Path]:
    """The suite files that are meant by files, folders and globs.

    A folder stands for every `.yaml` and `.yml` below it. What was named first comes first, the rest of a
    folder or glob by name; a file that is named twice is read once.

    Args:
        named: paths, relative to `base` where they are not absolute.
        base: the folder relative paths start in.

    Raises:
        MissingInputError: nothing of that name is there.
    """
    found: dict[Path, None] = {}
    for one in named:
        found.update(dict.fromkeys(_expanded(base / one)))
    return list(found)


def _expanded(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        files = [one for one in path.rglob("*") if one.suffix in {".yaml", ".yml"} and one.is_file()]
    else:
        parts = path.parts
        wild = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
        pattern = "/".join(parts[wild:])
        try:
            files = [one for one in Path(*parts[:wild]).glob(pattern) if one.is_file()] if pattern else []
        except (ValueError, NotImplementedError, OSError):
            files = []
    if not files:
        raise MissingInputError(
            "there is no such suite file", where=path, remedy="name a file, a folder of them or a glob"
        )
    return sorted(files)
