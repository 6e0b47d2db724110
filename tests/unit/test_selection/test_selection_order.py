"""The ladder: one order, whoever collected; must-run, cover, rest."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.lock import Lock, make_lock, members, narrowed
from test_selection.selection_order import (
    KINDS,
    By,
    about,
    below,
    build_order,
    hashed_rank,
    percent_for,
    quota,
    share,
    taken,
)

from .any_tests import any_tests, make_test, percents


def reached(tests: list[CatalogTest]) -> list[set[object]]:
    return [{one for one in column if one is not None} for column in zip(*map(about, tests), strict=True)]


def ids(tests: list[CatalogTest]) -> list[str]:
    return [test.id for test in tests]


@given(any_tests(), st.randoms(), st.data())
def test_the_order_depends_on_neither_the_order_nor_the_nodes_of_collection(
    tests: list[CatalogTest], rnd: random.Random, data: st.DataObject
) -> None:
    names = ids(tests)
    must = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    seconds = {name: rnd.choice([0.1, 0.2]) for name in names}
    history = {name: rnd.choice([0.0, 0.5]) for name in names}
    mixed = tests.copy()
    rnd.shuffle(mixed)
    one = build_order(tests, must_run=must, seconds=seconds, history=history)
    other = build_order(mixed, must_run=must[::-1], seconds=seconds, history=history)
    assert one == other
    assert sorted(ids(one.tests)) == sorted(names)
    assert set(ids(one.tests[: one.must_run])) == set(must)


@given(any_tests(min_size=1))
def test_the_cover_covers_and_each_kind_is_complete_where_it_says(tests: list[CatalogTest]) -> None:
    ladder = build_order(tests)
    everything = reached(tests)
    for column, kind in enumerate(KINDS):
        number = ladder.complete[kind]
        assert number <= ladder.cover
        if everything[column]:
            assert reached(ladder.tests[:number])[column] == everything[column]
            assert number == 1 or reached(ladder.tests[: number - 1])[column] != everything[column]
        else:
            assert number == 0


@given(any_tests(min_size=1))
def test_every_step_of_the_cover_adds_the_most_there_is_to_add(tests: list[CatalogTest]) -> None:
    ladder = build_order(tests)
    met: list[set[object]] = [set() for _ in KINDS]

    def adds(test: CatalogTest) -> tuple[int, ...]:
        new = [one is not None and one not in seen for one, seen in zip(about(test), met, strict=True)]
        return sum(new[:3]), new[2], new[0], new[3], new[4]

    for number, test in enumerate(ladder.tests):
        best = max(map(adds, ladder.tests[number:]))
        assert adds(test) == best if number < ladder.cover else not any(best)
        for one, seen in zip(about(test), met, strict=True):
            seen.add(one)


def test_files_ops_and_dtypes_come_before_templates_and_those_before_pairs() -> None:
    tests = [make_test(0, template, op, dtype) for template in range(3) for op in (0, 1) for dtype in (0, 1)]
    ladder = build_order(tests)
    assert ladder.complete == {"files": 1, "ops": 2, "dtypes": 2, "templates": 3, "op-dtype pairs": 4}
    assert ladder.cover == 4


def test_the_few_dtypes_do_not_wait_for_the_many_ops() -> None:
    tests = [make_test(0, 0, op, 0) for op in range(50)] + [
        make_test(0, 0, 0, dtype) for dtype in range(1, 4)
    ]
    ladder = build_order(tests)
    assert ladder.complete["dtypes"] <= 5
    assert ladder.complete["ops"] >= 50


def test_must_run_tests_come_first_and_cover_as_well() -> None:
    tests = [make_test(file, template) for file in range(3) for template in range(4)]
    must = [tests[5].id, "not_there.py::test_x"]
    ladder = build_order(tests, must_run=must)
    assert ladder.tests[0] == tests[5]
    assert ladder.must_run == 1
    assert ladder.complete["files"] == 3


def test_must_run_tests_of_no_use_to_the_cover_still_come_first() -> None:
    tests = [make_test(0, 0, extra=extra) for extra in range(9)] + [make_test(1, 1)]
    ladder = build_order(tests, must_run=ids(tests[:9]))
    assert set(ids(ladder.tests[:9])) == set(ids(tests[:9]))
    assert (ladder.must_run, ladder.cover) == (9, 10)


@pytest.mark.parametrize(
    ("seconds", "history"),
    [({0: 1.0, 1: 9.0}, {}), ({0: 9.0, 1: 1.0}, {0: 0.3}), ({1: 1.0}, {0: 0.3, 1: 0.2})],
)
def test_ties_go_by_history_then_seconds(seconds: dict[int, float], history: dict[int, float]) -> None:
    tests = [make_test(0, 0, extra=1), make_test(0, 0, extra=2)]
    ladder = build_order(
        tests,
        seconds={tests[row].id: one for row, one in seconds.items()},
        history={tests[row].id: one for row, one in history.items()},
    )
    assert ladder.tests[0] == tests[0]


def test_every_part_of_the_rest_holds_files_and_templates_in_proportion() -> None:
    sizes = {(file, template): 10 * (file + 1) * (template + 1) for file in range(4) for template in range(5)}
    tests = [
        make_test(file, template, extra=row)
        for (file, template), size in sizes.items()
        for row in range(size)
    ]
    ladder = build_order(tests)
    rest = ladder.tests[ladder.cover :]
    files, templates = (
        Counter(test.file for test in rest),
        Counter((test.file, test.template) for test in rest),
    )
    for number in range(0, len(rest), 37):
        got = rest[:number]
        by_file = Counter(test.file for test in got)
        by_template = Counter((test.file, test.template) for test in got)
        share = number / len(rest)
        assert all(abs(by_file[name] - share * size) <= 2 for name, size in files.items())
        assert all(abs(by_template[name] - share * size) <= 3 for name, size in templates.items())


def test_of_no_tests_there_is_a_ladder_too() -> None:
    ladder = build_order([])
    assert (ladder.tests, ladder.cover, set(ladder.complete.values())) == ([], 0, {0})


def test_lone_surrogates_have_a_place() -> None:
    tests = [CatalogTest(id=f"a.py::\ud800{number}", node="", file="a.py") for number in range(3)]
    assert len(build_order(tests).tests) == 3


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
    assert hashed_rank("test_x.py::test_0") == pytest.approx(int(digest[:16], 16) / 2**64)


@given(st.text())
def test_every_hashed_place_is_in_the_unit_interval(name: str) -> None:
    assert 0 <= hashed_rank(name) < 1
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
    assert part.order == lock_of(of_file, seconds).order


@given(any_tests())
def test_a_restriction_that_lets_everybody_through_changes_nothing(tests: list[CatalogTest]) -> None:
    lock = lock_of(tests, {test.id: number / 7 for number, test in enumerate(tests)})
    assert narrowed(lock, list) is lock


@given(any_tests(min_size=1), percents)
def test_who_was_named_must_run_since_the_lock_is_in_at_once(
    tests: list[CatalogTest], percent: float
) -> None:
    lock = lock_of(tests[1:])
    last = lock.order.tests[-1:] + tests[:1]
    names = {test.id for test in last}
    chosen = {test.id for test in members(tests, lock, percent=percent, must_run=names)}
    assert chosen >= names if percent > 0 else not chosen
    # Nobody else moves for it.
    assert chosen - names == inside(tests, lock, percent) - names
