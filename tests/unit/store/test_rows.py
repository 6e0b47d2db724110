"""HUD's rows of tests: the layout, and the traps of it that are closed."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError
from ci.store.row_files import RowWriter, object_name, read_rows, unpacked
from ci.store.row_values import StoredRow, stored_rows
from ci.store.rows import (
    COUNTS,
    Job,
    TestRun,
    file_of_class,
    invoking_file,
    is_failed,
    junit_rows,
    no_summaries,
    seconds,
    summarize,
)

JOB = Job(workflow_id=4242, workflow_run_attempt=2, job_id=77)


def cases_of(xml: str) -> list[TestRun]:
    return list(junit_rows(io.BytesIO(xml.encode()), JOB, name="j.xml"))


def rows_of(xml: str) -> list[dict[str, Any]]:
    """As a file has them."""
    return [msgspec.to_builtins(row) for row in cases_of(xml)]


def told(row: dict[str, Any]) -> StoredRow:
    (stored,) = stored_rows([msgspec.convert(row, TestRun)], JOB, upload=1)
    return stored


def write(*rows: TestRun) -> io.BytesIO:
    written = io.BytesIO()
    with RowWriter(written) as writer:
        for row in rows:
            writer.write(row)
    assert writer.rows == len(rows)
    return written


def row_of(
    inside: str, attributes: str = 'classname="TestA" name="test_b" file="sub/test_a.py"'
) -> dict[str, Any]:
    (row,) = rows_of(
        f"<testsuites><testsuite><testcase {attributes}>{inside}</testcase></testsuite></testsuites>"
    )
    return row


def test_a_row_has_the_upstream_layout() -> None:
    attributes = 'classname="TestA" name="test_b" file="sub/test_a.py" line="12" time="0.25"'
    assert row_of('<failure message="no" type="AssertionError">trace</failure>', attributes) == {
        "classname": "TestA",
        "name": "test_b",
        "file": "sub/test_a.py",
        "line": 12,
        "time": 0.25,
        "failure": {"message": "no", "type": "AssertionError", "text": "trace"},
        "workflow_id": 4242,
        "workflow_run_attempt": 2,
        "job_id": 77,
        "invoking_file": "sub.test_a",
    }


@pytest.mark.parametrize("tag", ["failure", "error", "skipped", "rerun"])
@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ("", "no message"),
        ("first line\nsecond", "first line"),
        ("\n  \n", "no message"),
    ],
)
def test_an_outcome_without_a_message_gets_one_lest_the_test_counts_as_passed(
    tag: str, inside: str, message: str
) -> None:
    assert row_of(f"<{tag}>{inside}</{tag}>")[tag]["message"] == message


def test_an_outcome_with_nothing_but_a_type_is_told_by_it() -> None:
    assert row_of('<error type="ValueError"/>')["error"]["message"] == "ValueError"


@pytest.mark.parametrize("name", ["1", "1e5", "nan", "0x10", "true"])
def test_a_name_that_looks_like_a_number_stays_text(name: str) -> None:
    assert row_of("", f'classname="7" name="{name}"')["name"] == name
    assert row_of("", f'classname="7" name="{name}"')["classname"] == "7"


def test_elements_that_stand_twice_are_an_array() -> None:
    row = row_of('<rerun message="one"/><rerun message="two"/>')
    assert [one["message"] for one in row["rerun"]] == ["one", "two"]
    assert told(row).verdict == "flaky"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0.5", 0.5),
        ("1,234.5", 1234.5),
        ("", 0),
        ("-1", 0),
        ("nan", 0),
        ("inf", 0),
        ("soon", 0),
        (" 2 ", 2),
        ("1,5", 1.5),
        ("0,123", 0.123),
        ("1,234", 1234),
        ("1,234,567", 1234567),
        ("1,2,3", 0),
        ("12,34.5", 0),
    ],
)
def test_times_are_read_as_junit_writers_give_them(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize(
    ("classname", "file"),
    [
        ("test.sub.test_x.TestA", "test/sub/test_x.py"),
        ("test_x", "test_x.py"),
        ("TestA", ""),
        ("", ""),
        ("a..b", ""),
    ],
)
def test_a_file_is_read_from_a_dotted_class(classname: str, file: str) -> None:
    assert file_of_class(classname) == file


def test_the_suites_file_stands_for_a_case_without_one() -> None:
    xml = '<testsuites><testsuite file="test_s.py"><testcase name="a"/></testsuite></testsuites>'
    assert rows_of(xml)[0]["file"] == "test_s.py"
    assert invoking_file("a/b/test_c.py") == "a.b.test_c"


def test_nested_suites_give_each_case_once() -> None:
    xml = (
        '<testsuites><testsuite><testsuite file="x.py"><testcase name="a"/></testsuite>'
        '<testcase name="b"/></testsuite><testsuite><testcase name="c"/></testsuite></testsuites>'
    )
    assert [(row["name"], row["file"]) for row in rows_of(xml)] == [("a", "x.py"), ("b", ""), ("c", "")]


OURS = '<properties><property name="id" value="t.py::A::b[op=add]"/></properties>'
FOREIGN = '<properties><property name="id" value="42"/></properties>'  # of our name, and no identity


@pytest.mark.parametrize(
    ("inside", "wanted"),
    [
        ("", ("passed", "", "", 1)),
        ("<failure/>", ("failed", "", "", 1)),
        ("<error/>", ("failed", "", "", 1)),
        ("<skipped/>", ("skipped", "", "", 1)),
        ('<skipped type="pytest.xfail"/>', ("xfailed", "", "", 1)),
        ("<rerun/>", ("flaky", "", "", 1)),
        ("<rerun/><failure/>", ("failed", "", "", 1)),
        ('<error type="hardware"/>', ("failed", "", "", 1)),
        ("<system-out>card: card0\nverdict: xpassed</system-out>", ("passed", "", "", 1)),
        (f"{FOREIGN}<system-out>card: c</system-out>", ("passed", "", "", 1)),
        (OURS, ("passed", "", "", 1)),
        (f"{OURS}<system-out>card: card3\nattempts: 2</system-out><rerun/>", ("flaky", "", "card3", 2)),
        (
            f'{OURS}<error type="signal"/><system-out>card: card1</system-out>',
            ("failed", "signal", "card1", 1),
        ),
        (f'{OURS}<error type="hardware"/>', ("hardware", "", "", 1)),
        (f'{OURS}<error type="infrastructure"/>', ("infrastructure", "", "", 1)),
        (f'{OURS}<error type="not_run"/>', ("not_run", "", "", 1)),
        (f"{OURS}<system-out>verdict: xpassed</system-out>", ("xpassed", "", "", 1)),
        (f"{OURS}<system-out>attempts: 99999999999999</system-out>", ("passed", "", "", 1)),
        (
            f'{OURS}<skipped type="pytest.xfail"/><system-out>verdict: failed</system-out>',
            ("xfailed", "", "", 1),
        ),
    ],
)
def test_the_verdict_of_a_row_and_what_only_ours_say(inside: str, wanted: tuple[str, str, str, int]) -> None:
    said = told(row_of(inside))
    assert (said.verdict, said.cause, said.card, said.attempts) == wanted
    assert said.test_id == ("t.py::A::b[op=add]" if OURS in inside else "sub/test_a.py::TestA::test_b")


outcomes = st.sampled_from(["", "<failure/>", "<error/>", "<skipped/>", "<rerun/>", "<failure/><error/>"])


@given(cases=st.lists(st.tuples(st.sampled_from("abc"), outcomes, st.floats(0, 1e6)), max_size=20))
def test_a_summary_adds_up_to_its_rows(cases: list[tuple[str, str, float]]) -> None:
    inside = "".join(f'<testcase classname="{c}" name="n" time="{t!r}">{o}</testcase>' for c, o, t in cases)
    rows = cases_of(f"<testsuite>{inside}</testsuite>")
    summaries = no_summaries()
    for row in rows:
        summarize(summaries, row)
    counts = [dict(zip(COUNTS, one, strict=True)) for one in summaries.values()]
    assert sum(one["tests"] for one in counts) == len(cases)
    for one in counts:
        assert one["tests"] == one["errors"] + one["failures"] + one["skipped"] + one["successes"]
    assert sum(one["time"] for one in counts) == pytest.approx(sum(row.time for row in rows), abs=1e-3)
    failed = sum("<failure" in o or "<error" in o or "<rerun" in o for _, o, _ in cases)
    assert sum(map(is_failed, rows)) == failed


text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)


@given(cases=st.lists(st.tuples(text, text, outcomes), max_size=8))
def test_rows_come_back_from_a_file_as_they_went_in(cases: list[tuple[str, str, str]]) -> None:
    escaped = [(c.translate(ESCAPES), n.translate(ESCAPES), o) for c, n, o in cases]
    inside = "".join(f'<testcase classname="{c}" name="{n}" line="3">{o}</testcase>' for c, n, o in escaped)
    rows = cases_of(f"<testsuite>{inside}</testsuite>")
    written = write(*rows)
    assert list(read_rows(unpacked(written), JOB, name="f")) == rows


ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;"})


def test_the_same_rows_give_the_same_bytes() -> None:
    (row,) = cases_of("<testsuite><testcase><failure/></testcase></testsuite>")
    assert write(row).getvalue() == write(row).getvalue()
    assert object_name("failed_test_runs", JOB) == "failed_test_runs/4242/2"


def read(content: bytes) -> list[dict[str, Any]]:
    rows = read_rows(unpacked(io.BytesIO(content)), JOB, name="f.gz")
    return [msgspec.to_builtins(row) for row in rows]


GOOD = {**JOB.keys(), "name": "n", "invoking_file": "f", "classname": "", "file": "", "time": 1.0}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"workflow_id": "4242"}, "line 1: Expected `int`, got `str` - at `$.workflow_id`"),
        ({"workflow_id": 4242.5}, "- at `$.workflow_id"),
        ({"job_id": None}, "- at `$.job_id"),
        ({"name": 7}, "- at `$.name"),
        ({"time": -1}, "- at `$.time"),
        ({"time": "1"}, "- at `$.time"),
        ({"failure": "no"}, "- at `$.failure"),
        ({"failure": [{"message": 5}]}, "- at `$.failure"),
        ({"workflow_id": 1}, "is of another job (workflow_id 1"),
    ],
)
def test_a_line_that_is_no_row_is_refused_with_its_number(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadFileError) as caught:
        read(json.dumps(GOOD | changed).encode())
    assert caught.value.what.startswith(("line 1", "is of another job"))
    assert said in caught.value.what
    assert caught.value.where == "f.gz"


@pytest.mark.parametrize(
    "content",
    [
        b"nothing",
        b"[]",
        b"{",
        b'{"a": NaN}',
        gzip.compress(b"{}", mtime=0)[:-9],
        b"\x1f\x8bno",
        b"\xff" * 9,
        b"[" * 99,
    ],
)
def test_a_file_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(BadFileError):
        read(content)


@pytest.mark.parametrize("failure", [{}, {"message": None}, {"message": ""}, [{}]])
def test_a_foreign_failure_without_a_message_stays_a_failure(failure: Any) -> None:
    (row,) = read(json.dumps(GOOD | {"failure": failure}).encode())
    assert row["failure"] == {"message": "no message"}
    assert told(row).verdict == "failed"


def test_an_outcome_that_is_null_or_empty_is_none() -> None:
    (row,) = read(json.dumps(GOOD | {"failure": None, "skipped": [], "system-out": None}).encode())
    assert row == GOOD


@pytest.mark.parametrize(
    ("xml", "said"),
    [
        ("", "is incomplete XML after 0 test cases"),
        ("<testsuite>", "is incomplete XML"),
        ('<testsuite><testcase name="a"/>', "is incomplete XML after 1 test cases"),
        ("<html/>", "is not JUnit: it starts with <html>"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>', "declares entities or a document type"),
        ('<?xml version="1.0" encoding="nothing"?><testsuite/>', "is incomplete XML"),
    ],
)
def test_a_broken_junit_file_is_refused(xml: str, said: str) -> None:
    with pytest.raises(BadFileError, match=r"j\.xml") as caught:
        rows_of(xml)
    assert said in caught.value.what


def test_an_attribute_never_stands_for_an_element() -> None:
    row = row_of("", 'name="a" failure="x" card="c" test_id="y" verdict="passed" properties="p" line="7"')
    assert not {"failure", "card", "test_id", "verdict", "properties"} & set(row)
    assert (row["line"], told(row).verdict) == (7, "passed")


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(GOOD | row).encode() + b"\n" for row in rows)


@given(st.lists(st.integers(0, 40_000), max_size=12), st.integers(0, 3))
def test_lines_are_whole_wherever_a_piece_ends(lengths: list[int], blank: int) -> None:
    names = [
        {"name": f"{number}", "system-out": {"text": "o" * length}}
        for number, length in enumerate(lengths, 1)
    ]
    content = (b"\n" * blank).join([lines(one) for one in names])
    assert [row["name"] for row in read(content)] == [one["name"] for one in names]
    assert [row["name"] for row in read(content.removesuffix(b"\n"))] == [one["name"] for one in names]


@pytest.mark.parametrize("bad", [b"{", b"7", b'{"name": 3}', lines({"line": -1})])
@pytest.mark.parametrize("before", [0, 3, 2000])
def test_the_number_of_a_bad_line_is_told_wherever_it_stands(bad: bytes, before: int) -> None:
    with pytest.raises(BadFileError, match=rf"line {before + 1}: "):
        read(lines({}) * before + bad + b"\n" + lines({}) * 3)


@pytest.mark.parametrize("told_by", ['status="notrun"', 'status="SKIPPED"', 'result="suppressed"'])
def test_a_case_that_never_ran_is_skipped_also_where_only_an_attribute_says_so(told_by: str) -> None:
    row = row_of("", f'classname="A" name="b" {told_by}')
    assert told(row).verdict == "skipped"
    assert row["skipped"]["message"] == told_by.partition('"')[2].rstrip('"').lower()
    assert told(row_of("<failure/>", f'classname="A" name="b" {told_by}')).verdict == "failed"
    assert told(row_of("", 'classname="A" name="b" status="run" result="completed"')).verdict == "passed"


def test_a_junit_file_in_a_name_space_is_one() -> None:
    case = '<testcase name="a"><failure/></testcase>'
    xml = f'<testsuites xmlns="urn:x"><testsuite>{case}</testsuite></testsuites>'
    assert told(rows_of(xml)[0]).verdict == "failed"


@pytest.mark.parametrize("cut", [-9, -4, 20])
def test_a_packed_junit_file_that_was_cut_is_refused(cut: int) -> None:
    packed = gzip.compress(b"<testsuite>" + b'<testcase name="a"/>' * 2000 + b"</testsuite>", mtime=0)[:cut]
    with pytest.raises(BadFileError, match=r"j\.xml"):
        list(junit_rows(unpacked(io.BytesIO(packed)), JOB, name="j.xml"))


def test_a_line_is_one_row_and_a_row_one_line() -> None:
    one = lines({}).rstrip()
    with pytest.raises(BadFileError, match="line 1: "):
        read(one + one + b"\n")
    with pytest.raises(BadFileError, match="line 1: "):
        read(one.replace(b"{", b"{\n", 1))


def test_a_null_is_taken_for_nothing_also_within_an_outcome() -> None:
    failure = {"message": "m", "type": None, "text": None}
    (first, second) = read(lines({"failure": failure, "line": None, "properties": {"property": None}}, {}))
    assert first == GOOD | {"failure": {"message": "m"}}
    assert second == GOOD


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({}, None),
        ({"a": "1", "id": "x::y"}, {"name": "id", "value": "x::y"}),
        ({"a": "1", "b": "2"}, {"name": "a", "value": "1"}),
        ({"a": "", "b": "1"}, {"name": "a", "value": ""}),
    ],
)
def test_of_several_properties_one_is_kept_ours_first(properties: dict[str, str], kept: Any) -> None:
    xml = "".join(f'<property name="{name}" value="{value}"/>' for name, value in properties.items())
    listed = [{"name": name, "value": value} for name, value in properties.items()]
    (read_back,) = read(lines({"properties": {"property": listed}}))
    for row in (row_of(f"<properties>{xml}</properties>"), read_back):
        assert row.get("properties") == (None if kept is None else {"property": kept})
