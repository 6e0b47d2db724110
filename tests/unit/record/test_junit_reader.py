"""What became of test cases, in the words of any runner."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ci.core.errors import BadFileError
from ci.record.junit_reader import Case, Counts, case_of, junit_cases

TWO = "<testsuite><testcase name='a'/><testcase name='b'><failure message='no'/></testcase>"
BOMB = '<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><testsuite><testcase name="&z;"/></testsuite>'


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("name='a'", Case(name="a", became="passed")),
        ("classname='C' name='a'><skipped/", Case(name="C::a", became="skipped")),
        ("name='a' status='notrun'", Case(name="a", became="skipped")),
        ("name='a' result='SUPPRESSED'", Case(name="a", became="skipped")),
        ("name='a' result='suppressed'><failure message='x'/", Case(name="a", became="failed", message="x")),
        ("name='a'><error>gone\nfar</error", Case(name="a", became="failed", message="gone")),
        ("name='a'><error/><failure type='T'/", Case(name="a", became="failed", message="T")),
        ("name='a'><failure message=' '/", Case(name="a", became="failed", message="no message")),
    ],
)
def test_a_case_came_to_what_its_runner_says(case: str, expected: Case) -> None:
    text = f"<testsuite><testcase {case}></testcase></testsuite>"
    ((element, _),) = junit_cases(io.BytesIO(text.encode()), name="j.xml")
    assert case_of(element) == expected


def test_cases_of_several_files_are_counted_and_the_first_that_failed_named(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(f"{TWO}<testcase name='c'><skipped/></testcase></testsuite>")
    counts = Counts()
    for _ in range(3):
        counts.add(tmp_path / "a.xml", name="a.xml", most_named=2)
    assert counts == Counts(passed=3, failed=3, skipped=3, failing=["b: no", "b: no"])
    assert (counts.tests, str(counts)) == (9, "3 passed, 3 failed, 3 skipped")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TWO, "is incomplete XML after 2 test cases"),
        ("", "is incomplete XML"),
        (BOMB, "declares entities or a document type"),
        ("<coverage/>", "is not JUnit: it starts with <coverage>"),
        (f"<testsuite>{'<a>' * 100}", "elements stand more than 64 deep"),
        (f'<testsuite><testcase name="{"a" * (3 << 20)}"/></testsuite>', "a tag has more than"),
    ],
)
def test_a_damaged_or_hostile_file_is_told(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(BadFileError) as caught:
        Counts().add(tmp_path / "a.xml", name="a.xml", most_named=2)
    assert why in caught.value.what
