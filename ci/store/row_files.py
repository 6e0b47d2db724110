"""Files of HUD's rows, `{kind}/{run_id}/{attempt}`: one JSON object a line, gzip.

What is read is another's word: each line is checked against the layout before anything is made of it.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from ci.core.errors import BadFileError, MissingInputError
from ci.core.object_store import Bucket
from ci.record.junit_reader import UNREADABLE, Source
from ci.store.rows import (
    COUNTS,
    KINDS,
    Job,
    Kind,
    TestRun,
    is_failed,
    junit_rows,
    mend,
    no_summaries,
    summarize,
    without_nulls,
)
from test_selection.files import atomic_writer

_DECODER = msgspec.json.Decoder(TestRun)
# No line of ours comes near: an outcome's text ends at 64 Ki characters.
LINE_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 64 * 1024
# A few kilobytes, unpacked, can hold so many that reading them takes minutes.
MOST_EMPTY_LINES = 10_000


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

    def write(self, row: TestRun | dict[str, Any]) -> None:
        """Write one."""
        self._packed.write(msgspec.json.encode(row) + b"\n")
        self.rows += 1

    def __exit__(self, *_: object) -> None:
        self._packed.close()


def read_rows(stream: Source, job: Job, *, name: str) -> Iterator[TestRun]:
    """The rows of a file of `test_run`, checked, as `ci.store.rows` makes them.

    Args:
        stream: the file's bytes, unpacked.
        job: the one they must be of.
        name: of the file, for errors.

    Raises:
        BadFileError: a line is no row of this layout or is of another job; the file is cut off.
    """
    lines = empty = 0
    ids = job.numbers()
    try:
        for piece in _pieces(stream):
            seen = 0
            for number, row in _numbered(piece, first=lines + 1, name=name):
                if (row.workflow_id, row.workflow_run_attempt, row.job_id) != ids:
                    other = ", ".join(f"{key} {getattr(row, key)}" for key in Job.NAMES)
                    said = f"is of another job ({other}), line {number}"
                    raise BadFileError(said, where=name, remedy="send it as that job's")
                mend(row)
                seen += 1
                yield row
            found = piece.count(b"\n")
            lines += found
            empty += found - seen
            if empty > MOST_EMPTY_LINES:
                raise ValueError(f"more than {MOST_EMPTY_LINES} lines are empty")
    except (*UNREADABLE, RecursionError) as error:
        what = f"cannot be read after line {lines}: {error}"
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


def _pieces(source: Source) -> Iterator[bytes]:
    """Whole lines, many at a time, but few enough that they stay in the processor's cache."""
    rest = b""
    while read := source.read(PIECE_BYTES):
        end = read.rfind(b"\n") + 1
        if end:
            yield rest + read[:end]
            rest = b""
        rest += read[end:]
        if len(rest) > LINE_BYTES:
            raise ValueError(f"a line is longer than {LINE_BYTES} bytes")
    if rest:
        yield rest + b"\n"


def _numbered(piece: bytes, *, first: int, name: str) -> Iterable[tuple[int, TestRun]]:
    """The rows of lines with their numbers.

    All lines at once are twice as fast as one after the other; one by one they are read where that fails, for
    the number of the line, or where lines are empty or hold several values.
    """
    try:
        rows = _DECODER.decode_lines(piece)
    except (msgspec.DecodeError, RecursionError):
        rows = []
    if len(rows) == piece.count(b"\n"):
        return enumerate(rows, first)
    lines = enumerate(piece.split(b"\n"), first)
    return ((number, _of_line(line, number, name)) for number, line in lines if line.strip())


def _of_line(line: bytes, number: int, name: str) -> TestRun:
    """A line's row; a null in it is taken for nothing, as some writers mean it."""
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError as error:
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.convert(without_nulls(msgspec.json.decode(line)), TestRun)
        remedy = "write it with `spyre-ci hud rows`, or as HUD lays it out"
        raise BadFileError(f"line {number}: {error}", where=name, remedy=remedy) from error


def junit_files(paths: Sequence[Path]) -> list[Path]:
    """The JUnit files at paths, in order; of a folder all `*.xml` and `*.xml.gz` below it.

    Raises:
        MissingInputError: a path is not found, or a folder has none.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted([*path.rglob("*.xml"), *path.rglob("*.xml.gz")]) if path.is_dir() else [path]
        if not inside or not all(one.is_file() for one in inside):
            raise MissingInputError("there is no JUnit file", where=path, remedy="check the path")
        found += inside
    return found


def rows_of_files(files: Sequence[Path], job: Job) -> Iterator[TestRun]:
    """The rows of JUnit files, one file after the other.

    Raises:
        BadFileError: one is no JUnit, or is cut off.
    """
    for file in files:
        with file.open("rb") as stream:
            yield from junit_rows(unpacked(stream), job, name=str(file))


def export_rows(files: Sequence[Path], job: Job, folder: Path) -> Mapping[Kind, int]:
    """Write `{kind}.jsonl.gz` of every kind into a folder; returns how many rows each has.

    Args:
        files: JUnit of any runner, plain or gzip.
        job: whose they are.
        folder: is made.

    Raises:
        BadFileError: a file is no JUnit or is cut off, or they hold no test at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    summaries = no_summaries()
    with contextlib.ExitStack() as stack:
        writers = {
            kind: stack.enter_context(RowWriter(stack.enter_context(atomic_writer(row_file(folder, kind)))))
            for kind in KINDS
        }
        for row in rows_of_files(files, job):
            writers["test_run"].write(row)
            summarize(summaries, row)
            if is_failed(row):
                writers["failed_test_runs"].write(row)
        if not writers["test_run"].rows:
            raise BadFileError(
                "contains no test case",
                where=", ".join(map(str, files[:3])),
                remedy="check what the runner wrote",
            )
        for (invoking, name, classname), counts in summaries.items():
            told = dict(zip(COUNTS, (*counts[:5], round(counts[5], 6)), strict=True))
            of = {"invoking_file": invoking, "file": name, "classname": classname}
            writers["test_run_summary"].write(job.keys() | of | told)
    return {kind: writer.rows for kind, writer in writers.items()}


def row_file(folder: Path, kind: Kind) -> Path:
    """Where `export_rows` writes a kind."""
    return folder / f"{kind}.jsonl.gz"


def place_of(address: str) -> Callable[[str, Path], str]:
    """Where files are put: a function that takes a name and a file, and returns its address there.

    A file is there whole or not at all, over one of its name.

    Args:
        address: a folder, whose parents are made, or `s3://bucket/prefix`.

    Raises:
        SettingsError: it names no bucket, or boto3 is not installed or not told where and who.
    """
    if "://" in address:
        bucket = Bucket(address, where="--to")
        return partial(bucket.put, kind="application/json", encoding="gzip")
    return partial(_copy, Path(address))


def _copy(folder: Path, name: str, file: Path) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with file.open("rb") as source, atomic_writer(path) as target:
        shutil.copyfileobj(source, target)
    return str(path)
