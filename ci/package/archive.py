"""Reading sdists and wheels that may be damaged or hostile: never more than so much, and never a crash."""

from __future__ import annotations

import errno
import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal, cast

from ci.core.errors import BadFileError

# What archives raise that nobody made, or that somebody made for this; RuntimeError: encrypted, or nested
# without end.
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError,
    ValueError, LookupError, NotImplementedError, RuntimeError, OverflowError,
)  # fmt: skip
# torch's own wheels are of 2 GiB and 15,000 files.
MOST_BYTES = 4 << 30
MOST_FILES = 200_000
# What is read whole: METADATA, RECORD and the like.
MOST_OF_A_TEXT = 64 << 20
_CHUNK = 1 << 20
_PATH = 4096
# How every installer can unpack a wheel; the others have no bound on what a few bytes become.
_SQUEEZED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
Kind = Literal["sdist", "wheel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file in an archive.

    Attributes:
        name: its path there.
        size: in bytes, unpacked.
        mode: its Unix rights; 0 where the archive does not say.
        link: where it leads; empty for what is no link.
        special: whether it is a device, a pipe or the like.
    """

    name: str
    size: int
    mode: int
    link: str = ""
    special: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A member while its archive is walked.

    Attributes:
        member: it.
        path: of the archive.
        opener: opens its bytes; None for what has none, such as a link.
    """

    member: Member
    path: Path
    opener: Callable[[], IO[bytes] | None]

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, piece by piece.

        Raises:
            BadFileError: it is damaged.
        """
        with damage(self.path):
            if (stream := self.opener()) is not None:
                while chunk := stream.read(_CHUNK):
                    yield chunk

    def whole(self) -> bytes:
        """Its bytes, which are a text.

        Raises:
            BadFileError: it is damaged, or larger than any text.
        """
        if self.member.size > MOST_OF_A_TEXT:
            raise _refused(self.path, f"{self.member.name!r} is too large for what it is to be")
        return b"".join(self.chunks())


def walk(path: Path, kind: Kind) -> Iterator[Entry]:
    """Every file of an archive in its order, each to be read before the next is asked for.

    Raises:
        BadFileError: it is damaged, or larger than anything that is published.
    """
    with damage(path):
        yield from _zipped(path) if kind == "wheel" else _tarred(path)


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Tell what libraries raise of an archive as the damage it is.

    Raises:
        BadFileError: something was raised.
    """
    try:
        yield
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno not in {None, errno.EINVAL}:
            raise  # what the file system refuses says nothing of the content
        said = str(error) or type(error).__name__
        raise BadFileError(f"is damaged: {said}", where=path, remedy="build it again") from error


def _zipped(path: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        _refuse_large(path, len(infos), sum(info.file_size for info in infos))
        for info in infos:
            if info.compress_type not in _SQUEEZED:
                raise ValueError(f"{info.filename!r} is compressed in a way that installers need not know")
            if not info.is_dir():
                yield Entry(_of_zip(archive, info), path, partial(archive.open, info))


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    mode, link = info.external_attr >> 16, ""
    if stat.S_ISLNK(mode):
        with archive.open(info) as stream:
            link = stream.read(_PATH).decode(errors="replace")
    return Member(name=info.filename, size=info.file_size, mode=stat.S_IMODE(mode), link=link)


def _tarred(path: Path) -> Iterator[Entry]:
    with gzip.open(path) as stream, tarfile.open(fileobj=_bounded(path, stream), mode="r:") as packed:
        files = size = 0
        for info in packed:
            files, size = files + 1, size + info.size
            _refuse_large(path, files, size)
            if not info.isdir():
                # A hard link's bytes are those of the file it names.
                opener = partial(packed.extractfile, info) if info.isfile() else _nothing
                yield Entry(_of_tar(info), path, opener)


def _nothing() -> None:
    return None


def _of_tar(info: tarfile.TarInfo) -> Member:
    is_link = info.issym() or info.islnk()
    return Member(
        name=info.name,
        size=info.size,
        mode=info.mode,
        link=info.linkname if is_link else "",
        special=not (info.isfile() or is_link),
    )


class _Bounded:
    """The unpacked bytes of a tar file, as far as anything that is published goes.

    The size of a member is known before it is passed over, but that of a header is not.
    """

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path, self._stream = path, stream

    def read(self, size: int) -> bytes:
        if size > MOST_OF_A_TEXT:
            raise _refused(self._path, f"a header says it has {size:,} bytes")
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        # Headers come to it.
        _refuse_large(self._path, 0, position - MOST_BYTES)
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()


def _bounded(path: Path, stream: gzip.GzipFile) -> IO[bytes]:
    return cast("IO[bytes]", _Bounded(path, cast("IO[bytes]", stream)))


def _refuse_large(path: Path, files: int, size: int) -> None:
    if size > MOST_BYTES:
        raise _refused(path, f"unpacks to more than {MOST_BYTES >> 30} GiB")
    if files > MOST_FILES:
        raise _refused(path, f"has more than {MOST_FILES:,} files")


def _refused(path: Path, what: str) -> BadFileError:
    return BadFileError(what, where=path, remedy="nothing like it is published: look at what made it")
