"""Where logs go: the screen, one file, or a folder with a file a pod; files whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from ci.jobs.logs import Source, Write
from test_selection.files import atomic_writer

Into = Callable[[Source], AbstractContextManager[Write]]


@contextlib.contextmanager
def into_one(write: Write) -> Iterator[Into]:
    """All lines to what takes a line."""

    @contextlib.contextmanager
    def into(_: Source) -> Iterator[Write]:
        yield write

    yield into


@contextlib.contextmanager
def into_file(path: Path) -> Iterator[Into]:
    """All lines to one file; what was followed until Ctrl-C is kept."""
    interrupted = False
    with _lines_to(path) as write, into_one(write) as into:
        try:
            yield into
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def into_folder(folder: Path) -> Iterator[Into]:
    """The lines of each pod to a file of its own, named as the pod; none where it has no log."""
    yield lambda source: _lines_to(folder / f"{source.name}.log")


@contextlib.contextmanager
def _lines_to(path: Path) -> Iterator[Write]:
    with atomic_writer(path) as stream:
        yield lambda line: stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
