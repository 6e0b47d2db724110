"""JUnit files made into the three files of rows that HUD keeps of a job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError
from ci.hud.row_files import RowWriter, unpacked
from ci.hud.row_layout import KINDS, Kind, TestRun
from ci.hud.rows import Job, SummaryRows, is_failed, junit_rows
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
