"""What a run folder tells of its tests, read as a stranger's: of known kinds, bounded, no more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from ci.core.archives import Wanted, bounded_lines
from ci.core.errors import BadFileError, MissingInputError
from ci.record.verdict import Verdict
from ci.report.compare.existing import Known
from ci.report.results import RESULTS_FILE, RESULTS_KIND, SUMMARY_FILE, SUMMARY_KIND
from test_selection.catalog import KIND as CATALOG_KIND
from test_selection.files import schema_name
from test_selection.ids import encode_file
from test_selection.seeds import MOST as MOST_SEED

CATALOG_FILE = "catalog.jsonl.gz"
MAX_SUMMARY = 32 << 20
MAX_PACKED = 64 << 20
MAX_UNPACKED = 256 << 20
MAX_TESTS = 2_000_000
# A catalog's header names every file.
MAX_LINE = 64 << 20
# What is taken of an artifact that holds a report.
REPORT_FILES = (
    Wanted(pattern=re.escape(SUMMARY_FILE), most_bytes=MAX_SUMMARY),
    Wanted(pattern=re.escape(RESULTS_FILE), most_bytes=MAX_PACKED),
    Wanted(pattern=re.escape(CATALOG_FILE), most_bytes=MAX_PACKED),
)
NO_MARK = msgspec.Raw(b"null")
_REMEDY = "report the run again with `spyre-ci report`"
_Line = Annotated[str, msgspec.Meta(max_length=20_000)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]  # thirty years
Kind = TypeVar("Kind")
# JSON's `\ud800` without its second half is no character. Python writes it and reads it, where a message had
# bytes that are no UTF-8; msgspec refuses the whole document for it.
_ESCAPE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"  # a whole pair
    rb"|\\(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb"|\\."
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one test."""

    id: _Id
    verdict: Verdict
    seconds: _Seconds = 0.0
    card: _Line | None = None
    attempts: int = 0
    message: str = ""
    cause: _Line | None = None
    # Only whether there is a mark counts: what a stranger nests in it is not taken apart.
    quarantine: msgspec.Raw = NO_MARK
    upstream: bool = False
    tried: int = 0

    @property
    def red(self) -> bool:
        """True if it failed and nobody forgives it."""
        return self.verdict is Verdict.FAILED and not self.quarantined

    @property
    def quarantined(self) -> bool:
        """True if an entry of the quarantine covers its failure."""
        return self.quarantine != NO_MARK


class CollectError(msgspec.Struct, frozen=True):
    """A file that could not be collected."""

    file: _Line
    error: _Line


class RanIn(msgspec.Struct, frozen=True, kw_only=True):
    """What some of the tests ran in."""

    back_end: _Line = ""
    torch: _Line = ""
    image: _Line = ""


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of the run itself."""

    device: _Line
    pytorch_version: _Line
    pytorch_sha: _Line
    percent: float
    stage: int | None = None
    lane: _Line = ""
    started_at: _Line = ""
    back_end: _Line = ""
    commit: _Line = ""
    image: _Line = ""
    restricted: _Line = ""
    reproduce: Sequence[str] = ()
    run: _Line = ""
    run_id: int = 0
    run_attempt: int = 1
    provider: _Line = ""
    seed: Annotated[int, msgspec.Meta(ge=0, le=MOST_SEED)] | None = None


class ReadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `summary.json` tells; `in_scope` and `cards` are 0 where nobody counted them."""

    schema: str
    run: _Line
    planned: int
    exit_code: int
    identity: RunInfo
    reasons: list[_Line] = []
    in_scope: int = 0
    cards: int = 0
    ran_in: list[RanIn] = []
    notes: list[_Line] = []
    collect_errors: list[CollectError] = []


class _Header(msgspec.Struct, frozen=True):
    schema: str


class _File(msgspec.Struct, frozen=True):
    error: str | None = None


class _CatalogHeader(_Header, frozen=True):
    files: dict[str, _File]


class _Test(msgspec.Struct, frozen=True):
    id: _Id


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRun:
    """A run as its folder tells it.

    Attributes:
        summary: of it.
        rows: one a planned test.
        known: the tests there are; None where no catalog was read.
        trouble: why the catalog that is there could not be used.
    """

    summary: ReadSummary
    rows: Sequence[Row]
    known: Known | None = None
    trouble: str = ""

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """How many tests came to each verdict."""
        return Counter(row.verdict for row in self.rows)

    @property
    def green(self) -> bool:
        """True if the run says it is, and no test says otherwise."""
        return self.summary.exit_code == 0 and not any(row.red for row in self.rows)


