"""Reading archives that may be damaged or hostile: never more than so much, and never a crash.

Sdists and wheels are walked. Of an artifact of a pull request from a fork only those files are taken that
are known: its names say nothing of where something is written, its sizes are counted while it is read, and
what it holds besides is passed over.
"""

from __future__ import annotations

import errno
import gzip
import lzma
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

from ci.core.errors import BadFileError
from test_selection.files import atomic_writer

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
# Of an artifact of a run.
MAX_ENTRIES = 20_000
MAX_ALL = 1 << 30
_REMEDY = "nothing of it is used; look at the run that made it"


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
def damage(path: Path, said: str = "is damaged", remedy: str = "build it again") -> Iterator[None]:
    """Tell what libraries raise of an archive as the damage it is.

    Args:
        path: of the archive.
        said: of it.
        remedy: of it too.

    Raises:
        BadFileError: something was raised.
    """
    try:
        yield
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno not in {None, errno.EINVAL}:
            raise  # what the file system refuses says nothing of the content
        why = str(error) or type(error).__name__
        raise BadFileError(f"{said}: {why}", where=path, remedy=remedy) from error


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Files that are taken.

    Attributes:
        pattern: the whole path below the run's folder, as a regular expression.
        most_bytes: of one such file, unpacked.
    """

    pattern: str
    most_bytes: int


def unpack(archive: Path, into: Path, wanted: Sequence[Wanted], *, beside: str) -> list[Path]:
    """Write the wanted files of an archive below a folder, and say which there were.

    Args:
        archive: a zip.
        into: the folder; what lies there already is replaced.
        wanted: what is taken; anything else stays where it is.
        beside: the file that tells where in the archive the run's folder is.

    Raises:
        BadFileError: it is no zip, holds what no artifact of ours does, or more than agreed.
    """
    with damage(archive, "is no archive that can be read", _REMEDY), zipfile.ZipFile(archive) as opened:
        entries = _checked(opened, archive)
        root = _root(entries, beside, archive)
        taken: list[Path] = []
        room = MAX_ALL
        for name, entry in entries.items():
            below = name[len(root) :] if name.startswith(root) else ""
            limit = _limit(below, wanted)
            if limit is not None:
                room -= _write(opened, entry, into / below, limit, archive)
                taken.append(into / below)
            if room < 0:
                raise _bad(f"has more than {MAX_ALL:,} bytes in all", archive)
        return taken


def _checked(opened: zipfile.ZipFile, archive: Path) -> dict[str, zipfile.ZipInfo]:
    """The files by name.

    Raises:
        BadFileError: a path leads out of the archive, is there twice, or is a link.
    """
    found: dict[str, zipfile.ZipInfo] = {}
    listed = opened.infolist()
    if len(listed) > MAX_ENTRIES:
        raise _bad(f"holds {len(listed):,} files, more than {MAX_ENTRIES:,}", archive)
    for entry in listed:
        name = entry.filename
        if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts or ":" in name:
            raise _bad(f"holds a path that leads elsewhere: {name!r:.200}", archive)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise _bad(f"holds a link: {name!r:.200}", archive)
        if name in found:
            raise _bad(f"holds {name!r:.200} twice", archive)
        if not entry.is_dir():
            found[name] = entry
    return found


def _root(entries: dict[str, zipfile.ZipInfo], beside: str, archive: Path) -> str:
    """The folder of the run within the archive, with its slash; empty for the top."""
    roots = [name[: -len(beside)] for name in entries if PurePosixPath(name).name == beside]
    if not roots:
        raise _bad(f"holds no {beside}", archive)
    return min(roots, key=lambda root: (root.count("/"), root))


def _limit(below: str, wanted: Sequence[Wanted]) -> int | None:
    return next((one.most_bytes for one in wanted if re.fullmatch(one.pattern, below)), None)


def _write(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, limit: int, archive: Path) -> int:
    """Write one file, and return its size."""
    size = 0
    with opened.open(entry) as packed, atomic_writer(path) as file:
        while chunk := packed.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise _bad(f"{path.name} has more than {limit:,} bytes", archive)
            file.write(chunk)
    return size


def bounded_lines(path: Path, *, most_bytes: int, most_line: int = _CHUNK) -> Iterator[bytes]:
    """The lines of a gzip file, none longer and not more in all than agreed, however little it is packed to.

    Raises:
        BadFileError: it is no whole gzip file, or holds more.
    """
    unpacker = zlib.decompressobj(wbits=31)
    size, pending = 0, b""
    try:
        with path.open("rb") as stream:
            while not unpacker.eof:
                packed = unpacker.unconsumed_tail or stream.read(_CHUNK)
                data = unpacker.decompress(packed, _CHUNK)
                # What is all read may have more to give still.
                if not packed and not data:
                    raise _bad("is cut short", path)
                size += len(data)
                *whole, pending = (pending + data).split(b"\n")
                if size > most_bytes or len(pending) > most_line:
                    what = f"{most_bytes:,} bytes" if size > most_bytes else f"{most_line:,} bytes in a line"
                    raise _bad(f"has more than {what}", path)
                yield from whole
    except zlib.error as error:
        raise _bad(f"cannot be unpacked: {error}", path) from error
    if pending:
        yield pending


def _bad(what: str, where: Path) -> BadFileError:
    return BadFileError(what, where=where, remedy=_REMEDY)
