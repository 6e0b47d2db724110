"""Taking files out of an archive that a stranger made: only those that are known, none bigger than agreed.

An artifact of a pull request from a fork is data: its names say nothing of where something is written, its
sizes are counted while it is read, and what it holds besides is passed over.
"""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ci.core.errors import BadFileError
from test_selection.files import atomic_writer

MAX_ENTRIES = 20_000
MAX_ALL = 1 << 30
CHUNK = 1 << 20
_REMEDY = "nothing of it is used; look at the run that made it"


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
    try:
        with zipfile.ZipFile(archive) as opened:
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
                    raise BadFileError(
                        f"has more than {MAX_ALL:,} bytes in all", where=archive, remedy=_REMEDY
                    )
            return taken
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise BadFileError(
            f"is no archive that can be read: {error}", where=archive, remedy=_REMEDY
        ) from error


def _checked(opened: zipfile.ZipFile, archive: Path) -> dict[str, zipfile.ZipInfo]:
    """The files by name.

    Raises:
        BadFileError: a path leads out of the archive, is there twice, or is a link.
    """
    found: dict[str, zipfile.ZipInfo] = {}
    listed = opened.infolist()
    if len(listed) > MAX_ENTRIES:
        raise BadFileError(
            f"holds {len(listed):,} files, more than {MAX_ENTRIES:,}", where=archive, remedy=_REMEDY
        )
    for entry in listed:
        name = entry.filename
        if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts or ":" in name:
            raise BadFileError(
                f"holds a path that leads elsewhere: {name!r:.200}", where=archive, remedy=_REMEDY
            )
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise BadFileError(f"holds a link: {name!r:.200}", where=archive, remedy=_REMEDY)
        if name in found:
            raise BadFileError(f"holds {name!r:.200} twice", where=archive, remedy=_REMEDY)
        if not entry.is_dir():
            found[name] = entry
    return found


def _root(entries: dict[str, zipfile.ZipInfo], beside: str, archive: Path) -> str:
    """The folder of the run within the archive, with its slash; empty for the top."""
    roots = [name[: -len(beside)] for name in entries if PurePosixPath(name).name == beside]
    if not roots:
        raise BadFileError(f"holds no {beside}", where=archive, remedy=_REMEDY)
    return min(roots, key=lambda root: (root.count("/"), root))


def _limit(below: str, wanted: Sequence[Wanted]) -> int | None:
    return next((one.most_bytes for one in wanted if re.fullmatch(one.pattern, below)), None)


def _write(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, limit: int, archive: Path) -> int:
    """Write one file, and return its size."""
    size = 0
    with opened.open(entry) as packed, atomic_writer(path) as file:
        while chunk := packed.read(CHUNK):
            size += len(chunk)
            if size > limit:
                raise BadFileError(
                    f"{path.name} has more than {limit:,} bytes", where=archive, remedy=_REMEDY
                )
            file.write(chunk)
    return size


def bounded_lines(path: Path, *, most_bytes: int, most_line: int = CHUNK) -> Iterator[bytes]:
    """The lines of a gzip file, none longer and not more in all than agreed, however little it is packed to.

    Raises:
        BadFileError: it is no whole gzip file, or holds more.
    """
    unpacker = zlib.decompressobj(wbits=31)
    size, pending = 0, b""
    try:
        with path.open("rb") as stream:
            while not unpacker.eof:
                packed = unpacker.unconsumed_tail or stream.read(CHUNK)
                data = unpacker.decompress(packed, CHUNK)
                # What is all read may have more to give still.
                if not packed and not data:
                    raise BadFileError("is cut short", where=path, remedy=_REMEDY)
                size += len(data)
                *whole, pending = (pending + data).split(b"\n")
                if size > most_bytes or len(pending) > most_line:
                    what = f"{most_bytes:,} bytes" if size > most_bytes else f"{most_line:,} bytes in a line"
                    raise BadFileError(f"has more than {what}", where=path, remedy=_REMEDY)
                yield from whole
    except zlib.error as error:
        raise BadFileError(f"cannot be unpacked: {error}", where=path, remedy=_REMEDY) from error
    if pending:
        yield pending
