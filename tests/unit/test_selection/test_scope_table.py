"""The table of reasons: every test and file is counted once, and what is idle is named by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.capabilities import declared
from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.rules import Rules, default_rules, load_rules, must_run_ids
from test_selection.scope import CodeRow, Idle, file_table, scope_table

TEXT = """\
rules:
  - {code: out-a, text: first, verdict: out, file: a.py, issue: https://example.org/1}
  - {code: out-a, text: again, verdict: out, template: test_never}
  - {code: shadow, text: t, verdict: out, file: "a*"}
  - {code: lacks, text: t, verdict: out, unsupported: op}
  - {code: subject, text: t, verdict: in, file: [b.py, empty.py]}
  - {code: in-scope, text: rest, verdict: in}
tiers:
  - {code: some, text: t, tier: weekly, file: b.py}
  - {code: none, text: t, tier: weekly, file: zzz.py}
must_run:
  - {serves: models, file: b.py}
  - {serves: nobody, file: a.py}
"""


def make_test(file: str, template: str = "test_x", op: str | None = None) -> CatalogTest:
    name = f"{file}::{template}-{op}"
    return CatalogTest(id=name, node=name, file=file, template=template, op=op)


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    path = tmp_path / "rules.yaml"
    path.write_text(TEXT)
    return load_rules(path)


CATALOG = Catalog(
    pytorch="p",
    device="spyre",
    files={name: FileRecord() for name in ("a.py", "b.py", "c.py", "empty.py")},
    tests=[make_test("a.py"), make_test("a.py", "test_z"), make_test("b.py"), make_test("c.py", op="add")],
)


def test_tests_and_files_are_counted_by_code(rules: Rules) -> None:
    table = scope_table(CATALOG, rules)
    assert table.reasons == [
        CodeRow(code="out-a", in_scope=False, tests=2, files=1, text="first", issue="https://example.org/1"),
        CodeRow(code="shadow", in_scope=False, tests=0, files=0, text="t"),
        CodeRow(code="lacks", in_scope=False, tests=0, files=0, text="t"),
        CodeRow(code="subject", in_scope=True, tests=1, files=2, text="t"),
        CodeRow(code="in-scope", in_scope=True, tests=1, files=1, text="rest"),
    ]
    assert sum(one.tests for one in table.reasons) == len(CATALOG.tests)
    assert table.catch_all == ["c.py"]
    assert table.must_run == 1


def test_what_has_no_effect_is_named_by_its_line_and_how(rules: Rules) -> None:
    assert scope_table(CATALOG, rules).idle == [
        Idle(section="rules", line=3, name="out-a", why="matches nothing"),
        Idle(section="rules", line=4, name="shadow", why="earlier rules decide all it matches"),
        Idle(section="tiers", line=10, name="none", why="matches no test"),
        Idle(section="must_run", line=13, name="nobody", why="matches no test in scope"),
    ]


def test_a_rule_on_what_is_unsupported_is_idle_only_where_something_is_declared(rules: Rules) -> None:
    bound = rules.for_device(declared(["add"], []))
    assert ("rules", 5) in {(one.section, one.line) for one in scope_table(CATALOG, bound).idle}
    without = rules.for_device(declared([], ["float16"]))
    assert ("rules", 5) not in {(one.section, one.line) for one in scope_table(CATALOG, without).idle}


def test_a_declared_op_no_test_is_of_is_named(rules: Rules) -> None:
    tests = [make_test("b.py", op="add"), make_test("b.py", op="max.binary")]
    catalog = Catalog(pytorch="p", device="spyre", tests=tests)
    bound = rules.for_device(declared(["add", "max", "softmaxx"], []))
    assert scope_table(catalog, bound).unknown_ops == ["softmaxx"]
    assert scope_table(catalog, rules).unknown_ops == []
    plain = Catalog(pytorch="p", device="spyre", tests=[make_test("b.py")])
    assert scope_table(plain, bound).unknown_ops == []


def test_an_empty_catalog_has_a_table(rules: Rules) -> None:
    table = scope_table(Catalog(pytorch="p", device="spyre"), rules)
    assert [one.tests for one in table.reasons] == [0] * 5
    assert table.catch_all == []


def test_must_run_ids_keep_the_order_of_the_tests(rules: Rules) -> None:
    tests = [make_test("b.py", "test_2"), make_test("c.py"), make_test("b.py", "test_1"), make_test("a.py")]
    assert must_run_ids(tests, rules.must_run) == [tests[0].id, tests[2].id, tests[3].id]
    assert must_run_ids([], rules.must_run) == []
    assert must_run_ids(tests, ()) == []


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("test_some_ufuncs.py", "operators"),
        ("dynamo/deep/er/test_x.py", "compile"),
        ("inductor/test_x.py", "compile"),
        ("nn/test_x.py", "nn-modules"),
        ("nn/attention/test_x.py", "attention"),
        ("test_sparse_x.py", "sparse"),
        ("quantization/a/b/test_x.py", "quantization"),
        ("fx/test_x.py", "fx"),
        ("test_fx_x.py", "fx"),
        ("functorch/test_x.py", "functorch"),
        ("export/test_x.py", "export"),
        ("onnx/x/test_x.py", "onnx"),
        ("jit/test_x.py", "jit"),
        ("package/test_x.py", "package"),
        ("distributions/test_x.py", "distributions"),
        ("torch_np/x/test_x.py", "numpy"),
        ("profiler/test_x.py", "profiler"),
        ("distributed/x/test_x.py", "multi-gpu"),
        ("autograd/test_x.py", "training"),
        ("xpu/test_x.py", "other-device"),
        ("inductor/test_x_cutlass_y.py", "cuda"),
        ("test_multirank_x.py", "multi-gpu"),
        ("quantization/test_backward_compatible.py", "quantization"),
        ("dynamo/test_backward_symints.py", "training"),
        ("export/test_x_training_ir.py", "export"),
        ("nn/test_x_training.py", "training"),
        ("somewhere/test_x.py", "in-scope"),
    ],
)
def test_the_shipped_rules_name_files_by_subject(file: str, code: str) -> None:
    table = file_table([file], "spyre", default_rules())
    assert [one.code for one in table.reasons if one.files] == [code]
