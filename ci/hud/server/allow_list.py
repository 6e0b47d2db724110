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


class AllowList:
    """The levels of a file, read again when the file changes; or one repository, at no level.

    A changed file that is broken, or gone, leaves the levels as they were, and is said once.

    Args:
        path: the file; None: there is none.
        only: the repository that is heard where there is no file.
        warn: takes lines for people.

    Raises:
        SpyreCiError: the file is not found or broken.
    """

    def __init__(
        self, path: Path | None = None, *, only: str = "", warn: Callable[[str], None] = print
    ) -> None:
        self._path = path
        self._warn = warn
        self._mark = _mark(path)
        self._levels = {only: ""} if path is None else read_allow_list(path)

    def level(self, repository: str) -> str | None:
        """L2 to L4, or empty where there are no levels; None where the repository is not heard."""
        level = self._current().get(repository)
        return None if level == LEVELS[0] else level

    def heard(self) -> list[str]:
        """The repositories whose reports are taken, in the order of the file."""
        return [name for name in self._current() if self.level(name) is not None]

    def _current(self) -> dict[str, str]:
        mark = _mark(self._path)
        if self._path is not None and mark != self._mark:
            self._mark = mark
            try:
                self._levels = read_allow_list(self._path)
            except (SpyreCiError, OSError) as error:
                self._warn(f"the previous allow-list stays in use: {error}")
        return self._levels


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
        for name in _names(top, level):
            if not isinstance(name, str) or not re.fullmatch(REPOSITORY, name):
                raise top.error(
                    level, f"{name!r} is not owner/name", "write owner/name in its exact letter case"
                )
            if name in levels:
                raise top.error(level, f"{name} is listed twice, first at {levels[name]}", "keep one of them")
            levels[name] = level
    return levels


def _names(top: Reader, level: str) -> Iterator[Any]:
    """What stands for the repositories of a level: in a list, or in a table for each device."""
    content = top.content.get(level) or []
    if isinstance(content, dict):
        for device, names in content.items():
            if not isinstance(names, dict):
                raise top.error(level, f"{device!r} is not a table of keys", "write `owner/name: [on-call]`")
            yield from names
    elif isinstance(content, list):
        for item in content:
            yield from item if isinstance(item, dict) else [item]
    else:
        raise top.error(level, f"{content!r} is not a list", f"write `- owner/name` under `{level}:`")


def _mark(path: Path | None) -> tuple[int, int, int] | None:
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
