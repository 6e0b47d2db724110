"""What a run folder tells of its tests, read as a stranger's: of known kinds, bounded, no more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from ci.core.archives import Wanted, bounded_lines
from ci.core.errors import BadFileError, MissingInputError
from ci.record.identity import source_in
from ci.record.reproduce_line import ref_of, reproduce_line
from ci.record.verdict import Verdict
from ci.report.compare.existing import Known
from ci.report.results import RESULTS_FILE, RESULTS_KIND, SUMMARY_FILE, SUMMARY_KIND
from test_selection.files import schema_name
from test_selection.seeds import MOST as MOST_SEED

MAX_SUMMARY = 32 << 20
MAX_PACKED = 64 << 20
MAX_UNPACKED = 256 << 20
MAX_ROWS = 1_000_000
NO_MARK = msgspec.Raw(b"null")
# What is taken of an artifact that holds a report.
REPORT_FILES = (
    Wanted(pattern=re.escape(SUMMARY_FILE), most_bytes=MAX_SUMMARY),
    Wanted(pattern=re.escape(RESULTS_FILE), most_bytes=MAX_PACKED),
)
_REMEDY = "report the run again with `spyre-ci report`"
_UPSTREAM = re.compile(r"git\+https://github\.com/pytorch/pytorch(\.git)?@[A-Za-z0-9._/-]{1,100}")
_SAFE = re.compile(r"[a-z][a-z0-9_]{0,30}")
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
        """Whether it failed and nobody forgives it."""
        return self.verdict is Verdict.FAILED and not self.quarantined

    @property
    def quarantined(self) -> bool:
        """Whether an entry of the quarantine covers its failure."""
        return self.quarantine != NO_MARK


class _Header(msgspec.Struct, frozen=True):
    schema: str
    planned: int


class Uncollected(msgspec.Struct, frozen=True):
    """A file that could not be collected."""

    file: _Line
    error: _Line


class RanWith(msgspec.Struct, frozen=True, kw_only=True):
    """What some of the tests ran in."""

    back_end: _Line = ""
    torch: _Line = ""
    image: _Line = ""


class Who(msgspec.Struct, frozen=True, kw_only=True):
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


class _Summary(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    run: _Line
    planned: int
    exit_code: int
    reasons: list[_Line]
    identity: Who
    in_scope: int = 0
    cards: int = 0
    ran_in: list[RanWith] = []
    notes: list[_Line] = []
    collect_errors: list[Uncollected] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A run as it is told.

    Attributes:
        run: its readable id.
        rows: one a planned test.
        who: what ran, on what.
        exit_code: of the run.
        reasons: why it is not 0.
        notes: what else a reader must know.
        collect_errors: files in scope that could not be collected.
        in_scope: how many tests the share is taken of; 0 where nobody counted them.
        cards: how many accelerators it had; 0 where nobody says.
        ran_in: everything that tests ran in.
        known: the tests there are; None where no catalog was read.
    """

    run: str
    rows: Sequence[Row]
    who: Who
    exit_code: int
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    collect_errors: Sequence[Uncollected] = ()
    in_scope: int = 0
    cards: int = 0
    ran_in: Sequence[RanWith] = ()
    known: Known | None = None

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """How many tests came to each verdict."""
        return Counter(row.verdict for row in self.rows)

    @property
    def green(self) -> bool:
        """Whether the run says it is, and no test says otherwise."""
        return self.exit_code == 0 and not any(row.red for row in self.rows)


