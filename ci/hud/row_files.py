"""Files of HUD's rows, `{kind}/{run_id}/{attempt}`: one JSON object a line, gzip.

What is read is another's word: each line is checked against the layout before anything is made of it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, Any, Protocol, cast

import msgspec

from ci.errors import BadFileError
from ci.hud.row_layout import DECODERS, Kind
from ci.hud.rows import (
    ID_PROPERTY,
    MESSAGE_CHARACTERS,
    NO_MESSAGE,
    TAGS,
    TEXT_CHARACTERS,
    TEXT_TAGS,
    Job,
    Row,
)

# No line of ours comes near: an outcome's text ends at 64 Ki characters.
LINE_BYTES = 4 * 1024 * 1024


class Source(Protocol):
    """Where bytes of a file come from."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to so many bytes."""

    def readline(self, size: int = -1, /) -> bytes:
        """A line, or its first so many bytes."""


def object_name(kind: Kind, job: Job) -> str:
    """Where a file of rows is put, below a folder or a bucket."""
    return f"{kind}/{job.workflow_id}/{job.workflow_run_attempt}"


class RowWriter(AbstractContextManager["RowWriter"]):
    """Writes rows to a stream, whose end is written as the block ends; the same rows give the same bytes.

    Args:
        stream: stays open.

    Attributes:
        rows: how many were written.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._packed = gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0, compresslevel=6)
        self.rows = 0

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one."""
        self._packed.write(msgspec.json.encode(row) + b"\n")
        self.rows += 1

    def __exit__(self, *_: object) -> None:
        self._packed.close()


def read_rows(stream: Source, job: Job, *, kind: Kind, name: str) -> Iterator[Row]:
    """The rows of a file, checked, as `case_row` makes them.

    Args:
        stream: the file's bytes, unpacked.
        job: the one they must be of.
        kind: which layout.
        name: of the file, for errors.

    Raises:
        BadFileError: a line is no row of this layout or is of another job; the file is cut off.
    """
    decode, number = DECODERS[kind].decode, 0
    ids = job.numbers()
    try:
        for number, line in enumerate(_lines(stream), start=1):
            row = decode(line)
            if (row["workflow_id"], row["workflow_run_attempt"], row["job_id"]) != ids:
                other = ", ".join(f"{key} {row[key]}" for key in Job.NAMES)
                said = f"is of another job ({other}), line {number}"
                raise BadFileError(said, where=name, remedy="send it as that job's")
            yield row if kind == "test_run_summary" else _row(row)
    except msgspec.DecodeError as error:
        remedy = "write it with `spyre-ci hud rows`, or as HUD lays it out"
        raise BadFileError(f"line {number}: {error}", where=name, remedy=remedy) from error
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        what = f"cannot be read after line {number}: {error}"
        raise BadFileError(what, where=name, remedy="send it again; it may have been cut") from error


def unpacked(stream: IO[bytes]) -> IO[bytes]:
    """A file's bytes, whether it is gzip or plain.

    Args:
        stream: can be sought in.
    """
    stream.seek(0)
    packed = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stream, mode="rb")) if packed else stream


def _lines(source: Source) -> Iterator[bytes]:
    while line := source.readline(LINE_BYTES + 1):
        if len(line) > LINE_BYTES:
            raise ValueError(f"a line is longer than {LINE_BYTES} bytes")
        if line.strip():
            yield line


def _row(row: Row) -> Row:
    """As `case_row` makes it: no nulls, an outcome always has a message, and one property is kept."""
    if None in row.values():
        for key in [key for key, value in row.items() if value is None]:
            del row[key]
    row.setdefault("classname", "")
    row.setdefault("file", "")
    row.setdefault("time", 0.0)
    for tag in TAGS:
        if tag in row:
            _outcomes(row, tag)
    for tag in TEXT_TAGS:
        if tag in row:
            said = row[tag].get("text")
            if not said:
                del row[tag]
            elif len(said) > TEXT_CHARACTERS:
                row[tag]["text"] = said[-TEXT_CHARACTERS:]
    if "properties" in row:
        _one_property(row)
    return row


def _outcomes(row: Row, tag: str) -> None:
    told = row.pop(tag)
    found = [_with_message(one) for one in (told if isinstance(told, list) else [told])]
    if found:
        row[tag] = found if len(found) > 1 else found[0]


def _with_message(outcome: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in outcome.items() if value is not None}
    if len(told.get("text", "")) > TEXT_CHARACTERS:
        told["text"] = told["text"][-TEXT_CHARACTERS:]
    return told | {"message": told.get("message", "")[:MESSAGE_CHARACTERS] or NO_MESSAGE}


def _one_property(row: Row) -> None:
    told = row.pop("properties").get("property")
    found = told if isinstance(told, list) else [] if told is None else [told]
    if len(found) == 1 and found[0].get("value") is not None:
        row["properties"] = {"property": found[0]}
    elif found:
        kept = next((one for one in found if one["name"] == ID_PROPERTY), found[0])
        row["properties"] = {"property": {"name": kept["name"], "value": kept.get("value") or ""}}
