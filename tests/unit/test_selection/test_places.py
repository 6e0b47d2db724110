"""Places: exact at relock, nested, and nobody's depends on who came or went."""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.lock import Lock, make_lock, members, narrowed
from test_selection.places import By, below, hashed_place, percent_for, quota, share, taken

from .any_tests import any_tests, percents

bys = st.sampled_from(get_args(By))
seconds_lists = st.lists(st.floats(0, 1e6), max_size=30)


def lock_of(
    tests: list[CatalogTest], seconds: dict[str, float] | None = None, must: tuple[str, ...] = ()
) -> Lock:
    return make_lock(
        tests, torch="2", device="cpu", seconds=seconds, must_run=must, weighed=seconds is not None
    )


def inside(tests: list[CatalogTest], lock: Lock, percent: float, by: By = "count") -> set[str]:
    return {test.id for test in members(tests, lock, percent=percent, by=by)}


def test_a_hashed_place_comes_from_the_sha256_of_the_id() -> None:
    digest = hashlib.sha256(b"test_x.py::test_0").hexdigest()
    assert hashed_place("test_x.py::test_0") == pytest.approx(int(digest[:16], 16) / 2**64)


@given(st.text())
def test_every_hashed_place_is_in_the_unit_interval(name: str) -> None:
    assert 0 <= hashed_place(name) < 1
    assert below(name, 100)
    assert not below(name, 0)


@pytest.mark.parametrize("percent", [-0.1, 100.1, float("nan"), float("inf")])
def test_what_is_no_percentage_is_refused(percent: float) -> None:
    with pytest.raises(UsageError, match="is not a percentage") as caught:
        quota(percent, 10)
    assert "give a number from 0 to 100" in str(caught.value)


@given(st.decimals(0, 100, places=3), st.integers(0, 10**7))
def test_a_quota_is_exact_whatever_floats_make_of_the_percentage(percent: Decimal, count: int) -> None:
    assert quota(float(percent), count) == math.ceil(Fraction(percent) * count / 100)


@pytest.mark.parametrize(
    ("percent", "count", "wanted"), [(7, 100, 7), (0.1, 1000, 1), (14.1, 1000, 141), (5, 1, 1)]
)
def test_no_float_makes_a_quota_one_too_large(percent: float, count: int, wanted: int) -> None:
    assert quota(percent, count) == wanted


@given(percents, percents, bys, seconds_lists)
def test_a_larger_share_takes_no_fewer(a: float, b: float, by: By, seconds: list[float]) -> None:
    small, large = sorted((a, b))
    assert 0 <= taken(small, by, seconds) <= taken(large, by, seconds) <= len(seconds)
    assert taken(0, by, seconds) == 0
    assert taken(100, by, seconds) == len(seconds)


@given(st.floats(0.01, 99.99), seconds_lists)
def test_by_seconds_a_test_is_in_while_those_before_it_take_less(
    percent: float, seconds: list[float]
) -> None:
    times = [max(1, round(one * 1000)) for one in seconds]
    number = taken(percent, "seconds", seconds)
    limit = share(percent) * sum(times)
    assert all(sum(times[:rank]) < limit for rank in range(number))
    assert number == len(times) or sum(times[:number]) >= limit


@given(bys, st.lists(st.floats(0, 1e4), min_size=1, max_size=300), st.data())
def test_a_kind_is_complete_at_the_percentage_told(by: By, seconds: list[float], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(seconds)))
    percent = percent_for(number, by, seconds)
    assert taken(percent, by, seconds) >= number
    if percent >= 0.02:
        assert taken(round(percent - 0.01, 2), by, seconds) < number


@given(any_tests(), percents)
def test_a_share_is_exact_when_the_lock_is_made(tests: list[CatalogTest], percent: float) -> None:
    lock = lock_of(tests)
    assert len(inside(tests, lock, percent)) == math.ceil(Fraction(str(percent)) * len(tests) / 100)


@given(any_tests(), any_tests(), percents, percents, bys)
def test_a_smaller_share_lies_inside_a_larger_one(
    tests: list[CatalogTest], others: list[CatalogTest], a: float, b: float, by: By
) -> None:
    small, large = sorted((a, b))
    lock = lock_of(tests, {test.id: number / 7 for number, test in enumerate(tests)})
    assert inside(others, lock, small, by) <= inside(others, lock, large, by)


@given(any_tests(), any_tests(), st.data(), percents, bys)
def test_who_came_and_who_went_moves_nobody(
    tests: list[CatalogTest], others: list[CatalogTest], data: st.DataObject, percent: float, by: By
) -> None:
    lock = lock_of(tests, {test.id: number / 7 for number, test in enumerate(tests)})
    known = {test.id for test in tests}
    came = [test for test in others if test.id not in known]
    stayed = [test for test in tests if data.draw(st.booleans())] if tests else []
    before = inside(tests, lock, percent, by)
    mixed = data.draw(st.permutations(stayed + came))
    after = inside(mixed, lock, percent, by)
    assert after & known == before & {test.id for test in stayed}
    assert {name for name in after if name not in known} == {
        test.id for test in came if below(test.id, percent)
    }


@given(any_tests(), any_tests(), percents, bys, st.integers(0, 3))
def test_a_restricted_share_depends_on_the_lock_and_the_restriction_only(
    tests: list[CatalogTest], others: list[CatalogTest], percent: float, by: By, file: int
) -> None:
    seconds = {test.id: number / 7 for number, test in enumerate(tests)}
    lock = lock_of(tests, seconds)
    of_file = [test for test in tests if test.file == f"test_{file}.py"]
    part = narrowed(lock, lambda rows: [test for test in rows if test.file == f"test_{file}.py"])
    known = {test.id for test in of_file}
    now = of_file + [test for test in others if test.file == f"test_{file}.py" and test.id not in known]
    assert inside(now, part, percent, by) & known == inside(of_file, part, percent, by)
    if by == "count":
        assert len(inside(of_file, part, percent)) == quota(percent, len(of_file))
    # The same ladder comes of a collection that never saw the other files.
    assert part.ladder == lock_of(of_file, seconds).ladder


@given(any_tests())
def test_a_restriction_that_lets_everybody_through_changes_nothing(tests: list[CatalogTest]) -> None:
    lock = lock_of(tests, {test.id: number / 7 for number, test in enumerate(tests)})
    assert narrowed(lock, list) is lock


@given(any_tests(min_size=1), percents)
def test_who_was_named_must_run_since_the_lock_is_in_at_once(
    tests: list[CatalogTest], percent: float
) -> None:
    lock = lock_of(tests[1:])
    last = lock.ladder.tests[-1:] + tests[:1]
    names = {test.id for test in last}
    chosen = {test.id for test in members(tests, lock, percent=percent, must_run=names)}
    assert chosen >= names if percent > 0 else not chosen
    # Nobody else moves for it.
    assert chosen - names == inside(tests, lock, percent) - names
