"""Files of HUD's rows, `{kind}/{run_id}/{attempt}`: one JSON object a line, gzip.

What is read is another's word: each line is checked against the layout before anything is made of it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, Annotated, Any, Literal, NotRequired, Protocol, cast

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ci.errors import BadFileError
from ci.hud.callback import MAX_WHOLE, explain
from ci.hud.rows import ID_PROPERTY, NO_MESSAGE, Job, Row

Kind = Literal["test_run", "test_run_summary", "failed_test_runs"]
KINDS: tuple[Kind, ...] = ("test_run", "test_run_summary", "failed_test_runs")
# No line of ours comes near: an outcome's text ends at 64 Ki characters.
LINE_BYTES = 4 * 1024 * 1024


def _several(value: Any) -> Any:
    # One element stands as an object, several as an array, none as either or as null.
    return [] if value is None else value if isinstance(value, list) else [value]


Whole = Annotated[int, Field(ge=0, le=MAX_WHOLE, strict=True)]
Number = Annotated[int, Field(ge=1, le=MAX_WHOLE, strict=True)]
Text = Annotated[str, Field(max_length=8192)]
LongText = Annotated[str, Field(max_length=1024 * 1024)]
Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False, strict=True)]


@with_config(ConfigDict(extra="ignore"))
class _Outcome(TypedDict):
    message: NotRequired[LongText | None]
    type: NotRequired[Text | None]
    text: NotRequired[LongText | None]


@with_config(ConfigDict(extra="ignore"))
class _Said(TypedDict):
    text: NotRequired[LongText]


@with_config(ConfigDict(extra="ignore"))
class _Property(TypedDict):
    name: Text
    value: NotRequired[Text]


@with_config(ConfigDict(extra="ignore"))
class _Properties(TypedDict):
    property: NotRequired[Annotated[list[_Property], BeforeValidator(_several)]]


Outcomes = Annotated[list[_Outcome], BeforeValidator(_several)]

_TestRun = TypedDict(
    "_TestRun",
    {
        "workflow_id": Number,
        "workflow_run_attempt": Number,
        "job_id": Number,
        "invoking_file": Text,
        "name": Text,
        "classname": NotRequired[Text],
        "file": NotRequired[Text],
        "line": NotRequired[Whole | None],
        "time": NotRequired[Seconds],
        "failure": NotRequired[Outcomes],
        "error": NotRequired[Outcomes],
        "skipped": NotRequired[Outcomes],
        "rerun": NotRequired[Outcomes],
        "system-out": NotRequired[_Said | None],
        "system-err": NotRequired[_Said | None],
        "properties": NotRequired[_Properties | None],
    },
)
_TestRun.__pydantic_config__ = ConfigDict(extra="ignore")  # type: ignore[attr-defined]


@with_config(ConfigDict(extra="ignore"))
class _Summary(TypedDict):
    file: Text
    classname: Text
    job_id: Number
    workflow_id: Number
    workflow_run_attempt: Number
    invoking_file: Text
    tests: Whole
    errors: Whole
    failures: Whole
    skipped: Whole
    successes: Whole
    time: Seconds


_LAYOUTS: Mapping[str, TypeAdapter[Any]] = {
    "test_run": TypeAdapter(_TestRun),
    "failed_test_runs": TypeAdapter(_TestRun),
    "test_run_summary": TypeAdapter(_Summary),
}


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
        self._packed.write(json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n")
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
    layout, keys, number = _LAYOUTS[kind], job.keys(), 0
    remedy = "write it with `spyre-ci hud rows`, or as HUD lays it out"
    try:
        for number, line in enumerate(_lines(stream), start=1):  # it is told of below
            row = layout.validate_json(line)
            if any(row[key] != value for key, value in keys.items()):
                other = ", ".join(f"{key} {row[key]}" for key in keys)
                said = f"is of another job ({other}), line {number}"
                raise BadFileError(said, where=name, remedy="send it as that job's")
            yield row if kind == "test_run_summary" else _row(row)
    except ValidationError as error:
        what = f"line {number}: {explain(error.errors()[0])}"
        raise BadFileError(what, where=name, remedy=remedy) from error
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        what = f"cannot be read after line {number}: {error}"
        raise BadFileError(what, where=name, remedy=remedy) from error


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


def _row(read: dict[str, Any]) -> Row:
    """As `case_row` makes it: an outcome always has a message, and one property is kept."""
    read.setdefault("classname", "")
    read.setdefault("time", 0.0)
    read["file"] = read.get("file") or ""
    for tag in ("failure", "error", "skipped", "rerun"):
        if tag in read:
            found = [{**one, "message": one.get("message") or NO_MESSAGE} for one in read.pop(tag)]
            if found:
                read[tag] = found if len(found) > 1 else found[0]
    properties = (read.pop("properties", None) or {}).get("property")
    if properties:
        kept = next((one for one in properties if one["name"] == ID_PROPERTY), properties[0])
        read["properties"] = {"property": {"name": kept["name"], "value": kept.get("value", "")}}
    for tag in ("system-out", "system-err"):
        if tag in read and not (read[tag] or {}).get("text"):
            del read[tag]
    return read
