"""JUnit files: what Jenkins and HUD need stands in them, and hostile text is inert."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import junitparser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.junit import ShardCases, junit_suite, shard_cases, split_id, write_junit
from ci.report.reconcile import Account
from test_selection.ids import canonical_id

from .conftest import ADD, CARD, CRASH, FLAKY, HOSTILE_ID, LOST, PLAIN, XFAIL, Golden, identity

ANY = st.text(st.characters(exclude_categories=()), max_size=30)


@pytest.fixture
def folder(tmp_path: Path, account: Account) -> Path:
    write_junit(tmp_path, account, identity())
    return tmp_path


def xml(suite: junitparser.TestSuite) -> str:
    stream = io.BytesIO()
    suite.write(stream)
    return stream.getvalue().decode()


def cases(folder: Path) -> dict[str, ET.Element]:
    found = {}
    for path in sorted(folder.glob("*.xml")):
        for case in ET.parse(path).getroot().iter("testcase"):  # noqa: S314  # written by the test
            found[case.findall("properties/property")[0].attrib["value"]] = case
    return found


def test_every_planned_test_stands_in_exactly_one_file(folder: Path, account: Account) -> None:
    files = [junitparser.JUnitXml.fromfile(str(path)) for path in folder.glob("*.xml")]
    total = sum(len(list(suite)) for file in files for suite in file)
    assert [path.name for path in sorted(folder.glob("*.xml"))] == ["0.xml", "1.xml", "2.xml"]
    assert len(cases(folder)) == len(account.results) == 11
    assert total == 11


def test_a_case_has_class_name_file_time_and_one_property(folder: Path) -> None:
    case = cases(folder)[ADD]
    assert case.attrib == {
        "name": "test_add[dtype=float32,op=add]",
        "classname": "TestA",
        "time": "1.25",
        "file": "test_a.py",
    }
    assert len(case.findall(".//property")) == 1


def test_no_file_has_properties_outside_of_its_cases(folder: Path) -> None:
    for path in folder.glob("*.xml"):
        assert ET.parse(path).getroot().find("properties") is None  # noqa: S314  # written by the test


@pytest.mark.parametrize(
    ("name", "tag", "kind", "message"),
    [
        (CRASH, "error", "signal", "SIGSEGV"),
        (CARD, "error", "hardware", "card reset"),
        (LOST, "error", "infrastructure", "pod evicted"),
        (PLAIN, "error", "not_run", "shard 2 has no journal: it never ran, or its journal was not gathered"),
        (XFAIL, "skipped", "pytest.xfail", "known gap"),
        (FLAKY, "rerun", "failed", "attempt 1: failed: AssertionError: 1 != 2; attempt 2: passed"),
    ],
)
def test_what_is_not_a_plain_pass_has_a_type_and_a_message(
    folder: Path, name: str, tag: str, kind: str, message: str
) -> None:
    child = cases(folder)[name].find(tag)
    assert child is not None
    assert (child.get("type"), child.get("message")) == (kind, message)


@pytest.mark.parametrize("verdict", [one for one in Verdict if one not in (Verdict.PASSED, Verdict.XPASSED)])
def test_a_result_without_a_message_gets_one_all_the_same(verdict: Verdict) -> None:
    suite = junit_suite(ShardCases(0, "", 0.0, [Result(id="a.py::T::x", verdict=verdict, file="a.py")]), "r")
    children = [child for child in ET.fromstring(xml(suite))[0] if child.tag != "properties"]  # noqa: S314  # written here
    assert [bool(child.get("message")) for child in children] == [True]


def test_the_suite_counts_what_it_holds(folder: Path) -> None:
    suite = ET.parse(folder / "1.xml").getroot()  # noqa: S314  # written by the test
    wanted = {"tests": "3", "failures": "1", "errors": "2", "skipped": "0", "hostname": "node-a"}
    assert wanted.items() <= suite.attrib.items()


def test_the_card_and_a_declared_reason_stand_in_the_output(folder: Path) -> None:
    assert cases(folder)[XFAIL].findtext("system-out") == "card: spyre:0\nexpected: no complex numbers yet"


def test_hostile_text_is_kept_readable(folder: Path) -> None:
    text = (folder / "1.xml").read_text(encoding="utf-8")
    assert "<script>" not in text
    case = next(case for name, case in cases(folder).items() if "<script>" in name)
    failure = case.find("failure")
    assert failure is not None
    assert r"\x00 \udc80" in (failure.text or "")
    assert "\x1b" not in text


def test_a_very_long_traceback_is_cut_at_its_beginning() -> None:
    long = Result(id="a", verdict=Verdict.FAILED, file="a.py", detail="x" * 100_000 + "\nthe end")
    text = xml(junit_suite(ShardCases(0, "", 0.0, [long]), "r"))
    assert len(text) < 70_000
    assert "the end" in text


def test_a_shard_nobody_ran_tests_on_still_has_its_file(account: Account) -> None:
    moved = replace(account, results=tuple(replace(one, shard=0) for one in account.results))
    assert [len(one.results) for one in shard_cases(moved, identity())] == [11, 0, 0]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("a.py::T::x[k=v::w]", ("T", "x[k=v::w]")),
        ("a.py::x", ("", "x")),
        ("a.py::::x[k=1]", ("", "x[k=1]")),
        ("a.py::T::x#2", ("T", "x#2")),
    ],
)
def test_an_id_splits_into_class_and_name(name: str, split: tuple[str, str]) -> None:
    assert split_id(name, "a.py") == split


def test_an_id_splits_behind_the_name_of_its_file_as_ids_have_it() -> None:
    assert split_id(canonical_id("a%b.py", "T", "x", {}), "a%b.py") == ("T", "x")


@given(
    st.builds(Result, id=ANY, verdict=st.sampled_from(Verdict), message=ANY, detail=ANY, card=ANY, file=ANY)
)
def test_any_text_makes_xml_that_reads_back(result: Result) -> None:
    suite = junit_suite(ShardCases(0, result.message, 0.0, [result]), result.id)
    assert len(list(junitparser.TestSuite.fromstring(xml(suite).partition("?>")[2]))) == 1


def test_the_files_look_as_agreed(folder: Path, golden: Golden) -> None:
    for name in ("0.xml", "1.xml"):
        tree = ET.parse(folder / name)  # noqa: S314  # written by the test
        ET.indent(tree)
        golden(f"report/junit-{name}", ET.tostring(tree.getroot(), "unicode") + "\n")


def test_the_hostile_test_keeps_its_id_for_people(folder: Path) -> None:
    assert HOSTILE_ID not in cases(folder)
    assert any(name.startswith("test_b.py::TestB::test_<script>") for name in cases(folder))
