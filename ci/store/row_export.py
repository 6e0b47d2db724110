"""JUnit files made into the three files of rows HUD keeps of a job, and put in a folder or a bucket."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ci.core.errors import BadFileError, MissingInputError, SettingsError
from ci.core.object_store import SCHEME, Bucket
from ci.store.row_files import RowWriter, unpacked
from ci.store.row_layout import KINDS, Kind, TestRun
from ci.store.rows import Job, SummaryRows, is_failed, junit_rows
from test_selection.files import atomic_writer


def junit_files(paths: Sequence[Path]) -> list[Path]:
    """The JUnit files at paths, in order; of a folder all `*.xml` and `*.xml.gz` below it.

    Raises:
        MissingInputError: a path is not there, or a folder has none.
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
    summaries = SummaryRows()
    with contextlib.ExitStack() as stack:
        writers = {
            kind: stack.enter_context(RowWriter(stack.enter_context(atomic_writer(row_file(folder, kind)))))
            for kind in KINDS
        }
        for row in rows_of_files(files, job):
            writers["test_run"].write(row)
            summaries.add(row)
            if is_failed(row):
                writers["failed_test_runs"].write(row)
        if not writers["test_run"].rows:
            raise BadFileError(
                "holds no test case",
                where=", ".join(map(str, files[:3])),
                remedy="check what the runner wrote",
            )
        for summary in summaries.rows():
            writers["test_run_summary"].write(summary)
    return {kind: writer.rows for kind, writer in writers.items()}


def row_file(folder: Path, kind: Kind) -> Path:
    """Where `export_rows` writes a kind."""
    return folder / f"{kind}.jsonl.gz"


class ObjectStore(Protocol):
    """Takes files by name."""

    def put(self, name: str, file: Path) -> str:
        """Put a file, over one of its name; returns its address.

        Args:
            name: parts separated by `/`.
            file: what is put.

        Raises:
            SpyreCiError: it cannot be put there.
        """


class FolderStore:
    """A folder; parents are made, and a file is there whole or not at all.

    Args:
        folder: the top.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, file: Path) -> str:
        """See ObjectStore."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as source, atomic_writer(path) as target:
            shutil.copyfileobj(source, target)
        return str(path)


class BucketStore:
    """A bucket; see `ci.core.object_store.Bucket`.

    Args:
        address: `s3://bucket` or `s3://bucket/prefix`.

    Raises:
        SettingsError: it names no bucket, or boto3 is not installed or not told where and who.
    """

    def __init__(self, address: str) -> None:
        self._bucket = Bucket(address, where="--to")

    def put(self, name: str, file: Path) -> str:
        """See ObjectStore."""
        return self._bucket.put(name, file, kind="application/json", encoding="gzip")


def object_store(address: str) -> ObjectStore:
    """The store of an address: a folder, or `s3://bucket/prefix`.

    Raises:
        SettingsError: see BucketStore; or the address is a URL of another kind.
    """
    if address.startswith(SCHEME):
        return BucketStore(address)
    if "://" in address:
        raise SettingsError(
            f"{address!r} is no place for files", where="--to", remedy="give a folder or s3://…"
        )
    return FolderStore(Path(address))
