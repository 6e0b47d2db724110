"""Reading what a container wrote, which may be anything, and putting it where people find it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET  # files of this test's own

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import UsageError
from ci.image.component_tests import ComponentTests
from ci.image.junit import put_results, read_results, results_folder
from ci.image.outcome import Failing, Found, Outcome

TESTS = ComponentTests(component="flex", kind="build", lines=("a",), timeout_s=1)
CASES = (
    '<testsuites><testsuite><testcase name="a"/><testcase classname="C" name="b"><failure message="no"/>'
    '</testcase><testcase name="c"><error>gone\nfar</error></testcase>'
    '<testcase name="d"><skipped/></testcase>'
    "</testsuite></testsuites>"
)
BOMB = '<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><testsuite><testcase name="&z;"/></testsuite>'


def folder_of(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "taken"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.xml").write_text(text)
    return folder


def outcome(found: Found, *problems: str, last: tuple[str, ...] = ()) -> Outcome:
    return Outcome(tests=TESTS, found=found, problems=problems, seconds=2, exit_code=1, last=last)


def test_results_of_any_runner_are_counted(tmp_path: Path) -> None:
    found = read_results(folder_of(tmp_path, one=CASES, two="<testsuite><testcase name='e'/></testsuite>"))
    assert (found.passed, found.failed, found.skipped, found.files, found.tests) == (2, 2, 1, 2, 5)
    assert found.failing == (Failing(name="C::b", message="no"), Failing(name="c", message="gone"))
    assert found.damaged == {}


def test_nothing_written_is_nothing_found(tmp_path: Path) -> None:
    assert read_results(tmp_path / "nowhere") == Found(damaged={})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CASES[:120], "is no whole XML after 2 test cases"),
        ("", "is no whole XML"),
        (BOMB, "declares entities or a document type"),
        ("<coverage/>", "is no JUnit: it begins with <coverage>"),
        (f"<testsuite>{'<a>' * 100}", "elements stand more than 64 deep"),
        (f'<testsuite><testcase name="{"a" * (3 << 20)}"/></testsuite>', "a tag has more than"),
    ],
)
def test_a_damaged_or_hostile_file_is_told(tmp_path: Path, text: str, why: str) -> None:
    found = read_results(folder_of(tmp_path, one=text))
    assert why in found.damaged["one.xml"]
    assert found.files == 0


@given(st.binary(max_size=200))
def test_whatever_a_file_holds_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("taken")
    (folder / "a.xml").write_bytes(data)
    found = read_results(folder)
    assert found.files + len(found.damaged) == 1


def test_many_failures_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    case = '<testcase name="a"><failure message="no"/></testcase>'
    found = read_results(folder_of(tmp_path, one=f"<testsuite>{case * 1000}</testsuite>"))
    assert (found.failed, len(found.failing)) == (1000, 200)


def test_results_are_put_whole_in_the_place_of_those_before(tmp_path: Path) -> None:
    folder = results_folder(tmp_path / "out", TESTS)
    taken = folder_of(tmp_path, one=CASES)
    put_results(folder, taken, outcome(read_results(taken)))
    (taken / "one.xml").rename(taken / "two.xml")
    put_results(folder, taken, outcome(read_results(taken)))
    assert sorted(path.name for path in folder.rglob("*")) == ["junit", "outcome.json", "two.xml"]
    assert [path.name for path in folder.parent.iterdir()] == ["build"]
    assert json.loads((folder / "outcome.json").read_text())["failed"] == 2


def test_what_stands_there_and_is_no_result_is_left(tmp_path: Path) -> None:
    (tmp_path / "flex" / "build").mkdir(parents=True)
    with pytest.raises(UsageError, match="stands where results belong"):
        results_folder(tmp_path, TESTS)


def test_a_damaged_file_is_kept_and_one_of_ours_says_so(tmp_path: Path) -> None:
    folder, taken = tmp_path / "out", folder_of(tmp_path, one=CASES[:120], two=CASES)
    found = read_results(taken)
    damaged = f"one.xml {found.damaged['one.xml']}"
    put_results(folder, taken, outcome(found, damaged))
    assert (folder / "damaged" / "one.xml").read_text() == CASES[:120]
    assert errors(folder / "junit" / "one.xml") == [damaged]
    assert (folder / "junit" / "two.xml").read_text() == CASES
    assert not (folder / "spyre-ci.xml").exists()


def test_what_no_file_says_stands_in_one_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    put_results(
        folder, tmp_path / "nowhere", outcome(Found(damaged={}), "was killed\0", last=("on\x1b[1m", "way"))
    )
    assert errors(folder / "spyre-ci.xml") == ["was killed\\x00"]
    (error,) = ET.parse(folder / "spyre-ci.xml").getroot().iter("error")  # noqa: S314  # as above
    assert error.text == "on\nway"
    assert read_results(folder).failed == 1


def test_tests_without_junit_that_passed_have_a_result_too(tmp_path: Path) -> None:
    put_results(tmp_path / "out", tmp_path / "nowhere", outcome(Found(damaged={})))
    found = read_results(tmp_path / "out")
    assert (found.passed, found.tests) == (1, 1)


def test_a_result_that_cannot_be_put_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out" / "build"
    put_results(folder, tmp_path / "nowhere", outcome(Found(damaged={})))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ci.image.junit.write_json", full)
    with pytest.raises(OSError, match="No space"):
        put_results(folder, tmp_path / "nowhere", outcome(Found(damaged={}), "was killed"))
    assert [path.name for path in folder.parent.iterdir()] == ["build"]
    assert errors(folder / "spyre-ci.xml") == []


def errors(path: Path) -> list[str]:
    return [one.get("message", "") for one in ET.parse(path).getroot().iter("error")]  # noqa: S314  # as above