def read_told(folder: Path, *, most_bytes: int = MAX_UNPACKED) -> Told:
    """What a run folder tells.

    Args:
        folder: of the run.
        most_bytes: of its results, unpacked; a run of one's own may hold more than a stranger's.

    Raises:
        MissingInputError: a file is not there.
        BadFileError: it is not what it has to be, or holds more than agreed.
    """
    summary = _summary(folder / SUMMARY_FILE)
    rows = _rows(folder / RESULTS_FILE, most_bytes)
    if len(rows) != summary.planned:
        raise BadFileError(
            f"holds {len(rows):,} tests, and {summary.planned:,} were planned",
            where=folder / RESULTS_FILE,
            remedy=_REMEDY,
        )
    return Told(
        run=summary.run,
        rows=rows,
        who=summary.identity,
        exit_code=summary.exit_code,
        reasons=summary.reasons,
        notes=summary.notes,
        collect_errors=summary.collect_errors,
        in_scope=summary.in_scope,
        cards=summary.cards,
        ran_in=summary.ran_in,
    )


def command_for(name: str, who: Who, attempt: int = 1) -> str:
    """The command line that runs one test again, made of what can be trusted and the test's quoted name.

    It is the line of the report, but for what only that run's machine has.

    People paste it: a word that a stranger's file brings is in it only where it can do no harm.
    """
    source = source_in(who.reproduce) if "--pytorch-src" in who.reproduce else None
    if "--pytorch-src" in who.reproduce and not _UPSTREAM.fullmatch(source or ""):
        source = "../pytorch"  # where the tree was on another machine says nothing here
    return reproduce_line(
        name,
        device=who.device if _SAFE.fullmatch(who.device) else "spyre",
        source=source,
        sha=who.pytorch_sha,
        seed=who.seed,
        ref=ref_of(run=who.run, provider=who.provider, run_id=who.run_id, run_attempt=who.run_attempt),
        attempt=max(attempt, 1),
    )


def _summary(path: Path) -> _Summary:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SUMMARY + 1)
    except OSError as error:
        raise MissingInputError("there is no summary", where=path, remedy=_REMEDY) from error
    if len(data) > MAX_SUMMARY:
        raise BadFileError(f"has more than {MAX_SUMMARY:,} bytes", where=path, remedy=_REMEDY)
    content = _decoded(data, msgspec.json.Decoder(_Summary), path)
    _of_schema(content.schema, SUMMARY_KIND, path)
    return content


def _rows(path: Path, most_bytes: int) -> list[Row]:
    if not path.is_file():
        raise MissingInputError("there are no results", where=path, remedy=_REMEDY)
    lines = bounded_lines(path, most_bytes=most_bytes)
    header = _decoded(next(lines, b""), msgspec.json.Decoder(_Header), f"{path}:1")
    _of_schema(header.schema, RESULTS_KIND, path)
    decoder = msgspec.json.Decoder(Row)
    rows: dict[str, Row] = {}
    for number, line in enumerate(lines, start=2):
        row = _decoded(line, decoder, f"{path}:{number}")
        if row.id in rows or number > MAX_ROWS:
            what = "a test is there twice" if row.id in rows else f"has more than {MAX_ROWS:,} tests"
            raise BadFileError(what, where=f"{path}:{number}", remedy=_REMEDY)
        rows[row.id] = row
    return list(rows.values())


def _decoded(data: bytes, decoder: msgspec.json.Decoder[Kind], where: Path | str) -> Kind:
    try:
        return decode_line(data, decoder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadFileError(f"is not what it has to be: {error}", where=where, remedy=_REMEDY) from error


def _of_schema(seen: str, kind: str, path: Path) -> None:
    if seen != schema_name(kind):
        raise BadFileError(f"schema is {seen!r:.80}, not {schema_name(kind)!r}", where=path, remedy=_REMEDY)


def decode_line(data: bytes, decoder: msgspec.json.Decoder[Kind]) -> Kind:
    """One document, decoded; a half of a character is read as the text of its escape.

    Args:
        data: JSON.
        decoder: of the kind that is wanted.

    Raises:
        msgspec.MsgspecError: it is no JSON, or of another kind.
        UnicodeDecodeError: it is no UTF-8.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        whole = _ESCAPE.sub(_readable, data)
        if whole == data:
            raise
        return decoder.decode(whole)


def _readable(found: re.Match[bytes]) -> bytes:
    return found[0] if found[2] is None else rb"\\" + found[2]
