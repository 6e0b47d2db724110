from __future__ import annotations

import io
import sqlite3
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ci.hud.server.pages.render import VERDICTS
from ci.hud.server.queries import compare as compare_module
from ci.hud.server.queries.compare import KINDS, Comparison, compare_runs
from ci.record.verdict import Verdict
from ci.report.compare.as_json import as_json
from ci.report.compare.changes import Kind
from ci.report.compare.comparison import Side, check, compare_sides
from ci.report.compare.lines import LISTED, render_markdown, show
from ci.report.compare.page import render_page
from ci.store.database import Row, Value
from ci.store.row_values import COLUMNS, StoredRow
from ci.store.schema import SQLITE
from tests.unit.hud.server.plain_compare import compare, sides_of
from tests.unit.report.compare.making import rows

DEFAULTS = dict(zip(reversed(COLUMNS), reversed(StoredRow.__struct_defaults__), strict=False))


class Jobs:
    """Two jobs' rows of tests in SQLite's memory, compared as the server does."""

    def __init__(self) -> None:
        self.uploads = 0
        self.connection = sqlite3.connect(":memory:")
        self.connection.row_factory = sqlite3.Row
        for statement in SQLITE:
            self.connection.execute(statement)

    def put(self, job: int, rows: list[Row]) -> None:
        self.uploads += 1
        self.connection.execute("DELETE FROM test_run WHERE job_id = ?", (job,))
        marks = ", ".join(f":{name}" for name in COLUMNS)
        self.connection.executemany(
            f"INSERT INTO test_run ({', '.join(COLUMNS)}) VALUES ({marks})",  # noqa: S608
            [
                dict.fromkeys(COLUMNS, "") | DEFAULTS | job_of(job) | row | {"upload_id": self.uploads}
                for row in rows
            ],
        )

    def rows(self, query: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        return [dict(row) for row in self.connection.execute(query, dict(values or {}))]

    def tuples(self, query: str, values: Mapping[str, Value] | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(query, dict(values or {}))]


JOBS = Jobs()


def job_of(number: int) -> dict[str, int]:
    return {"workflow_id": 1, "workflow_run_attempt": 1, "job_id": number}


def row_of(key: int, verdict: str = "passed", seconds: float = 1.0, file: str = "f") -> Row:
    # Ids are not in the order of keys.
    told = {"test_id": f"t{key * 7 % 41}", "message": f"m{key}" if verdict == "failed" else ""}
    return told | {"test_key": key, "verdict": verdict, "time": seconds, "invoking_file": file}


def asked(before: list[Row], after: list[Row], kind: str, *, limit: int, offset: int) -> Comparison:
    JOBS.put(1, before)
    JOBS.put(2, after)
    return compare_runs(JOBS, job_of(1), job_of(2), kind=kind, limit=limit, offset=offset)


def compared(
    before: dict[int, Any], after: dict[int, Any], kind: str = "slower", *, limit: int = 1000, offset: int = 0
) -> Any:
    rows = [[row_of(key, *value) for key, value in one.items()] for one in (before, after)]
    return asked(rows[0], rows[1], kind, limit=limit, offset=offset)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (("passed",), ("failed",), "newly failing"),
        (None, ("failed",), "new and failing"),
        (("passed",), ("hardware",), "without an outcome in one of the runs"),
        (("hardware",), ("failed",), "failing, outcome in base unknown"),
        (None, ("passed",), "appeared"),
        (("passed",), None, "vanished"),
        (("failed",), ("passed",), "fixed"),
        (("failed",), ("flaky",), "newly flaky"),
        (("passed",), ("flaky",), "newly flaky"),
        (("flaky",), ("passed",), "no longer flaky"),
        (("failed",), ("failed",), "still failing"),
        (("failed",), ("skipped",), "newly skipped"),
        (("passed", 1.0), ("passed", 9.0), "slower"),
        (("passed", 9.0), ("passed", 1.0), "faster"),
    ],
)
def test_each_kind_of_change_has_its_name(old: Any, new: Any, kind: str) -> None:
    same = dict.fromkeys(range(2, 20), ("passed", 1.0))
    found = compared(same | ({1: old} if old else {}), same | ({1: new} if new else {}), kind)
    assert [one.test_id for one in found.changes] == ["t7"]
    came_or_went = {"appeared"} if old is None else {"vanished"} if new is None else set()
    assert {name for name, number in found.counts.items() if number} == {kind} | came_or_went


