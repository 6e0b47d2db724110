"""Rows of tests made ready for a store, what became of each, and what is counted while they pass by; pure.

Our own JUnit prints more than HUD's layout has keys for (card, tries, the cause of a failure), in the type of
an outcome and in lines `key: value` of `system-out`; a row without our id is read by its elements alone.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET

from ci.store.identity import key_of_test
from ci.store.rows import (
    ID_PROPERTY,
    MESSAGE_CHARACTERS,
    Job,
    Outcomes,
    Property,
    TestRun,
    no_summaries,
    summarize,
)

# Few enough that they stay in the processor's cache until they are packed.
ROWS_PACKED = 200
_encode = msgspec.json.Encoder().encode
CAUSES = frozenset({"signal", "hang", "oom", "exit"})
OF_ERROR = frozenset({"hardware", "infrastructure", "not_run"})
_MOST_TRIES = 1000
_KEPT_CHARACTERS = 200


class StoredRow(msgspec.Struct, omit_defaults=True, gc=False):
    """A row of a test with the columns of the table `test_run`; elements are JSON, '' where there is none.

    Attributes:
        place: how many rows of the same test stand before it in its file.
        upload_id: the number of the file it came in.
    """

    workflow_id: int
    workflow_run_attempt: int
    job_id: int
    invoking_file: str
    file: str
    classname: str
    name: str
    time: float
    test_id: str
    test_key: int
    verdict: str
    upload_id: int
    line: int | None = None
    failure: str = ""
    error: str = ""
    skipped: str = ""
    rerun: str = ""
    system_out: str = ""
    system_err: str = ""
    properties: str = ""
    place: int = 0
    cause: str = ""
    card: str = ""
    attempts: int = 1
    message: str = ""

    def characters(self) -> int:
        """About how many it takes."""
        elements = len(self.failure) + len(self.error) + len(self.skipped) + len(self.rerun)
        said = len(self.system_out) + len(self.system_err) + len(self.properties)
        return 4 * len(self.test_id) + elements + said


COLUMNS = StoredRow.__struct_fields__


@dataclass(slots=True)
class Totals:
    """What is counted of a file's rows.

    Attributes:
        rows: how many were stored.
        cards: tests and seconds by card and verdict.
        summaries: COUNTS by invoking file, file and class.
    """

    rows: int = 0
    cards: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0, 0.0]))
    summaries: dict[tuple[str, str, str], list[float]] = field(default_factory=no_summaries)


def stored_rows(rows: Iterable[TestRun], job: Job, *, upload: int) -> Iterator[StoredRow]:
    """The rows with the columns they are stored with.

    Args:
        rows: as `ci.store.rows.case_row` makes them.
        job: as the tables name it.
        upload: the number of the file they came in.
    """
    places: dict[int, int] = {}
    for row in rows:
        yield _stored(row, job, upload, places)


def _stored(row: TestRun, job: Job, upload: int, places: dict[int, int]) -> StoredRow:
    """A row as it is stored; `places` counts the rows of each test so far, by key."""
    named = row.properties.property if row.properties is not UNSET else UNSET
    # Others write a property of that name too, which need not tell one test from another.
    ours = isinstance(named, Property) and named.name == ID_PROPERTY and "::" in named.value
    test_id = named.value if ours and isinstance(named, Property) else foreign_id(row)
    said = row.system_out.text if ours and row.system_out is not UNSET else ""
    # Most tests of a card say the same; what is long is not kept.
    notes = _notes(said) if len(said) <= _KEPT_CHARACTERS else _notes.__wrapped__(said)
    kind, message = _first(row)
    verdict = _verdict(row, kind, ours=ours)
    if verdict == "passed" and notes.get("verdict") == "xpassed":
        verdict = "xpassed"
    key = key_of_test(test_id)
    place = places.get(key, 0)
    places[key] = place + 1
    # By position: names would take a fifth of the time of all this.
    return StoredRow(
        job.workflow_id,
        job.workflow_run_attempt,
        job.job_id,
        row.invoking_file,
        row.file,
        row.classname,
        row.name,
        row.time,
        test_id,
        key_of_test(test_id, place) if place else key,
        verdict,
        upload,
        None if row.line is UNSET else row.line,
        "" if row.failure is UNSET else _json(row.failure),
        "" if row.error is UNSET else _json(row.error),
        "" if row.skipped is UNSET else _json(row.skipped),
        "" if row.rerun is UNSET else _json(row.rerun),
        "" if row.system_out is UNSET else row.system_out.text,
        "" if row.system_err is UNSET else row.system_err.text,
        "" if row.properties is UNSET else _json(row.properties),
        place,
        kind if ours and kind in CAUSES else "",
        notes.get("card", ""),
        _tries(notes["attempts"]) if "attempts" in notes else 1,
        message,
    )


def _tries(text: str) -> int:
    return min(int(text), _MOST_TRIES) if text.isdecimal() and len(text) < 9 else 1  # noqa: PLR2004


def counted(rows: Iterable[StoredRow], totals: Totals) -> Iterator[StoredRow]:
    """The rows as they are; each is counted.

    Args:
        rows: to pass on.
        totals: is added to.
    """
    cards, summaries = totals.cards, totals.summaries
    for row in rows:
        by_card = cards[row.card, row.verdict]
        by_card[0] += 1
        by_card[1] += row.time
        summarize(summaries, row)
        yield row


def chunks(
    rows: Iterable[StoredRow],
    pack: Callable[[list[StoredRow]], Any],
    *,
    most_rows: int,
    most_characters: int,
) -> Iterator[tuple[int, list[Any]]]:
    """The rows in chunks for one insert each, so that neither many nor long ones fill the memory.

    Yields:
        How many rows, and these, a few in a piece, as the store packs them.

    Args:
        rows: to store.
        pack: makes a few of them what the store takes.
        most_rows: in a chunk; a chunk has a number of ROWS_PACKED of them, or fewer.
        most_characters: after which a chunk ends, however few rows it has.
    """
    batch: list[StoredRow] = []
    pieces: list[Any] = []
    number = characters = 0
    for row in rows:
        batch.append(row)
        characters += row.characters()
        full = characters >= most_characters
        if full or len(batch) == ROWS_PACKED:
            pieces.append(pack(batch))
            number += len(batch)
            batch = []
            if full or number >= most_rows:
                yield number, pieces
                pieces, number, characters = [], 0, 0
    if batch:
        pieces.append(pack(batch))
    if pieces:
        yield number + len(batch), pieces


def _json(element: object) -> str:
    return _encode(element).decode()


def foreign_id(row: TestRun) -> str:
    """`file::class::name` of a row whose runner knows no test ids."""
    return "::".join(part for part in (row.file, row.classname, row.name) if part)


def _verdict(row: TestRun, kind: str, *, ours: bool) -> str:
    if row.failure is not UNSET:
        return "failed"
    if row.error is not UNSET:
        return kind if ours and kind in OF_ERROR else "failed"
    if row.skipped is not UNSET:
        return "xfailed" if kind == "pytest.xfail" else "skipped"
    return "flaky" if row.rerun is not UNSET else "passed"


def _first(row: TestRun) -> tuple[str, str]:
    """Type and message of the outcome that counts; of several, the first's."""
    outcome: Outcomes = row.failure or row.error or row.skipped or row.rerun
    one = outcome[0] if isinstance(outcome, list) else outcome
    return ("", "") if one is UNSET else (one.type or "", one.message[:MESSAGE_CHARACTERS])


@functools.lru_cache(maxsize=4096)
def _notes(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        if colon:
            found.setdefault(key, value)
    return found
