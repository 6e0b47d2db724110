"""Files of rows that are small to send and large to hold: they are refused, or held within bounds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ci.errors import BadFileError
from ci.hud import junit_rows as limits
from ci.hud.junit_rows import junit_rows
from ci.hud.row_files import read_rows
from ci.hud.row_layout import DECODERS
from ci.hud.rows import NAME_CHARACTERS, TEXT_CHARACTERS, Job
from ci.hud.server.row_values import chunks, columns_of

JOB = Job(workflow_id=1, workflow_run_attempt=1, job_id=1)
CASE = b'<testcase classname="a" name="b"/>'


def read(body: bytes) -> list[dict[str, Any]]:
    return list(junit_rows(io.BytesIO(body), JOB, name="1.xml"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<testsuite>" + b"<a>" * 200, "more than 64 deep"),
        (b"<testsuite><testcase>" + b"<rerun/>" * 11_000, "more than 10000 elements"),
        (b"<testsuite>" + b"<a/>" * 1_000_001, "1000000 elements are no test cases"),
        (b"<testsuite><testcase " + b"x" * (17 << 20), "more than 16777216 bytes"),
        (b"<testsuite><testcase><system-out>" + b"x" * (17 << 20), "more than 16777216 bytes"),
    ],
)
def test_a_file_that_would_fill_the_memory_is_refused(body: bytes, said: str) -> None:
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
        assert DECODERS["test_run"].decode(json.dumps(row).encode())["name"] == row["name"]


def test_texts_of_a_file_of_rows_end_where_those_of_junit_do() -> None:
    row = {
        **JOB.keys(),
        "invoking_file": "t",
        "name": "n",
        "failure": {"message": "m" * 10_000, "text": "t" * 100_000},
        "system-out": {"text": "o" * 100_000},
    }
    (kept,) = read_rows(io.BytesIO(json.dumps(row).encode()), JOB, kind="test_run", name="rows")
    assert len(kept["failure"]["message"]) == 2000
    assert len(kept["failure"]["text"]) == len(kept["system-out"]["text"]) == TEXT_CHARACTERS


def test_long_rows_make_short_pieces() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for number in range(100):
            failure = {"message": "m", "text": "x" * 1000}
            case = {"name": str(number), "classname": "", "file": "f", "time": 0.0, "invoking_file": "f"}
            yield {**case, **JOB.keys(), **({"failure": failure} if number % 2 else {})}

    pieces = list(chunks(columns_of(rows(), upload=1), most_rows=40, most_characters=10_000))
    assert [row["name"] for piece in pieces for row in piece] == [str(number) for number in range(100)]
    assert {len(piece) for piece in pieces[:-1]} <= {18, 19, 20}
    assert [
        len(piece) for piece in chunks(columns_of(rows(), upload=1), most_rows=40, most_characters=10**9)
    ] == [
        40,
        40,
        20,
    ]