def read_run(folder: Path, *, most_bytes: int = MAX_UNPACKED) -> ReadRun:
    """Read what a run folder tells.

    Args:
        folder: of the run.
        most_bytes: of its results, unpacked; a run of one's own may hold more than a stranger's.

    Raises:
        MissingInputError: a file is not found.
        BadFileError: it has the wrong form, or holds more than agreed.
    """
    summary = _summary(folder / SUMMARY_FILE)
    path = folder / RESULTS_FILE
    rows = {row.id: row for row in _rows(path, RESULTS_KIND, _Header, Row, most_bytes)[1]}
    if len(rows) != summary.planned:
        what = f"holds {len(rows):,} tests by name, and {summary.planned:,} were planned"
        raise BadFileError(what, where=path, remedy=_REMEDY)
    known, trouble = None, ""
    if (catalog := folder / CATALOG_FILE).is_file():
        try:
            # What a glob leaves out was not collected, and may be there all the same.
            known = read_known(catalog, partial=bool(summary.identity.restricted))
        except BadFileError as error:
            trouble = error.what
    return ReadRun(summary=summary, rows=list(rows.values()), known=known, trouble=trouble)


def read_known(path: Path, *, partial: bool) -> Known:
    """Read which tests there are.

    Args:
        path: `catalog.jsonl.gz`.
        partial: not every file was looked at.

    Raises:
        BadFileError: it is no catalog, or holds more than agreed.
    """
    header, tests = _rows(path, CATALOG_KIND, _CatalogHeader, _Test, 4 * MAX_UNPACKED)
    ids = frozenset(test.id for test in tests)
    try:
        broken = {encode_file(file): one.error for file, one in header.files.items() if one.error is not None}
        files = frozenset(map(encode_file, header.files))
    except UnicodeError as error:
        raise _unfit(error, path) from error
    return Known(ids=ids, files=files, broken=broken, partial=partial)


def _summary(path: Path) -> ReadSummary:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SUMMARY + 1)
    except OSError as error:
        raise MissingInputError(f"there is no {path.name}", where=path, remedy=_REMEDY) from error
    if len(data) > MAX_SUMMARY:
        raise BadFileError(f"has more than {MAX_SUMMARY:,} bytes", where=path, remedy=_REMEDY)
    summary = _decoded(data, msgspec.json.Decoder(ReadSummary), path)
    _check_schema(summary.schema, SUMMARY_KIND, path)
    return summary


HeaderKind = TypeVar("HeaderKind", bound=_Header)


def _rows(
    path: Path, kind: str, head: type[HeaderKind], row: type[Kind], most_bytes: int
) -> tuple[HeaderKind, Iterator[Kind]]:
    """The header of a packed file, and its rows one by one."""
    if not path.is_file():
        raise MissingInputError(f"there is no {path.name}", where=path, remedy=_REMEDY)
    lines = bounded_lines(path, most_bytes=most_bytes, most_line=MAX_LINE)
    header = _decoded(next(lines, b""), msgspec.json.Decoder(head), f"{path}:1")
    _check_schema(header.schema, kind, path)
    return header, _decoded_rows(lines, msgspec.json.Decoder(row), path)


def _decoded_rows(lines: Iterator[bytes], decoder: msgspec.json.Decoder[Kind], path: Path) -> Iterator[Kind]:
    for number, line in enumerate(lines, start=2):
        if number > MAX_TESTS + 1:
            raise BadFileError(f"has more than {MAX_TESTS:,} tests", where=path, remedy=_REMEDY)
        yield _decoded(line, decoder, f"{path}:{number}")


def _check_schema(seen: str, kind: str, path: Path) -> None:
    if seen != schema_name(kind):
        raise BadFileError(f"schema is {seen!r:.80}, not {schema_name(kind)!r}", where=path, remedy=_REMEDY)


def _decoded(data: bytes, decoder: msgspec.json.Decoder[Kind], where: Path | str) -> Kind:
    """One document; a half of a character is read as the text of its escape."""
    try:
        try:
            return decoder.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return decoder.decode(_ESCAPE.sub(_readable, data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unfit(error, where) from error


def _unfit(error: Exception, where: Path | str) -> BadFileError:
    return BadFileError(f"has the wrong form: {error}", where=where, remedy=_REMEDY)


def _readable(found: re.Match[bytes]) -> bytes:
    return found[0] if found[2] is None else rb"\\" + found[2]
