"""Reading archives that may be damaged or hostile: never more than so much, and never a crash.

Of an artifact of a pull request from a fork only those files are taken that are known: its names say nothing
of where something is written, its sizes are counted while it is read, and what it holds besides is passed
over.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

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
# What is read whole: METADATA and PKG-INFO.
MOST_OF_A_TEXT = 64 << 20
_CHUNK = 1 << 20
# How every installer can unpack a wheel; the others have no bound on what a few bytes become.
_SQUEEZED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
Entry = TypeVar("Entry", zipfile.ZipInfo, tarfile.TarInfo)
# Of an artifact of a run.
MAX_ENTRIES = 20_000
MAX_ALL = 1 << 30
_REMEDY = "nothing of it is used; look at the run that made it"


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


def text_in(path: Path, name: re.Pattern[str]) -> bytes | None:
    """The first file of a wheel or an sdist whose whole name fits a pattern; None where there is none.

    Raises:
        BadFileError: the archive is damaged, or what is read of it larger than anything that is published.
    """
    with damage(path):
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                entry = next((one for one in wheel.infolist() if name.fullmatch(one.filename)), None)
                if entry is None:
                    return None
                if entry.compress_type not in _SQUEEZED:
                    raise ValueError(
                        f"{entry.filename!r} is compressed in a way that installers need not know"
                    )
                return wheel.read(_refuse_large(entry, entry.filename, entry.file_size))
        with _BoundedTar(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as sdist:
            member = next((one for one in sdist if one.isfile() and name.fullmatch(one.name)), None)
            if member is None:
                return None
            stream = sdist.extractfile(_refuse_large(member, member.name, member.size))
            return b"" if stream is None else stream.read()


class _BoundedTar(gzip.GzipFile):
    """The unpacked bytes of a tar file, as far as anything that is published goes.

    The size of a member is known before it is passed over, but that of a header is not.
    """

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MOST_OF_A_TEXT:
            raise ValueError(f"a header says it has {size:,} bytes")
        return super().read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > MOST_BYTES:
            raise ValueError(f"unpacks to more than {MOST_BYTES >> 30} GiB")
        return super().seek(offset, whence)


def _refuse_large(entry: Entry, name: str, size: int) -> Entry:
    if size > MOST_OF_A_TEXT:
        raise ValueError(f"{name!r} is too large")
    return entry


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
            limit = next((one.most_bytes for one in wanted if re.fullmatch(one.pattern, below)), None)
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
            raise _bad(f"contains a path that leads outside: {name!r:.200}", archive)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise _bad(f"contains a link: {name!r:.200}", archive)
        if name in found:
            raise _bad(f"holds {name!r:.200} twice", archive)
        if not entry.is_dir():
            found[name] = entry
    return found


def _root(entries: dict[str, zipfile.ZipInfo], beside: str, archive: Path) -> str:
    """The folder of the run within the archive, with its slash; empty for the top."""
    roots = [name[: -len(beside)] for name in entries if PurePosixPath(name).name == beside]
    if not roots:
        raise _bad(f"contains no {beside}", archive)
    return min(roots, key=lambda root: (root.count("/"), root))


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
                    raise _bad("is truncated", path)
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
