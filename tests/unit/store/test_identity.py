"""The numbers of jobs and tests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.store.identity import job_number, key_of_test

HERE = "torch-spyre/torch-spyre"


def test_githubs_own_number_is_kept() -> None:
    assert job_number(70123456789, repository=HERE) == 70123456789
    assert job_number("70123456789", repository=HERE) == 70123456789


@given(text=st.text())
def test_any_text_gives_a_number_that_javascript_can_hold(text: str) -> None:
    assert 1 <= job_number(text, repository=HERE) < 2**53


def test_two_back_ends_whose_runs_began_in_one_second_share_no_number() -> None:
    assert job_number("1700000000-1", repository=HERE) != job_number("1700000000-1", repository="a/b")


def test_the_numbers_are_the_same_for_ever() -> None:
    # They stand in stores and object names: who changes the function loses the history.
    assert job_number("1700000000-1", repository=HERE) == 6373690027244241
    assert key_of_test("test_a.py::TestA::test_b") == 2166479197900002360


@given(text=st.text(), place=st.integers(0, 3))
def test_a_tests_key_fits_a_signed_column(text: str, place: int) -> None:
    assert 1 <= key_of_test(text, place) < 2**63


def test_rows_of_one_id_have_keys_of_their_own() -> None:
    assert len({key_of_test("test_a.py::test_b", place) for place in range(3)}) == 3
