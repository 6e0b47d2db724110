"""Files of rows that are small to send and large to hold: they are refused, or held within bounds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from ci.core.errors import BadFileError
from ci.record import junit_reader as limits
from ci.store.row_files import read_rows
from ci.store.row_values import ROWS_PACKED, StoredRow, chunks, stored_rows
from ci.store.rows import NAME_CHARACTERS, TEXT_CHARACTERS, Job, Outcome, TestRun, junit_rows

JOB = Job(workflow_id=1, workflow_run_attempt=1, job_id=1)
CASE = b'<testcase classname="a" name="b"/>'


def read(body: bytes) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(row) for row in junit_rows(io.BytesIO(body), JOB, name="1.xml")]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<testsuite>" + b"<a>" * 200, "more than 64 deep"),
        (b"<testsuite><testcase>" + b"<rerun/>" * 11_000, "more than 10000 elements"),
        (b"<testsuite>" + b"<a/>" * 101, "100 elements are no test cases"),
        (b"<testsuite><testcase " + b"x" * (17 << 20), "a tag has more than 2097152 bytes"),
        (b"<testsuite><testcase " + b"a='>' " * (1 << 20), "a tag has more than 2097152 bytes"),
        (b"<testsuite><testcase><system-out>" + b"x" * (17 << 20), "more than 16777216 bytes"),
    ],
)
def test_a_file_that_would_fill_the_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: bytes, said: str
) -> None:
    monkeypatch.setattr(limits, "MOST_OUTSIDE", 100)
    with pytest.raises(BadFileError, match=said):
        read(body)


def test_a_file_may_be_as_large_as_it_likes_where_its_test_cases_are_small() -> None:
    body = b"<testsuites><testsuite>" + CASE * 20_000 + b"</testsuite></testsuites>"
    assert len(read(body)) == 20_000
    long = b"<testcase><system-out>" + b"x" * (9 << 20) + b"</system-out></testcase>"
    assert len(read(b"<testsuite>" + long * 3 + b"</testsuite>")) == 3


def test_the_parser_gets_large_pieces() -> None:
    asked: list[int] = []

    class Source(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    list(junit_rows(Source(b"<testsuite>" + CASE + b"</testsuite>"), JOB, name="1.xml"))
    assert set(asked) == {limits.PIECE}


def test_long_names_stay_apart_and_fit_a_file_of_rows() -> None:
    names = ["n" * 100_000 + end for end in ("1", "2")]
    cases = "".join(
        f'<testcase classname="{name}" name="{name}" file="{name}">'
        f'<failure type="{name}" message="{name}"/>'
        f'<properties><property name="id" value="{name}"/></properties></testcase>'
        for name in names
    )
    rows = read(f"<testsuite>{cases}</testsuite>".encode())
    assert len({row["name"] for row in rows}) == 2
    for row in rows:
        assert len(row["name"]) == NAME_CHARACTERS
        assert msgspec.convert(row, TestRun).name == row["name"]


def test_texts_of_a_file_of_rows_end_where_those_of_junit_do() -> None:
    row = {
        **JOB.keys(),
        "invoking_file": "t",
        "name": "n",
        "failure": {"message": "m" * 10_000, "text": "t" * 100_000},
        "system-out": {"text": "o" * 100_000},
    }
    (read,) = read_rows(io.BytesIO(json.dumps(row).encode()), JOB, name="rows")
    kept = msgspec.to_builtins(read)
    assert len(kept["failure"]["message"]) == 2000
    assert len(kept["failure"]["text"]) == len(kept["system-out"]["text"]) == TEXT_CHARACTERS


def stored(number: int, *, text: str) -> Iterator[StoredRow]:
    rows = (
        TestRun(
            workflow_id=JOB.workflow_id,
            workflow_run_attempt=JOB.workflow_run_attempt,
            job_id=JOB.job_id,
            name=str(place),
            invoking_file="f",
            failure=Outcome(message="m", text=text) if place % 2 else UNSET,
        )
        for place in range(number)
    )
    return stored_rows(rows, JOB, upload=1)


def names(piece: list[StoredRow]) -> list[str]:
    return [row.name for row in piece]


def test_long_rows_make_short_chunks() -> None:
    rows = stored(100, text="x" * 1000)
    made = list(chunks(rows, names, most_rows=ROWS_PACKED, most_characters=10_000))
    assert [name for _, pieces in made for piece in pieces for name in piece] == list(map(str, range(100)))
    assert {number for number, _ in made[:-1]} <= {18, 19, 20}


def test_many_rows_are_packed_a_few_at_a_time() -> None:
    rows = stored(5 * ROWS_PACKED + 1, text="")
    made = list(chunks(rows, len, most_rows=2 * ROWS_PACKED, most_characters=10**9))
    few = ROWS_PACKED
    assert made == [
        (2 * few, [few, few]),
        (2 * few, [few, few]),
        (few + 1, [few, 1]),
    ]
