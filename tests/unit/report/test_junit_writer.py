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

from ci.record.identity import EMULATED, RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.junit_writer import ShardCases, _text, shard_cases, split_id, write_junit, write_suite
from ci.report.reconcile import Account
from test_selection.ids import canonical_id

from .conftest import Golden, identity

ANY = st.text(st.characters(exclude_categories=()), max_size=30)


@pytest.fixture
def folder(tmp_path: Path, account: Account) -> Path:
    write_junit(tmp_path, account, identity())
    return tmp_path


def xml(cases: ShardCases, who: RunIdentity | None = None) -> str:
    stream = io.BytesIO()
    write_suite(stream, cases, who or identity())
    return stream.getvalue().decode()


@pytest.mark.parametrize("verdict", [one for one in Verdict if one not in (Verdict.PASSED, Verdict.XPASSED)])
def test_a_result_without_a_message_gets_one_all_the_same(verdict: Verdict) -> None:
    text = xml(ShardCases(0, "", 0.0, [Result(id="a.py::T::x", verdict=verdict, file="a.py")]))
    children = [child for child in ET.fromstring(text)[0] if child.tag != "properties"]  # noqa: S314  # written here
    assert [bool(child.get("message")) for child in children] == [True]


def test_a_suite_of_the_emulated_device_says_so(tmp_path: Path, account: Account) -> None:
    write_junit(tmp_path, account, replace(identity(), back_end=EMULATED))
    text = (tmp_path / "0.xml").read_text(encoding="utf-8")
    assert '<properties><property name="emulated" value="no card was tested"/></properties>' in text


def test_a_very_long_traceback_is_cut_at_its_beginning() -> None:
    long = Result(id="a", verdict=Verdict.FAILED, file="a.py", detail="x" * 100_000 + "\nthe end")
    text = xml(ShardCases(0, "", 0.0, [long]))
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
    text = xml(ShardCases(0, result.message, 0.0, [result]), replace(identity(), run=result.id))
    assert len(list(junitparser.TestSuite.fromstring(text.partition("?>")[2]))) == 1


@pytest.mark.parametrize("device", ["", EMULATED])
def test_the_counts_of_a_suite_are_those_of_its_cases(device: str) -> None:
    results = [
        Result(id=f"a.py::{number}", verdict=verdict, file="a.py", seconds=0.0014)
        for number, verdict in enumerate([*Verdict, *Verdict])
    ]
    cases, who = ShardCases(0, "a > b", 0.0, results), replace(identity(), back_end=device)
    suite = junitparser.TestSuite.fromstring(xml(cases, who).partition("?>")[2])
    told = suite.tests, suite.errors, suite.failures, suite.skipped, suite.time
    suite.update_statistics()
    assert (suite.tests, suite.errors, suite.failures, suite.skipped, suite.time) == told
    none = ET.fromstring(xml(cases._replace(results=[]), who))  # noqa: S314  # written here
    assert (none.get("tests"), none.get("failures"), none.findall("testcase")) == ("0", "0", [])


def test_the_files_look_as_agreed(folder: Path, golden: Golden) -> None:
    for name in ("0.xml", "1.xml"):
        tree = ET.parse(folder / name)  # noqa: S314  # written by the test
        ET.indent(tree)
        golden(f"report/junit-{name}", ET.tostring(tree.getroot(), "unicode") + "\n")


def test_a_text_of_any_signs_is_written_as_elementtree_writes_it() -> None:
    text = "a <b> & 'c' \"d\"\te é\U0001f600\nf > g"
    element = ET.Element("failure", message=text, type="x")
    element.text = text
    ET.SubElement(element, "empty", name="")
    assert _text(element) == ET.tostring(element, encoding="unicode").replace(" />", "/>")
