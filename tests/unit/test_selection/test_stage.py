"""Stages: nested, stable, and composed of restricting, scope, suite and share."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.errors import NothingToRunError, UsageError
from test_selection.rules import Rules, load_rules
from test_selection.selection import Expectation, Selection
from test_selection.stage import InScope, make_selection, require_tests, restrict
from test_selection.suite_decide import Decider
from test_selection.suite_read import load_suite


def make_test(name: str, file: str = "test_x.py", node: str = "") -> CatalogTest:
    return CatalogTest(id=f"{file}::{name}", node=node, file=file, template=name)


MANY = [make_test(f"test_{number}") for number in range(4000)]

ROWS = [
    make_test("test_add", "test_a.py"),
    make_test("test_mul", "test_a.py"),
    make_test("test_add", "nn/test_a.py"),
    make_test("test_add", "test_b.py"),
]


@pytest.mark.parametrize(
    ("files", "keyword", "left", "unmatched"),
    [
        ([], None, [0, 1, 2, 3], []),
        (["test_a.py"], None, [0, 1], []),
        (["./test_a.py"], None, [0, 1], []),
        (["test_*.py"], None, [0, 1, 3], []),
        (["**/test_a.py"], None, [0, 1, 2], []),
        (["test_b.py", "nn/*"], None, [2, 3], []),
        (["/_b/"], None, [3], []),
        (["test_a.py", "nope.py"], None, [0, 1], ["nope.py"]),
        (["nope.py"], None, [], ["nope.py"]),
        (["broken.py"], None, [], []),
        ([], "mul", [1], []),
        (["test_a.py"], "not mul", [0], []),
        (["test_b.py"], "mul", [], []),
        ([], "", [0, 1, 2, 3], []),
    ],
)
def test_files_and_keywords_restrict(
    files: list[str], keyword: str | None, left: list[int], unmatched: list[str]
) -> None:
    found = restrict(ROWS, files, keyword, known_files=["broken.py"])
    assert found == ([ROWS[row] for row in left], unmatched)


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "rules:\n  - {code: cuda, text: t, verdict: out, file: '**/test_cuda*.py'}\n"
        "  - {code: slow, text: t, verdict: out, template: test_slow}\n"
        "  - {code: in-scope, text: t, verdict: in}\n"
    )
    return load_rules(path)


@pytest.fixture
def suite(tmp_path: Path) -> Decider:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "test_suite_config:\n  files:\n"
        "    - {path: test_a.py, unlisted_test_mode: skip, tests: [{names: [test_add], mode: xfail}]}\n"
        "    - {path: broken.py}\n"
    )
    return Decider(load_suite(path))


CATALOG = Catalog(
    pytorch="p",
    device="spyre",
    files={
        "test_a.py": FileRecord(),
        "nn/test_a.py": FileRecord(),
        "test_b.py": FileRecord(),
        "test_cuda.py": FileRecord(),
        "broken.py": FileRecord(error="ImportError: x"),
        "gone.py": FileRecord(error="SyntaxError: y"),
        "test_cuda_broken.py": FileRecord(error="ImportError: z"),
    },
    tests=[*ROWS, make_test("test_add", "test_cuda.py"), make_test("test_slow", "test_b.py")],
)


def select(rules: Rules, *, catalog: Catalog = CATALOG, **asked: Any) -> Selection:
    return make_selection(InScope(catalog=catalog, rules=rules), **asked)


def ids(*rows: int) -> list[str]:
    return [ROWS[row].id for row in rows]


def test_everything_in_scope_is_selected_and_the_rest_accounted_for(rules: Rules) -> None:
    assert replace(select(rules, stage=2, percent=100), ladder=None) == Selection(
        stage=2,
        percent=100,
        ids=ids(0, 1, 2, 3),
        in_scope=4,
        out_of_scope={"cuda": 1, "slow": 1},
        collect_errors={"broken.py": "ImportError: x", "gone.py": "SyntaxError: y"},
    )


def test_the_share_is_taken_of_what_is_left(rules: Rules) -> None:
    catalog = Catalog(pytorch="p", device="spyre", tests=MANY)
    selection = select(rules, catalog=catalog, stage=None, percent=5, keyword="test_1")
    left = [test for test in MANY if "test_1" in test.id]
    assert selection.in_scope == len(left)
    assert len(selection.ids) == math.ceil(len(left) / 20)
    assert set(selection.ids) <= {test.id for test in left}


def test_files_restrict_tests_and_collection_errors(rules: Rules) -> None:
    selection = select(rules, stage=None, percent=100, files=["test_b.py", "gone.py"])
    assert selection.ids == ids(3)
    assert selection.out_of_scope == {"slow": 1}
    assert selection.collect_errors == {"gone.py": "SyntaxError: y"}


def test_a_suite_narrows_to_its_files_and_declares_expectations(rules: Rules, suite: Decider) -> None:
    selection = select(rules, stage=None, percent=100, suite=suite)
    assert selection.ids == ids(0, 1)
    assert selection.in_scope == 2
    assert selection.out_of_scope == {"cuda": 1, "slow": 1, "not-in-suite": 2}
    assert selection.collect_errors == {"broken.py": "ImportError: x"}
    assert selection.expectations == {
        ROWS[0].id: Expectation(mode="xfail"),
        ROWS[1].id: Expectation(mode="skip", reason="not listed in the suite"),
    }


def test_only_what_is_selected_has_an_expectation(rules: Rules, suite: Decider) -> None:
    selection = select(rules, stage=None, percent=100, suite=suite, keyword="mul")
    assert list(selection.expectations) == ids(1)


def test_ids_named_one_by_one_are_taken_whatever_their_place(rules: Rules) -> None:
    catalog = Catalog(pytorch="p", device="spyre", tests=MANY)
    few = set(select(rules, catalog=catalog, stage=1, percent=5).ids)
    named = [test.id for test in MANY if test.id not in few][:3]
    selection = select(rules, catalog=catalog, stage=1, percent=5, only_ids=named)
    assert sorted(selection.ids) == sorted(named)
    assert selection.in_scope == 3
    assert selection.missing == []


def test_ids_that_left_the_catalog_are_named(rules: Rules) -> None:
    selection = make_selection(
        InScope(catalog=CATALOG, rules=rules),
        stage=None,
        percent=5,
        only_ids=[*ids(1), "test_a.py::test_gone"],
    )
    assert selection.ids == ids(1)
    assert selection.missing == ["test_a.py::test_gone"]
    assert selection.collect_errors == {}


def test_an_id_of_a_file_that_no_longer_collects_brings_the_files_error(rules: Rules) -> None:
    selection = select(rules, stage=None, percent=5, only_ids=["broken.py::test_z"])
    assert selection.ids == []
    assert selection.missing == ["broken.py::test_z"]
    assert selection.collect_errors == {"broken.py": "ImportError: x"}


def test_whole_files_are_taken_beside_ids_with_their_errors(rules: Rules) -> None:
    whole = ["test_a.py", "broken.py"]
    selection = make_selection(
        InScope(catalog=CATALOG, rules=rules),
        stage=None,
        percent=100,
        only_ids=["test_b.py::test_z"],
        whole_files=whole,
    )
    assert selection.ids == [test.id for test in CATALOG.tests if test.file == "test_a.py"]
    assert selection.missing == ["test_b.py::test_z"]
    assert selection.collect_errors == {"broken.py": "ImportError: x"}
    alone = select(rules, stage=None, percent=100, only_ids=(), whole_files=whole[1:])
    assert (alone.ids, alone.collect_errors) == ([], {"broken.py": "ImportError: x"})


def test_ids_of_another_catalog_are_refused(rules: Rules) -> None:
    with pytest.raises(UsageError, match="none of the 1 named tests is in the catalog") as caught:
        select(rules, stage=None, percent=5, only_ids=["other.py::test_z"])
    assert "'other.py::test_z'" in str(caught.value)
    assert "collect the same files" in str(caught.value)


def test_a_pattern_without_a_file_is_refused_with_the_nearest_name(rules: Rules) -> None:
    with pytest.raises(UsageError, match=r"no collected file matches 'test_aa\.py'") as caught:
        select(rules, stage=None, percent=100, files=["test_aa.py"])
    assert "did you mean test_a.py?" in str(caught.value)
    assert "relative to the tests' root" in str(caught.value)


@pytest.mark.parametrize("text", ["/(/", "[z-a]"])
def test_a_pattern_that_cannot_be_read_is_refused(rules: Rules, text: str) -> None:
    with pytest.raises(UsageError, match=r"--files: .* is not a (glob|regular expression)"):
        select(rules, stage=None, percent=100, files=[text])


def test_stage_0_asks_for_nothing_and_gets_nothing(rules: Rules) -> None:
    selection = select(rules, stage=0, percent=0, only_ids=ids(0))
    assert selection.ids == []
    assert selection.collect_errors == {}
    require_tests(selection)


def test_a_share_above_0_without_a_test_is_refused_with_the_reasons(rules: Rules) -> None:
    selection = select(rules, stage=1, percent=100, files=["test_cuda.py"])
    with pytest.raises(NothingToRunError) as caught:
        require_tests(selection)
    assert caught.value.exit_code == 3
    assert "nothing to run: 100 % of the 0 tests in scope is none" in str(caught.value)
    assert "(out of scope: 1 cuda; files that failed to collect: 0)" in str(caught.value)
    assert "loosen --files" in str(caught.value)


def test_a_selection_with_tests_is_let_through(rules: Rules) -> None:
    require_tests(select(rules, stage=None, percent=100))
