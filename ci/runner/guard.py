"""Files that tests may delete, kept open so that they can be put back."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

CHUNK = 1 << 20
# More files than this are not guarded: open ones are scarce.
MOST_GUARDED = 256
SHOWN = 5


@contextlib.contextmanager
def guarded(run_dir: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Put back the files of a run's folder that are deleted while the block lasts.

    A test that deletes the folder of its run would else take the plan and earlier journals with it, and
    nothing could be reported of what ran. Files that are made in the block are not guarded.

    Args:
        run_dir: the run's folder.
        say: told which were put back, or why they were not.
    """
    with contextlib.ExitStack() as stack:
        files = itertools.islice(_files(run_dir), MOST_GUARDED)
        held = {path: stack.enter_context(path.open("rb")) for path in files}
        try:
            yield
        finally:
            for line in _put_all_back(run_dir, {path: stream.fileno() for path, stream in held.items()}):
                say(line)


def _files(run_dir: Path) -> Iterator[Path]:
    # Not locks, whose names begin with a dot: who holds one has it open, and a new one would be another.
    for folder in (run_dir, run_dir / "journal"):
        if folder.is_dir():
            found = (path for path in sorted(folder.iterdir()) if not path.name.startswith("."))
            yield from (path for path in found if path.is_file())


def _put_all_back(run_dir: Path, held: Mapping[Path, int]) -> Iterator[str]:
    missing = [path for path in held if not path.exists()]
    try:
        for path in missing:
            put_back(path, held[path])
    except OSError as error:
        yield f"a test deleted {len(missing)} files of {run_dir}, which cannot be put back: {error}"
    else:
        if missing:
            names = ", ".join(path.name for path in missing[:SHOWN]) + (", …" if missing[SHOWN:] else "")
            yield f"a test deleted files of {run_dir}; they were put back: {names}"


def put_back(path: Path, descriptor: int) -> None:
    """Write a deleted file anew from what is still open of it; where the name is taken, leave it alone.

    Args:
        path: where it was.
        descriptor: open for reading.

    Raises:
        OSError: it cannot be written.
    """
    if path.exists() or not os.fstat(descriptor).st_size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as stream:
        offset = 0
        while data := os.pread(descriptor, CHUNK, offset):
            stream.write(data)
            offset += len(data)
        stream.flush()
        os.fsync(stream.fileno())
