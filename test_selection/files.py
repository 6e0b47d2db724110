"""Reading and writing the files that flow through a run: whole or not at all, each with its schema."""

from __future__ import annotations

import contextlib
import errno
import gc
import gzip
import io
import json
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec

from test_selection.errors import BadFileError, MissingInputError, UsageError

# Level 1 is within a few per cent of the default's size on ids and three times as fast.
GZIP_LEVEL = 1
# What is read at once is no larger, and a line no longer.
MAX_BYTES, MAX_LINE = 1 << 30, 16 << 20
# Gzip makes a tenth or so of what we write; what unpacks to this much more, past so many bytes, is not ours.
MAX_RATIO, SMALL_BYTES = 200, 64 << 20
# What is longer is not told in words.
MAX_SEEN_BITS = 96
T = TypeVar("T")


def schema_name(kind: str, version: int = 1) -> str:
    """The value of a file's `schema` key, such as `spyre-ci/plan/1`."""
    return f"spyre-ci/{kind}/{version}"


def document_text(kind: str, content: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """What a verb prints under `--json`: one object, whose schema says which.

    Args:
        kind: as in `spyre-ci/<kind>/1`; `docs/schemas` describes each.
        content: its fields; what JSON does not have, such as a path, becomes text.
        on_one_line: for what a pipeline takes as the last line of a log in which other programs wrote too.
    """
    return json_text({"schema": schema_name(kind), **content}, on_one_line=on_one_line)


def json_text(document: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """What a verb prints of a document that has its schema already, such as one it wrote to a file."""
    text = json.dumps(document, indent=None if on_one_line else 1, default=str)
    # Azure's runner, and GitHub's, read this anywhere in a line as a command.
    return text.replace("##[", "#\\u0023[")


@contextlib.contextmanager
def atomic_writer(path: Path, *, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` that takes its place when the block ends without an error.

    Whoever reads `path` meanwhile sees the old file or the new one, never a part.

    Args:
        path: the file to write; its folder is made.
        mode: permission bits of the new file.

    Raises:
        UsageError: something else than a file, such as a folder or a device, has that name.
    """
    if path.exists() and not path.is_file():
        raise UsageError(
            "exists and is not a file, so it is not replaced", where=path, remedy="name another file"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a disk that filled while writing does not say where
        raise


def write_text(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    with atomic_writer(path, mode=mode) as stream:
        # Ids and messages may hold lone surrogates (file names, cut output): they are kept readable.
        stream.write(text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write one JSON document of schema `kind`; a name ending in `.gz` is compressed."""
    packed = path.suffix == ".gz"
    document = {"schema": schema_name(kind), **content}
    data = (json.dumps(document, indent=None if packed else 1, ensure_ascii=True) + "\n").encode()
    if packed:
        data = gzip.compress(data, mtime=0)
    with atomic_writer(path) as stream:
        stream.write(data)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading, unless it is a device, a pipe or a folder, which may hang or never end.

    Raises:
        OSError: it is none, or cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bounded(path: Path, most: int = MAX_BYTES) -> bytes:
    """What a regular file holds.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger than `most` bytes.
    """
    with open_regular(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
    return data


class _Unpacked(io.RawIOBase):
    """What a gzip file unpacks to, refused once that is out of all proportion to it."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed, self._stream, self._bytes = packed, gzip.GzipFile(fileobj=packed), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._bytes += count
        if self._bytes > SMALL_BYTES and self._bytes > MAX_RATIO * self._packed.tell():
            raise ValueError(f"unpacks to more than {MAX_RATIO} times its size")
        return count


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A file of ours, unpacked where its name ends in `.gz`."""
    with open_regular(path) as stream:
        yield io.BufferedReader(_Unpacked(stream)) if path.suffix == ".gz" else stream


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """Read a document that `write_json` wrote.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: it is not JSON, or not of schema `kind`.
    """
    return _checked(load_json(path, kind), path, kind)


def load_json(path: Path, kind: str) -> Any:
    """Read any JSON document (`.gz` or plain), such as one that is not ours; `kind` names it in messages.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: it is not JSON.
    """
    try:
        with _opened(path) as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"is larger than {MAX_BYTES >> 20} MiB")
        return json.loads(data)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise _missing(path, kind) from error
    except (ValueError, EOFError, OSError, zlib.error, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # what the file system refuses says nothing of the content
        raise BadFileError(
            f"cannot be read as JSON: {error}", where=path, remedy=f"write the {kind} file again"
        ) from error


def convert(content: Any, kind: type[T], *, where: Path | str, remedy: str) -> T:
    """Plain values of a file as a dataclass; keys that it does not have are passed over.

    Args:
        content: as JSON has it.
        kind: the dataclass.
        where: what errors name.
        remedy: what to do where it is none.

    Raises:
        BadFileError: a key is missing or of the wrong kind.
    """
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}{_seen(content, str(error))}",
            where=where,
            remedy=remedy,
        ) from error


def _seen(content: Any, error: str) -> str:
    """The value that an error of msgspec is about, where it is a number: its type alone says too little."""
    _, _, path = error.partition("`$")
    try:
        for key, number in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            content = content[key or int(number)]
    except (KeyError, IndexError, TypeError):
        return ""
    short = type(content) is float or (type(content) is int and content.bit_length() <= MAX_SEEN_BITS)
    return f" (seen: {content})" if short else ""


def write_lines(path: Path, kind: str, header: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write gzip JSON lines: a header line that carries the schema, then a line a row."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    with atomic_writer(path) as stream, _gzip_stream(stream) as packed:
        packed.write((encode({"schema": schema_name(kind), **header}) + "\n").encode())
        buffer: list[str] = []
        for row in rows:
            buffer.append(encode(row))
            if len(buffer) >= 4096:  # noqa: PLR2004  # few enough to hold, many enough to compress at once
                packed.write(("\n".join(buffer) + "\n").encode())
                buffer.clear()
        if buffer:
            packed.write(("\n".join(buffer) + "\n").encode())


def read_lines(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the header, then every row, of a file that `write_lines` wrote (`.gz` or plain).

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a line is not JSON, the file is cut short, or the schema is another.
    """
    number = 0
    try:
        with _opened(path) as packed, io.TextIOWrapper(packed, encoding="utf-8") as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE), ""), start=1):
                row = json.loads(line)
                yield _checked(row, path, kind) if number == 1 else row
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise _missing(path, kind) from error
    except (ValueError, EOFError, OSError, zlib.error, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # what the file system refuses says nothing of the content
        raise BadFileError(
            f"cannot be read: {error}",
            where=f"{path}:{max(number, 1)}",
            remedy=f"the file is truncated or is not a {_shown(kind)} file; write it again",
        ) from error
    if number == 0:
        raise BadFileError("is empty", where=path, remedy=f"write the {kind} file again")


def _gzip_stream(stream: IO[bytes]) -> gzip.GzipFile:
    # No name and no time in the header: the same content gives the same bytes.
    return gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=stream, mtime=0)


def _checked(content: Any, path: Path, kind: str) -> dict[str, Any]:
    wanted = schema_name(kind)
    seen = content.get("schema") if isinstance(content, dict) else None
    if seen != wanted:
        raise BadFileError(
            f"schema is {seen!r}, not {wanted!r}",
            where=path,
            remedy=f"name a {kind} file, or write it again with this version",
        )
    return cast("dict[str, Any]", content)


def _shown(kind: str) -> str:
    """A kind of file in the words of today; the files keep the name they have."""
    return {"ladder": "selection lock"}.get(kind, kind)


def _missing(path: Path, kind: str) -> MissingInputError:
    return MissingInputError(
        f"there is no {_shown(kind)} file",
        where=path,
        remedy="check the path, or run the step before it first",
    )


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Leave the cycle collector off for a block that makes no cycles.

    Looking for them among a million tests takes as long as the work itself. What was on is on afterwards,
    whatever the block raised.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
