"""The allow-list: which repositories are heard, and at which level, in the layout of PyTorch's own.

```yaml
L1: [owner/new-back-end]
L2:
  - torch-spyre/torch-spyre
  - owner/other: oncall-1, oncall-2
L3:
  device:            # the suffix of the label ciflow/crcr/device
    owner/third: [oncall-3]
L4: []
```

Below L2, unknown, or in another letter case: the report is answered as ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ci.config.section import REPOSITORY
from ci.core.errors import SpyreCiError
from test_selection.yaml_reader import Reader

LEVELS = ("L1", "L2", "L3", "L4")
HEARD = LEVELS[1:]


class AllowList:
    """The levels of a file, read again when the file changes.

    A changed file that is broken, or gone, leaves the levels as they were, and is said once.

    Args:
        path: the file.
        warn: takes lines for people.

    Raises:
        SpyreCiError: the file is not there or broken.
    """

    def __init__(self, path: Path, *, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._mark = _mark(path)
        self._levels = read_allow_list(path)

    def level(self, repository: str) -> str | None:
        """The level of a repository, L1 to L4; None where it is not in the list."""
        return self._current().get(repository)

    def heard(self) -> list[str]:
        """The repositories whose reports are taken, in the order of the file."""
        return [name for name, level in self._current().items() if level in HEARD]

    def meant(self, repository: str) -> str | None:
        """The repository of the list that differs in letter case alone."""
        return next((name for name in self._current() if name.lower() == repository.lower()), None)

    def _current(self) -> dict[str, str]:
        mark = _mark(self._path)
        if mark != self._mark:
            self._mark = mark
            try:
                self._levels = read_allow_list(self._path)
            except (SpyreCiError, OSError) as error:
                self._warn(f"the allow-list stays as it was: {error}")
        return self._levels


class OnlyRepository:
    """The list where there is no file: one repository, at no level.

    Args:
        repository: owner/name.
    """

    def __init__(self, repository: str) -> None:
        self._repository = repository

    def level(self, repository: str) -> str | None:
        """An empty level for the one repository; None for others."""
        return "" if repository == self._repository else None

    def heard(self) -> list[str]:
        """The one repository."""
        return [self._repository]

    def meant(self, repository: str) -> str | None:
        """The one repository, where the letter case alone differs."""
        return self._repository if repository.lower() == self._repository.lower() else None


def read_allow_list(path: Path) -> dict[str, str]:
    """Level by repository.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: it is not such a list; the message names file, line and key.
    """
    top = Reader.load(path)
    top.known(*LEVELS)
    levels: dict[str, str] = {}
    for level in LEVELS:
        for place, key, name in _entries(top, level):
            if not isinstance(name, str) or not re.fullmatch(REPOSITORY, name):
                raise place.error(
                    key, f"{name!r} is not owner/name", "write owner/name in its exact letter case"
                )
            if name in levels:
                raise place.error(key, f"{name} stands twice, first at {levels[name]}", "keep one of them")
            levels[name] = level
    return levels


def _entries(top: Reader, level: str) -> Iterator[tuple[Reader, str | int, Any]]:
    """The entries of a level as (table, key within it, what stands there for a repository)."""
    content = top.content.get(level)
    if isinstance(content, dict):
        for device in content:
            if not isinstance(device, str):
                raise top.error(level, f"the device {device!r} is not text", "quote it")
            table = top.table(level).table(device)
            yield from ((table, str(name), name) for name in table.content)
    elif isinstance(content, list):
        items = Reader(top.document, (level,), {})
        for index, one in enumerate(content):
            names = list(one) if isinstance(one, dict) else [one]
            if len(names) != 1:
                raise items.error(index, f"{one!r} is not one repository", "write one `- ` item for each")
            yield items, index, names[0]
    elif content is not None:
        raise top.error(
            level, f"{level} is {content!r}, not a list", f"write `- owner/name` under `{level}:`"
        )


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
