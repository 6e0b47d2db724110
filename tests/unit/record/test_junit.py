"""What became of test cases, in the words of any runner."""

from __future__ import annotations

import io

import pytest

from ci.record.junit import Case, case_of, junit_cases


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
