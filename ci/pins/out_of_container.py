"""What is taken from a strange container: what it says, and files of it, never more than so much."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from docker.errors import NotFound
from docker.models.containers import Container

from ci.core.archives import damage
from ci.pins.entry_points import Source, files_of
from ci.pins.sources import UntoldError

_MOST_BYTES = 8 << 20
_MOST_LINKS = 8
# A path is the image's own words, and each folder of it is asked several times for each module.
_MOST_FOLDERS = 100
# As engines, which are written in Go, tell the mode of a file.
_IS_FOLDER = 1 << 31


def source_in(made: Container, path: Iterable[str], *, where: str, late: Callable[[], bool]) -> Source:
    """The modules of a container, which need not have run.

    Args:
        made: it.
        path: that its Python looks along.
        where: it is from, for errors.
        late: whether the time for it is over; the source raises UntoldError then.

    Raises:
        UntoldError: the path is too long.
    """
    folders = list(dict.fromkeys(one for one in path if one.startswith("/") and not one.endswith(".zip")))
    if len(folders) > _MOST_FOLDERS:
        raise _strange(f"its Python looks along {len(folders)} folders", where)

    def timely(file: str) -> bytes | None:
        if late():
            raise _strange("its entry points are not found in time", where)
        return _file(made, file)

    return lambda module: _source(timely, folders, module)


def _source(
    file: Callable[[str], bytes | None], folders: Sequence[str], module: str
) -> tuple[Path, str] | None:
    """A module's file, and its text."""
    for folder in folders:
        for path in files_of(module):
            if (data := file(f"{folder}/{path.as_posix()}")) is not None:
                return path, data.decode("utf-8", "replace")
    return None


def _file(made: Container, path: str) -> bytes | None:
    """The bytes of a file in a container; None where there is none of that name."""
    for _ in range(_MOST_LINKS):
        try:
            stream, about = made.get_archive(path)
        except NotFound:
            return None
        if about is None or about["mode"] & _IS_FOLDER:
            return None
        packed = b"".join(bounded(stream, path))
        with damage(Path(path)), tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            member = tar.next()
            if member is None or not member.issym():
                content = None if member is None else tar.extractfile(member)
                return None if content is None else content.read()
            path = posixpath.join(posixpath.dirname(path), member.linkname)
    return None


def counter(where: str) -> Callable[[str], None]:
    """Takes lines until they are too many.

    Args:
        where: they come from, for errors.
    """
    size = 0

    def count(line: str) -> None:
        nonlocal size
        size += len(line) + 1
        if size > _MOST_BYTES:
            raise _too_much(where)

    return count


def bounded(stream: Iterable[bytes], where: str) -> Iterator[bytes]:
    """Pieces of a stream.

    Args:
        stream: of it.
        where: it comes from, for errors.

    Raises:
        UntoldError: they are too many.
    """
    size = 0
    for piece in stream:
        size += len(piece)
        if size > _MOST_BYTES:
            raise _too_much(where)
        yield piece


def _too_much(where: str) -> UntoldError:
    return _strange(f"it says more than {_MOST_BYTES >> 20} MiB", where)


def _strange(what: str, where: str) -> UntoldError:
    return UntoldError(what, where=where, remedy="look at what is in the image before anybody uses it")
