"""Checks of suite files: each mistake is found at its line, and what is meant is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.suite_check import Finding, Known, check_suites, known_of
from test_selection.suite_read import parse_suite

RELU = "nn.functional.relu"
FILES = {"test_x.py": FileRecord(), "nn/test_y.py": FileRecord(), "bad.py": FileRecord(error="SyntaxError")}


def variant(template: str, op: str | None = None, dtype: str | None = None) -> CatalogTest:
    name = f"test_x.py::TestX::{template}[op={op},dtype={dtype}]"
    return CatalogTest(
        id=name,
        node="test_x.py::TestX::x",
        file="test_x.py",
        cls="TestX",
        template=template,
        op=op,
        dtype=dtype,
    )


CATALOG = Catalog(
    pytorch="p", device="spyre", files=FILES,
    tests=[variant("test_add", op, dtype) for op in ("add", RELU) for dtype in ("float16", "int8")]
    + [variant("test_view"), variant("test_shape")],
)  # fmt: skip


def check(*texts: str, catalog: Catalog | None = CATALOG, known: Known | None = None) -> list[Finding]:
    suites = [parse_suite(Path(f"s{at}.yaml"), text) for at, text in enumerate(texts)]
    if known is None:
        known = known_of(catalog) if catalog else Known()
    return check_suites(suites, catalog, known)


def suite(*entries: str, path: str = "test_x.py", rest: str = "", unlisted: str = "skip") -> str:
    rows = "".join(f"        - {entry}\n" for entry in entries) or "        []\n"
    return (
        f"test_suite_config:\n  files:\n    - path: '{path}'\n      unlisted_test_mode: {unlisted}\n"
        f"      tests:\n{rows}{rest}"
    )


def shown(findings: list[Finding]) -> list[tuple[str, str, str, str]]:
    return [(one.severity, one.where, one.key, one.value) for one in findings]


def test_a_good_suite_has_no_findings() -> None:
    text = suite(
        "{names: [TestX::test_add], edits: {ops: {include: [add]}, dtypes: {exclude: [int8]}}, tags: [m_1]}",
        "{names: ['test_v.*'], mode: xfail}",
        rest=f"  global:\n    supported_dtypes: [float16, int8]\n    supported_ops: [add, {RELU}]\n",
    )
    assert check(text) == []
    assert check(text, catalog=None) == []


MISTAKES = {
    "a name twice with another mode": (
        suite("{names: [TestX::test_view]}", "{names: [TestX::test_view], mode: skip}"),
        [("error", "s0.yaml:7", "names", "TestX::test_view")],
        "is skip here and mandatory_success on line 6, which comes first and decides",
    ),
    "a name twice with the same mode": (
        suite("{names: [TestX::test_view, TestX::test_view]}"),
        [("warning", "s0.yaml:6", "names", "TestX::test_view")],
        "is on line 6 already",
    ),
    "a dead name that has to pass": (
        suite("{names: [TestX::test_vew, test_view]}"),
        [("error", "s0.yaml:6", "names", "TestX::test_vew")],
        "matches no test\n  remedy: did you mean 'TestX::test_view'?",
    ),
    "a dead name that is skipped": (
        suite("{names: [test_view]}", "{names: [TestCuda::test_cuda], mode: skip}"),
        [("warning", "s0.yaml:7", "names", "TestCuda::test_cuda")],
        "matches no test\n  remedy: remove it, or fix it",
    ),
    "a path without a file": (
        suite("{names: [test_view]}") + "    - path: ${TORCH_ROOT}/test/test_xx.py\n",
        [("error", "s0.yaml:7", "path", "${TORCH_ROOT}/test/test_xx.py")],
        "matches no file\n  remedy: did you mean 'test_x.py'?",
    ),
    "a misspelt op": (
        suite(
            "{names: [test_add]}",
            rest="  global:\n    supported_ops:\n      - add\n      - nn.functional.rellu\n",
        ),
        [("error", "s0.yaml:10", "supported_ops", "nn.functional.rellu")],
        "is not an operator of the catalog\n  remedy: did you mean 'nn.functional.relu'?",
    ),
    "an op nobody has": (
        suite("{names: [test_add], edits: {ops: {exclude: [gcd]}}}"),
        [("warning", "s0.yaml:6", "edits.ops", "gcd")],
        "remedy: leave it out, or collect the tests that have it",
    ),
    "dtypes of an op outside the supported ones": (
        suite(
            "{names: [test_add]}",
            rest="  global:\n    supported_dtypes: [float16]\n"
            "    supported_ops:\n      - {name: add, dtypes: [float16, int8]}\n",
        ),
        [("error", "s0.yaml:10", "dtypes", "int8")],
        "of add is outside supported_dtypes, so no test has it",
    ),
    "nothing that has to pass": (
        suite("{names: [test_view], mode: xfail}"),
        [("warning", "s0.yaml:3", "files", "test_x.py")],
        "contain no test that must pass, so the suite cannot fail",
    ),
    "nothing that has to pass because all of it is forced": (
        suite(
            "{names: [test_add]}",
            rest="  global: {supported_ops: [{name: add, force_xfail: true}]}\n",
        ),
        [("warning", "s0.yaml:3", "files", "test_x.py")],
        "cannot fail",
    ),
    "patterns of another mode": (
        suite("{names: ['test_v.*'], mode: xfail}", "{names: ['test_.*']}"),
        [
            (
                "warning",
                "s0.yaml:6",
                "names",
                "1 tests such as test_x.py::TestX::test_view[op=None,dtype=None]",
            )
        ],
        "is mandatory_success at s0.yaml:7; this entry comes first and decides",
    ),
    "a tag pytest cannot ask for": (
        suite("{names: [test_view], tags: [model-1]}"),
        [("warning", "s0.yaml:6", "tags", "model-1")],
        "use letters, digits and underscores: model_1",
    ),
    "a selector nobody can answer": (
        suite("{names: [test_view], selectors: {exclude: [{markers: [slow]}]}}"),
        [("warning", "s0.yaml:6", "selectors", "markers")],
        "is not evaluated",
    ),
    "a module without its package": (
        suite("{names: [test_view], edits: {modules: {include: [Linear, {name: M, module_path: a.M}]}}}"),
        [("warning", "s0.yaml:6", "modules", "Linear")],
        "write it as torch.nn.Linear, or give module_path",
    ),
}


@pytest.mark.parametrize(("text", "expected", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_at_its_line(text: str, expected: list[tuple[str, ...]], message: str) -> None:
    found = check(text)
    assert shown(found) == expected
    assert message in str(found[0])


def test_entries_told_apart_by_their_includes_are_no_duplicates() -> None:
    text = suite(
        "{names: [test_add]}", "{names: [test_add], mode: xfail, edits: {dtypes: {include: [int8]}}}"
    )
    assert check(text) == []


def test_two_suites_at_odds_over_a_test_are_an_error_and_in_accord_a_warning() -> None:
    first, second = (
        suite("{names: [test_view]}"),
        suite("{names: [test_view], mode: xfail}", "{names: [test_add]}"),
    )
    assert shown(check(first, second)) == [
        ("error", "s0.yaml:6", "names", "1 tests such as test_x.py::TestX::test_view[op=None,dtype=None]")
    ]
    assert [one.severity for one in check(first, first)] == ["warning", "warning"]


def test_a_path_of_the_other_tree_may_be_meant() -> None:
    text = suite("{names: [test_view]}") + "    - path: ${TORCH_DEVICE_ROOT}/tests/test_q.py\n"
    assert shown(check(text)) == [("warning", "s0.yaml:7", "path", "${TORCH_DEVICE_ROOT}/tests/test_q.py")]


def test_names_of_a_file_that_could_not_be_collected_are_not_called_dead() -> None:
    assert check(suite("{names: [test_view]}") + "    - {path: bad.py, tests: [{names: [test_q]}]}\n") == []
    assert check(suite("{names: [test_q]}", path="bad.py")) == []


def test_what_only_a_catalog_can_tell_is_left_out_without_one() -> None:
    text = suite("{names: [TestX::test_gone]}", path="gone.py")
    assert check(text, catalog=None) == []
    known = Known(ops={"add", "addmm"}, modules={"nn.Linear"}, whole=True)
    text = suite("{names: [test_a], mode: skip, edits: {ops: {include: [admm, torch.add]}}}", path="gone.py")
    assert [one.value for one in check(text, catalog=None, known=known)] == ["gone.py", "admm"]


def test_findings_are_the_same_in_whatever_order_tests_come() -> None:
    text = suite("{names: ['test_v.*', dead], mode: xfail}", "{names: ['test_.*']}")
    turned = Catalog(pytorch="p", device="spyre", files=FILES, tests=CATALOG.tests[::-1])
    assert check(text) == check(text, catalog=turned)
