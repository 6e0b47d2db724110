"""The ladder: one order, whoever collected; must-run, cover, rest."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.ladder import KINDS, about, build_ladder

from .any_tests import any_tests, make_test


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
    one = build_ladder(tests, must_run=must, seconds=seconds, history=history)
    other = build_ladder(mixed, must_run=must[::-1], seconds=seconds, history=history)
    assert one == other
    assert sorted(ids(one.tests)) == sorted(names)
    assert set(ids(one.tests[: one.must_run])) == set(must)


@given(any_tests(min_size=1))
def test_the_cover_covers_and_each_kind_is_complete_where_it_says(tests: list[CatalogTest]) -> None:
    ladder = build_ladder(tests)
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
    ladder = build_ladder(tests)
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
    ladder = build_ladder(tests)
    assert ladder.complete == {"files": 1, "ops": 2, "dtypes": 2, "templates": 3, "op-dtype pairs": 4}
    assert ladder.cover == 4


def test_the_few_dtypes_do_not_wait_for_the_many_ops() -> None:
    tests = [make_test(0, 0, op, 0) for op in range(50)] + [
        make_test(0, 0, 0, dtype) for dtype in range(1, 4)
    ]
    ladder = build_ladder(tests)
    assert ladder.complete["dtypes"] <= 5
    assert ladder.complete["ops"] >= 50


def test_must_run_tests_come_first_and_cover_as_well() -> None:
    tests = [make_test(file, template) for file in range(3) for template in range(4)]
    must = [tests[5].id, "not_there.py::test_x"]
    ladder = build_ladder(tests, must_run=must)
    assert ladder.tests[0] == tests[5]
    assert ladder.must_run == 1
    assert ladder.complete["files"] == 3


def test_must_run_tests_of_no_use_to_the_cover_still_come_first() -> None:
    tests = [make_test(0, 0, extra=extra) for extra in range(9)] + [make_test(1, 1)]
    ladder = build_ladder(tests, must_run=ids(tests[:9]))
    assert set(ids(ladder.tests[:9])) == set(ids(tests[:9]))
    assert (ladder.must_run, ladder.cover) == (9, 10)


@pytest.mark.parametrize(
    ("seconds", "history"),
    [({0: 1.0, 1: 9.0}, {}), ({0: 9.0, 1: 1.0}, {0: 0.3}), ({1: 1.0}, {0: 0.3, 1: 0.2})],
)
def test_ties_go_by_history_then_seconds(seconds: dict[int, float], history: dict[int, float]) -> None:
    tests = [make_test(0, 0, extra=1), make_test(0, 0, extra=2)]
    ladder = build_ladder(
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
    ladder = build_ladder(tests)
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
    ladder = build_ladder([])
    assert (ladder.tests, ladder.cover, set(ladder.complete.values())) == ([], 0, {0})


def test_lone_surrogates_have_a_place() -> None:
    tests = [CatalogTest(id=f"a.py::\ud800{number}", node="", file="a.py") for number in range(3)]
    assert len(build_ladder(tests).tests) == 3