ROWS = st.lists(
    st.builds(
        row_of,
        st.integers(1, 25),
        st.sampled_from(sorted(VERDICTS)),
        st.one_of(st.sampled_from([0.0, 0.05, 1.0, 2.0]), st.floats(0, 1e4)),
        st.sampled_from("abc"),
    ),
    max_size=40,
    # Of rows that are the same in file and verdict nobody can say which is the first.
    unique_by=lambda row: (row["test_key"], row["invoking_file"], row["verdict"]),
)


@given(ROWS, ROWS, st.integers(0, 9), st.integers(1, 9), st.sampled_from([0, 5000]))
def test_runs_are_compared_as_test_by_test(
    before: list[Row], after: list[Row], offset: int, limit: int, many: int
) -> None:
    sides = [sides_of([DEFAULTS | row for row in rows]) for rows in (before, after)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare_module, "MANY", many)
        for kind in KINDS:
            found = asked(before, after, kind, limit=limit, offset=offset)
            assert found == compare(sides[0], sides[1], kind=kind, limit=limit, offset=offset)


EVEN = dict.fromkeys(range(40), ("passed", 1.0))
NOISY = {key: ("passed", 0.7 if key % 2 else 1.4) for key in range(40)}


@pytest.mark.parametrize(
    ("before", "after", "slower", "pace"),
    [
        # All of a run is slower; noise is what most tests show; what takes no time is never slower.
        (
            {key: ("passed", key) for key in range(1, 50)},
            {key: ("passed", 3 * key) for key in range(1, 50)},
            0,
            3,
        ),
        (EVEN, NOISY, 0, 1),
        (EVEN, NOISY | {0: ("passed", 400.0)}, 1, 1),
        ({1: ("passed", 0.001)}, {1: ("passed", 0.04)}, 0, 1),
    ],
)
def test_what_is_slower_is_so_by_more_than_all_the_others(
    before: dict[int, Any], after: dict[int, Any], slower: int, pace: float
) -> None:
    found = compared(before, after)
    assert found.counts["slower"] == slower
    assert found.pace == pytest.approx(pace, rel=0.02)


@pytest.mark.parametrize("now", list(Verdict))
@pytest.mark.parametrize("base", list(Verdict))
def test_every_place_that_compares_calls_a_change_the_same(now: Verdict, base: Verdict) -> None:
    sides = (Side(run=str(one), rows=rows({"a.py::test": one})) for one in (now, base))
    found = compare_sides(*sides)
    (kind,) = (one for one, number in found.changes.counts.items() if number)
    out = io.StringIO()
    show(Console(file=out, width=200), found, limit=0)
    listed = (out.getvalue(), render_markdown(found, "base"), render_page(found, check(found)))
    counts = as_json(found, check(found))["counts"]
    page = compared({1: (base.value,)}, {1: (now.value,)}).counts
    for one in Kind:
        assert counts[one.value] == (one is kind)
        assert page.get(one.words, one is kind) == (one is kind)
        if one in LISTED:
            assert [f"1 {one.words}" in " ".join(text.split()) for text in listed] == [one is kind] * 3


def test_the_kinds_of_the_page_are_those_of_every_comparison() -> None:
    left_out = {
        # Messages and the quarantine are not read; what is planned in one run alone came or went.
        *(Kind.FAILING_DIFFERENTLY, Kind.QUARANTINED, Kind.ONLY_NEW, Kind.ONLY_BASE),
        *(Kind.SAME, Kind.OTHERWISE),
    }
    assert {one.words for one in Kind if one not in left_out} == {*KINDS} - {
        "slower", "faster", "appeared", "vanished",
    }  # fmt: skip


def test_two_runs_are_read_once_for_all_kinds_until_tests_are_uploaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def marks_of(database: Any, job: Mapping[str, Any]) -> compare_module.Marks:
        read.append(job["job_id"])
        return original(database, job)

    original = compare_module.marks_of
    monkeypatch.setattr(compare_module, "marks_of", marks_of)
    assert compared({1: ("passed",)}, {1: ("failed",)}, "newly failing").changes != []
    for kind in KINDS:
        compare_runs(JOBS, job_of(1), job_of(2), kind=kind, limit=9, offset=0)
    assert read == [1, 2]
    assert compared({1: ("passed",)}, {1: ("passed",)}, "newly failing").changes == []
