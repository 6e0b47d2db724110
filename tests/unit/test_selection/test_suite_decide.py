"""What suites mean: which variants are theirs, which entry decides, with what tolerances."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.selection import Expectation, Precision
from test_selection.suite_decide import Decider, for_root
from test_selection.suite_model import Suite
from test_selection.suite_read import parse_suite

GLOBAL = """
  global:
    supported_dtypes:
      - {name: float16, precision: {atol: 1e-2}}
      - {name: int64, force_xfail: true}
      - float32
    supported_ops:
      - name: add
        dtypes: [{name: float16, precision: {atol: 1e-3, rtol: 1e-4}}, int64]
      - {name: gcd, force_xfail: true}
      - addmm
    supported_modules: [torch.nn.ReLU, {name: torch.nn.Linear, force_xfail: true}]
    input_config: {seed: 7}
"""


def variant(
    template: str = "test_op", *, op: str | None = None, module: str | None = None, dtype: str | None = None,
    file: str = "test_x.py", cls: str = "TestX",
) -> CatalogTest:  # fmt: skip
    pairs = {"op": op, "module": module, "dtype": dtype}
    said = ",".join(f"{key}={value}" for key, value in pairs.items() if value)
    name = f"{file}::{cls}::{template}[{said}]"
    return CatalogTest(
        id=name, node=f"{file}::{cls}::{template}", file=file, cls=cls, template=template,
        op=op or module, dtype=dtype,
    )  # fmt: skip


def suite(*entries: str, rest: str = GLOBAL, unlisted: str = "skip", path: str = "test_x.py") -> Suite:
    rows = "".join(f"        - {entry}\n" for entry in entries) or "        []\n"
    text = (
        f"test_suite_config:\n  files:\n    - path: '{path}'\n      unlisted_test_mode: {unlisted}\n"
        f"      tests:\n{rows}{rest}"
    )
    return parse_suite(Path("suite.yaml"), text)


def outcome(suites: Suite | list[Suite], test: CatalogTest) -> str:
    """The mode that is expected, or the reason code the test is left out for."""
    decision = Decider(suites).decide(test)
    return decision.out or (decision.expected.mode if decision.expected else "")


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (variant(), "mandatory_success"),
        (variant(op="add", dtype="float16"), "mandatory_success"),
        (variant(op="add", dtype="int64"), "xfail"),
        (variant(op="add", dtype="float32"), "suite-unsupported-dtype"),
        (variant(op="addmm", dtype="float32"), "mandatory_success"),
        (variant(op="addmm.decomposed", dtype="float32"), "mandatory_success"),
        (variant(op="addmm", dtype="bfloat16"), "suite-unsupported-dtype"),
        (variant(op="mul", dtype="float16"), "suite-unsupported-op"),
        (variant(op="gcd", dtype="float16"), "xfail"),
        (variant(dtype="float16"), "mandatory_success"),
        (variant(dtype="float64"), "suite-unsupported-dtype"),
        (variant(dtype="float16+float32"), "mandatory_success"),
        (variant(dtype="float16+float64"), "suite-unsupported-dtype"),
        (variant(module="nn.ReLU", dtype="float32"), "mandatory_success"),
        (variant(module="nn.Linear", dtype="float32"), "xfail"),
        (variant(module="nn.GRU", dtype="float32"), "suite-unsupported-module"),
        (variant("test_other", op="add", dtype="float16"), "skip"),
        (variant("test_other", op="mul", dtype="float16"), "suite-unsupported-op"),
        (variant(file="test_z.py"), "not-in-suite"),
    ],
)
def test_the_support_lists_decide_which_variants_there_are(test: CatalogTest, expected: str) -> None:
    assert outcome(suite("{names: [TestX::test_op]}"), test) == expected


EDITED = """{names: [test_op], edits: {
  ops: {include: [mul], exclude: [gcd, addmm]},
  dtypes: {include: [float64, {name: float16, precision: {rtol: 0.5}}], exclude: [int64]},
  modules: {include: [torch.nn.GRU], exclude: [torch.nn.ReLU]}}}""".replace("\n", " ")


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (variant(op="mul", dtype="float64"), "mandatory_success"),
        (variant(op="add", dtype="float64"), "mandatory_success"),
        (variant(op="add", dtype="float32"), "suite-unsupported-dtype"),
        (variant(op="add", dtype="int64"), "suite-excluded"),
        (variant(op="gcd", dtype="float16"), "suite-excluded"),
        (variant(op="addmm.decomposed", dtype="float16"), "suite-excluded"),
        (variant(op="sub", dtype="float16"), "suite-unsupported-op"),
        (variant(module="nn.GRU", dtype="float16"), "mandatory_success"),
        (variant(module="nn.ReLU", dtype="float16"), "suite-excluded"),
    ],
)
def test_includes_win_over_the_lists_and_excludes_come_last(test: CatalogTest, expected: str) -> None:
    assert outcome(suite(EDITED), test) == expected


@pytest.mark.parametrize("mode", ["xfail", "xfail_strict", "skip"])
def test_force_xfail_flips_what_has_to_pass_and_nothing_else(mode: str) -> None:
    assert outcome(suite(f"{{names: [test_op], mode: {mode}}}"), variant(op="gcd", dtype="float16")) == mode


@pytest.mark.parametrize(
    ("entry", "test", "expected"),
    [
        (EDITED, variant(op="add", dtype="float16"), Precision(rtol=0.5)),
        ("{names: [test_op]}", variant(op="add", dtype="float16"), Precision(atol=0.001, rtol=0.0001)),
        ("{names: [test_op]}", variant(op="addmm", dtype="float16"), Precision(atol=0.01)),
        ("{names: [test_op]}", variant(op="addmm", dtype="float32"), None),
        ("{names: [test_op]}", variant(), None),
    ],
)
def test_the_most_specific_precision_wins(entry: str, test: CatalogTest, expected: Precision | None) -> None:
    assert Decider(suite(entry)).expectations([test])[test.id].precision == expected


def test_an_expectation_carries_what_its_run_needs_and_where_it_is_written() -> None:
    entry = "{names: [test_op], no_grad: true, edits: {functions: {cpu_move: [assertEqual]}}}"
    found = Decider(suite(entry)).expectations([variant()])[variant().id]
    assert found == Expectation(mode="mandatory_success", no_grad=True, seed=7, cpu_move=("assertEqual",))
    assert found.where == "suite.yaml:6"


def test_an_unlisted_test_is_decided_by_the_line_of_its_file() -> None:
    found = Decider(suite("{names: [test_op]}")).expectations([variant("test_other")])
    assert [(one.mode, one.where) for one in found.values()] == [("skip", "suite.yaml:3")]


@pytest.mark.parametrize(
    ("selectors", "test", "expected"),
    [
        ("{include: [{has_ops: true}]}", variant(), "suite-selectors"),
        ("{include: [{has_ops: true}]}", variant(op="add", dtype="float16"), "mandatory_success"),
        ("{include: [{has_ops: true}]}", variant(module="nn.ReLU", dtype="float16"), "suite-selectors"),
        ("{include: [{has_ops: false}, {name_patterns: [test_o*]}]}", variant(), "mandatory_success"),
        ("{include: [{has_ops: false, name_patterns: [test_z*]}]}", variant(), "suite-selectors"),
        ("{include: [{module_patterns: ['test_x*.py']}]}", variant(), "mandatory_success"),
        ("{exclude: [{has_ops: false}]}", variant(), "suite-selectors"),
        ("{exclude: [{markers: [slow]}]}", variant(), "mandatory_success"),
        ("{include: [{markers: [slow]}]}", variant(), "mandatory_success"),
        ("{include: [{ops_in_supported: false}]}", variant(), "mandatory_success"),
    ],
)
def test_selectors_choose_among_the_named(selectors: str, test: CatalogTest, expected: str) -> None:
    assert outcome(suite(f"{{names: [test_op], selectors: {selectors}}}"), test) == expected


def test_an_exact_name_decides_before_a_pattern_wherever_it_stands() -> None:
    entries = ["{names: ['test_.*'], mode: skip}", "{names: ['Test.*::test_op'], mode: xfail}"]
    exact = "{names: [TestX::test_op], mode: xfail_strict}"
    assert outcome(suite(*entries), variant()) == "xfail"
    assert outcome(suite(*entries, exact), variant()) == "xfail_strict"
    assert outcome(suite(exact, *entries), variant()) == "xfail_strict"


def test_a_variant_one_entry_excludes_belongs_to_another_that_does_not() -> None:
    entries = ["{names: [test_op], edits: {dtypes: {exclude: [float16]}}}", "{names: [test_op], mode: xfail}"]
    assert outcome(suite(*entries), variant(op="add", dtype="float16")) == "xfail"


def test_several_suites_are_united() -> None:
    first = suite("{names: [test_a], mode: xfail}", unlisted="skip", rest="")
    second = suite("{names: [test_b]}", unlisted="xfail", rest="")
    both = [first, second]
    assert [outcome(both, variant(one)) for one in ("test_a", "test_b", "test_c")] == [
        "xfail",
        "mandatory_success",
        "xfail",
    ]


def test_an_exact_path_decides_before_a_pattern_of_paths() -> None:
    wide, narrow_ = suite(path="*.py", unlisted="mandatory_success", rest=""), suite(unlisted="skip", rest="")
    assert outcome([wide, narrow_], variant()) == "skip"
    assert outcome([wide, narrow_], variant(file="test_z.py")) == "mandatory_success"


def test_paths_of_the_other_tree_are_left_out() -> None:
    suites = [suite(path="${TORCH_DEVICE_ROOT}/tests/test_x.py"), suite(path="test_y.py")]
    assert Decider(suites).names_file("test_x.py")
    assert not Decider(for_root(suites, "torch")).names_file("test_x.py")
    assert Decider(for_root(suites, "torch")).names_file("test_y.py")
    assert Decider(for_root(suites, "device")).names_file("test_x.py")


MODES = st.sampled_from(["mandatory_success", "xfail", "xfail_strict", "skip"])
OPS = st.lists(st.sampled_from(["add", "gcd", "mul"]), unique=True, max_size=2)
DTYPES = st.lists(st.sampled_from(["float16", "float64", "int64"]), unique=True, max_size=2)


@st.composite
def entries_(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(["test_op", "TestX::test_op", "test_.*", "test_z"]), min_size=1))
    ops, dtypes = draw(OPS), draw(DTYPES)
    out = draw(st.sampled_from([one for one in ("add", "gcd", "mul", "none") if one not in ops]))
    edits = f"{{ops: {{include: {ops}, exclude: [{out}]}}, dtypes: {{include: {dtypes}}}}}"
    return f"{{names: {names}, mode: {draw(MODES)}, edits: {edits}}}"


TESTS = [
    variant(template, op=op, dtype=dtype)
    for template in ("test_op", "test_z", "test_other")
    for op in (None, "add", "gcd", "mul", "addmm.decomposed")
    for dtype in (None, "float16", "int64", "float64")
]


@given(st.lists(entries_(), max_size=4), st.permutations(TESTS), MODES)
def test_the_order_of_tests_changes_nothing_and_every_test_is_in_or_out(
    entries: list[str], tests: list[CatalogTest], unlisted: str
) -> None:
    one = suite(*entries, unlisted=unlisted)
    kept, out = Decider(one).narrow(tests)
    assert len(kept) + out.total() == len(tests)
    assert kept == [test for test in tests if test in kept]
    sorted_kept, sorted_out = Decider(one).narrow(TESTS)
    assert ({test.id for test in kept}, out) == ({test.id for test in sorted_kept}, sorted_out)
    assert Decider(one).expectations(tests) == Decider(one).expectations(TESTS)
    assert Decider(one).expectations(kept) == Decider(one).expectations(tests)
    assert set(Decider(one).expectations(tests)) == {test.id for test in kept}


@given(st.lists(entries_(), max_size=3), st.lists(entries_(), max_size=3))
def test_two_suites_together_hold_what_each_lists(first: list[str], second: list[str]) -> None:
    one, two = suite(*first), suite(*second)
    union = {test.id for test in Decider([one, two]).narrow(TESTS)[0]}
    for each in (one, two):
        decider = Decider(each)
        listed = {test.id for test in TESTS if decider.decide(test).entry and not decider.decide(test).out}
        assert listed <= union
