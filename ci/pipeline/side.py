"""A run that is told of, as one side of a comparison; read as a stranger's, like all that is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import msgspec

from ci.core.archives import bounded_lines
from ci.core.errors import BadFileError
from ci.core.text import counted
from ci.pipeline.told import MAX_UNPACKED, Row, Told, decode_line
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.compare.comparison import Side
from ci.report.compare.existing import Known
from test_selection.catalog import KIND as CATALOG_KIND
from test_selection.files import schema_name
from test_selection.ids import encode_file

# What is under test differs by its version; that it is another back end altogether makes runs unlike.
_VERSION = re.compile(r" \d")
CATALOG_FILE = "catalog.jsonl.gz"
MAX_TESTS = 2_000_000
_REMEDY = "collect again with `spyre-ci collect`, or compare a folder without this file"


class _File(msgspec.Struct, frozen=True):
    error: str | None = None


class _Header(msgspec.Struct, frozen=True):
    schema: str
    files: dict[str, _File]


class _Test(msgspec.Struct, frozen=True):
    id: str


def side_of(told: Told, *, run: str = "") -> Side[Row]:
    """A run as one side.

    Args:
        told: what its folder tells.
        run: what it is called; empty: as it calls itself.
    """
    return Side(
        run=run or told.run,
        rows=told.rows,
        facts=_facts(told),
        known=told.known,
        under_test=_under_test(told),
        in_scope=told.in_scope,
        lacking=_lacking(told),
        started_at=_epoch(told.who.started_at),
    )


def _lacking(told: Told) -> str:
    lost = sum(row.verdict in NO_OUTCOME or row.verdict is Verdict.HARDWARE for row in told.rows)
    said = [f"{counted(lost, 'test')} without an outcome"] if lost else []
    said += [f"{counted(len(told.collect_errors), 'file')} not collected"] if told.collect_errors else []
    return ", ".join(said)


def with_catalog(told: Told, folder: Path) -> Told:
    """A run with the tests there are, where its folder holds a catalog.

    Raises:
        BadFileError: that is none, or holds more than agreed.
    """
    path = folder / CATALOG_FILE
    if not path.is_file():
        return told
    # What a glob leaves out was not collected, and may be there all the same.
    return replace(told, known=read_known(path, partial=bool(told.who.restricted)))


def read_known(path: Path, *, partial: bool) -> Known:
    """The tests a catalog holds.

    Args:
        path: `catalog.jsonl.gz`.
        partial: not every file was looked at.

    Raises:
        BadFileError: it is no catalog, or holds more than agreed.
    """
    lines = bounded_lines(path, most_bytes=4 * MAX_UNPACKED, most_line=64 << 20)
    try:
        header = decode_line(next(lines, b""), msgspec.json.Decoder(_Header))
        if header.schema != schema_name(CATALOG_KIND):
            raise BadFileError(
                f"schema is {header.schema!r:.80}, not {schema_name(CATALOG_KIND)!r}",
                where=path,
                remedy=_REMEDY,
            )
        ids = frozenset(_ids(lines, path))
        broken = {encode_file(file): one.error for file, one in header.files.items() if one.error is not None}
        files = frozenset(map(encode_file, header.files))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadFileError(f"is not what it has to be: {error}", where=path, remedy=_REMEDY) from error
    return Known(ids=ids, files=files, broken=broken, partial=partial)


def _ids(lines: Iterator[bytes], path: Path) -> Iterator[str]:
    decoder = msgspec.json.Decoder(_Test)
    for number, line in enumerate(lines, start=1):
        if number > MAX_TESTS:
            raise BadFileError(f"has more than {MAX_TESTS:,} tests", where=path, remedy=_REMEDY)
        yield decode_line(line, decoder).id


def _facts(told: Told) -> dict[str, str]:
    """What two runs have to have in common to be compared test by test and second by second."""
    who = told.who
    return {
        "device": who.device,
        "PyTorch": who.pytorch_version,
        "commit of PyTorch": who.pytorch_sha[:40],
        "torch in the tests": ", ".join(sorted({one.torch for one in told.ran_in if one.torch})),
        "back end": _VERSION.split(_back_end(told))[0],
        "image": ", ".join(sorted({one.image for one in told.ran_in if one.image})) or who.image,
        "stage": "" if who.stage is None else str(who.stage),
        "share": f"{who.percent:g} %",
        "restricted to": who.restricted,
        "cards": f"{told.cards:,}" if told.cards else "",
    }


def _back_end(told: Told) -> str:
    """As the tests' own processes said, else as it was planned."""
    return ", ".join(sorted({one.back_end for one in told.ran_in if one.back_end})) or told.who.back_end


def _under_test(told: Told) -> str:
    checkout = f"checkout {told.who.commit[:12]}" if told.who.commit else ""
    return ", ".join(one for one in (_back_end(told), checkout) if one)


def _epoch(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
