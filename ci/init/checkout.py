"""A checkout's files, read as text and never run: what is named, and its sources within bounds."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# A back end has some hundreds of files; a tree of PyTorch beside it would have tens of thousands.
MOST_FILES = 4000
MOST_FOLDERS = 20_000
MOST_BYTES = 1 << 20
MOST_IN_ALL = 64 << 20
_PYTHON, _CXX = {".py"}, {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"}
_NOT_ITS_OWN = {
    "build", "dist", "node_modules", "site-packages", "third_party", "runs", "venv", "__pycache__",
    "tests", "test",
}  # fmt: skip
_METADATA = ("pyproject.toml", "setup.cfg", "setup.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What of a checkout is looked at.

    Attributes:
        metadata: pyproject.toml and its kin by name, those that are there.
        python: Python sources by path.
        cxx: C and C++ sources by path.
        partly: whether there are more files than are looked at.
    """

    metadata: dict[str, str]
    python: dict[str, str]
    cxx: dict[str, str]
    partly: bool = False


def read_sources(folder: Path, *, show: Callable[[int], None] = lambda _: None) -> Sources:
    """Read what says which back end a checkout is; links are not followed, tests not looked at.

    Args:
        folder: of the checkout.
        show: is told how many files were looked at, now and then.

    Raises:
        OSError: the folder cannot be listed.
    """
    os.listdir(folder)  # noqa: PTH208  # os.walk would say nothing of one that cannot be listed
    sources = Sources(metadata={}, python={}, cxx={})
    for name in _METADATA:
        if (text := read_text(folder / name)) is not None:
            sources.metadata[name] = text
    signs = 0
    for count, path in enumerate(_files(folder)):
        if path is None or count == MOST_FILES or signs > MOST_IN_ALL:
            return Sources(metadata=sources.metadata, python=sources.python, cxx=sources.cxx, partly=True)
        if count % 100 == 0:
            show(count)
        if (text := read_text(folder / path)) is not None:
            signs += len(text)
            (sources.python if Path(path).suffix in _PYTHON else sources.cxx)[path] = text
    return sources


def read_text(path: Path) -> str | None:
    """A plain file's text, whatever its bytes; None where there is no such file, or one that is too large.

    A named pipe is not opened, which would wait for whoever writes into it.
    """
    try:
        seen = path.lstat()
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_BYTES:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def _files(folder: Path) -> Iterator[str | None]:
    """Sources by their paths; None where there are too many folders to look at."""
    for count, (here, folders, names) in enumerate(os.walk(folder)):
        if count == MOST_FOLDERS:
            yield None
            return
        # A folder with a pyvenv.cfg is an environment, whatever it is called.
        folders[:] = sorted(
            one
            for one in folders
            if one not in _NOT_ITS_OWN
            and not one.startswith(".")
            and not os.path.lexists(os.path.join(here, one, "pyvenv.cfg"))  # noqa: PTH118  # of os.walk
        )
        for name in sorted(names):
            if Path(name).suffix in _PYTHON | _CXX:
                yield Path(here, name).relative_to(folder).as_posix()
