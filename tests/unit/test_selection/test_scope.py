"""Scope rules: first match wins, every mistake in them is pointed at, the shipped ones make sense."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.capabilities import declared
from test_selection.catalog import Catalog, CatalogTest, parse_test
from test_selection.errors import MissingInputError, SettingsError, UsageError
from test_selection.patterns import compile_pattern
from test_selection.rule_fields import Wanted
from test_selection.rules import Rule, Rules, default_rules, load_rules
from test_selection.scope import (
    apply_scope,
    deciding_rules,
    explain,
    explain_file,
    file_in_scope,
)

SHIPPED = default_rules()
LAST = "  - {code: in-scope, text: all else, verdict: in}\n"


class Decided(NamedTuple):
    in_scope: bool
    code: str
    rule: int


def decide(test: CatalogTest, device: str, rules: Rules) -> Decided:
    (number,) = deciding_rules([test], device, rules)
    rule = rules.rules[number]
    return Decided(rule.verdict == "in", rule.code, number)


def make_test(
    file: str = "test_x.py",
    cls: str = "TestX",
    template: str = "test_y",
    op: str | None = None,
    dtype: str | None = None,
) -> CatalogTest:
    name = f"{file}::{cls}::{template}-{op}-{dtype}"
    return CatalogTest(id=name, node=name, file=file, cls=cls, template=template, op=op, dtype=dtype)


def load(tmp_path: Path, text: str) -> Rules:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return load_rules(path)


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    return load(
        tmp_path,
        """\
rules:
  - {code: kept, text: wanted all the same, verdict: in, file: a/keep_*.py}
  - code: folder
    text: a folder
    issue: https://example.org/1
    verdict: out
    file: ["a/**", b.py]
  - {code: pair, text: two keys, verdict: out, op: [add, sub], dtype: "/^int/"}
  - {code: only-cpu, text: by device, verdict: out, device: cpu, template: test_cpu}
"""
        + LAST,
    )


def test_the_first_rule_that_matches_decides(rules: Rules) -> None:
    assert decide(make_test("a/keep_x.py"), "spyre", rules) == Decided(in_scope=True, code="kept", rule=0)
    assert decide(make_test("a/b/x.py"), "spyre", rules) == Decided(in_scope=False, code="folder", rule=1)
    assert decide(make_test(), "spyre", rules) == Decided(in_scope=True, code="in-scope", rule=4)


def test_a_list_is_any_of_and_several_keys_are_all_of(rules: Rules) -> None:
    assert decide(make_test("b.py"), "spyre", rules).code == "folder"
    assert decide(make_test(op="sub", dtype="int8"), "spyre", rules).code == "pair"
    assert decide(make_test(op="sub", dtype="uint8"), "spyre", rules).code == "in-scope"
    assert decide(make_test(op="mul", dtype="int8"), "spyre", rules).code == "in-scope"


def test_a_rule_on_a_field_does_not_match_a_test_without_it(tmp_path: Path) -> None:
    rules = load(tmp_path, 'rules:\n  - {code: ops, text: t, verdict: out, op: "*"}\n' + LAST)
    assert decide(make_test(op="add"), "spyre", rules).code == "ops"
    assert decide(make_test(op=None), "spyre", rules).code == "in-scope"


def test_a_rule_can_hold_for_one_device(rules: Rules) -> None:
    assert decide(make_test(template="test_cpu"), "cpu", rules).code == "only-cpu"
    assert decide(make_test(template="test_cpu"), "spyre", rules).code == "in-scope"


def test_what_is_known_of_a_rule_is_kept(rules: Rules) -> None:
    assert rules.rules[1].issue == "https://example.org/1"
    assert rules.rules[1].text == "a folder"


def test_a_file_is_decided_by_rules_on_file_and_device_alone(tmp_path: Path) -> None:
    text = (
        "rules:\n"
        "  - {code: part, text: t, verdict: out, file: b.py, class: TestX}\n"
        "  - {code: there, text: t, verdict: out, file: a.py, device: cpu}\n" + LAST
    )
    rules = load(tmp_path, text)
    assert not file_in_scope("a.py", "cpu", rules)
    assert file_in_scope("a.py", "spyre", rules)
    assert file_in_scope("b.py", "cpu", rules)


def test_a_catalog_is_split_and_counted(rules: Rules) -> None:
    tests = [make_test("b.py"), make_test("c.py"), make_test("a/x.py"), make_test(op="add", dtype="int8")]
    scope = apply_scope(Catalog(pytorch="p", device="spyre", tests=tests), rules)
    assert scope.in_scope == [tests[1]]
    assert scope.out == {"folder": 2, "pair": 1}


def test_several_rules_of_one_code_are_counted_together(tmp_path: Path) -> None:
    text = (
        "rules:\n  - {code: one, text: t, verdict: out, file: a.py}\n"
        "  - {code: one, text: t, verdict: out, file: b.py}\n" + LAST
    )
    tests = [make_test("a.py"), make_test("b.py", "TestZ"), make_test("b.py")]
    scope = apply_scope(Catalog(pytorch="p", device="spyre", tests=tests), load(tmp_path, text))
    assert scope.out == {"one": 3}


field = st.sampled_from(["a.py", "b.py", "a/x.py", "a/keep_1.py", "test_cpu", "add", "int8"])


@given(st.lists(st.builds(make_test, field, field, field, field | st.none(), field | st.none())))
def test_a_whole_catalog_is_decided_as_its_tests_one_by_one(tests: list[CatalogTest]) -> None:
    rules = SHIPPED
    scope = apply_scope(Catalog(pytorch="p", device="spyre", tests=tests), rules)
    assert scope.in_scope == [test for test in tests if decide(test, "spyre", rules).in_scope]
    assert len(scope.in_scope) + sum(scope.out.values()) == len(tests)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("rule: []\n", "rules.yaml:1: unknown key 'rule'", "did you mean 'rules'?"),
        ("{}\n", "rules.yaml: rules is empty", "list at least one rule"),
        ("rules: []\n", "rules.yaml:1: rules is empty", "list at least one rule"),
        ("rules: x\n", "rules.yaml:1: rules is 'x', not a list", "write `- ` items under `rules:`"),
        ("rules:\n  - x\n", "rules.yaml:2: rules holds 'x', not a table of keys", "write `key: value`"),
        (
            "rules:\n  - code: a\n    verdit: out\n",
            "rules.yaml:3: unknown key 'verdit'",
            "did you mean 'verdict'?",
        ),
        (
            "rules:\n  - code: a\n    zzz: out\n",
            "rules.yaml:3: unknown key 'zzz'",
            "known keys: code, text, issue, verdict, any, file, class, template, op, dtype, marker",
        ),
        (
            "rules:\n  - code: a\n    text: t\n    verdict: maybe\n",
            "rules.yaml:4: verdict is 'maybe'",
            "known: in, out",
        ),
        ("rules:\n  - code: a\n    text: t\n", "rules.yaml:2: verdict is None, not text", "give verdict"),
        (
            "rules:\n  - verdict: in\n    text: t\n",
            "rules.yaml:2: code is None, not text",
            "give code as text",
        ),
        (
            "rules:\n  - code: a\n    verdict: in\n    text: ' '\n",
            "rules.yaml:4: text is ' ', not text",
            "give text as text",
        ),
        (
            "rules:\n  - {code: a, verdict: in, text: t, issue: 7}\n",
            "rules.yaml:2: issue is 7, not text",
            "give issue as text",
        ),
        (
            "rules:\n  - {code: a, verdict: out, text: t, op: [true]}\n" + LAST,
            "rules.yaml:2: op is True, not text",
            "quoted if need be",
        ),
        (
            "rules:\n  - {code: a, verdict: out, text: t, op: []}\n" + LAST,
            "rules.yaml:2: op is an empty list",
            "give a glob or a /regex/, or leave the key out",
        ),
        (
            "rules:\n  - code: a\n    verdict: out\n    text: t\n    file: /(/\n" + LAST,
            "rules.yaml:5: file: '/(/' is not a regular expression",
            "fix the pattern",
        ),
        (
            "rules:\n" + LAST + LAST,
            "rules.yaml:2: rule 'in-scope' matches everything, so the rules after it never decide",
            "or move it to the end",
        ),
        (
            "rules:\n  - {code: a, verdict: out, text: t, op: x}\n",
            "rules.yaml:2: the last rule, 'a', does not match everything",
            "end with a rule that has a code, a text and a verdict only",
        ),
        (
            "rules:\n  - {code: in-scope, verdict: out, text: t, op: x}\n" + LAST,
            "rules.yaml:3: code 'in-scope' is used for both in and out",
            "give one of the rules another code",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_remedy(
    tmp_path: Path, text: str, message: str, remedy: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)
    assert remedy in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such file"):
        load_rules(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("test", "code"),
    [
        (make_test("distributed/fsdp/test_fsdp_core.py"), "multi-gpu"),
        (make_test("test_cuda_multigpu.py"), "multi-gpu"),
        (make_test(template="test_storage_multigpu"), "multi-gpu"),
        (make_test("test_cuda.py"), "cuda"),
        (make_test("inductor/test_cuda_repro.py"), "cuda"),
        (make_test(cls="TestMatmulCuda"), "cuda"),
        (make_test(template="test_Conv2d_deterministic_cudnn"), "cuda"),
        (make_test("test_mps.py"), "other-device"),
        (make_test("xpu/test_gemm.py"), "other-device"),
        (make_test(template="test_is_mkldnn"), "other-device"),
        (make_test("test_jit_fuser_te.py"), "jit-fuser"),
        (make_test("test_ci_sanity_check_fail.py"), "fails-on-purpose"),
        (make_test("test_autograd.py"), "training"),
        (make_test("optim/test_lrscheduler.py"), "training"),
        (make_test("test_ops_gradients.py"), "training"),
        (make_test(cls="TestBwdGradients"), "training"),
        (make_test(template="test_fn_grad"), "training"),
        (make_test(template="test_gather_backward_one_dim"), "training"),
        (make_test(template="test_grad_scaling_update_scale"), "training"),
        (make_test(template="test_conv2d_no_grad"), "in-scope"),
        (make_test(template="test_meshgrid"), "in-scope"),
        (make_test(template="test_backward_compatibility"), "in-scope"),
        (make_test("quantization/bc/test_backward_compatibility.py", "TestSerialization"), "quantization"),
        (make_test(cls="TestApiBackwardCompatibility"), "in-scope"),
        (make_test("torch_np/test_lib.py", "TestGradient", "test_subclass_backwards"), "numpy"),
        (make_test("test_torch.py", template="test_gradient_type_promotion"), "operators"),
        (make_test(template="test_set_grad_enabled"), "in-scope"),
        (make_test(template="test_group_linear_post_grad_fusion"), "in-scope"),
        (make_test(template="test_jump_backward_no_interrupt"), "in-scope"),
        (make_test(template="test_autograd_profiler"), "in-scope"),
        (make_test(cls="TestAOTAutograd", template="test_batchnorm_inference"), "in-scope"),
        (make_test("export/test_export_training_ir.py", template="test_export_for_training"), "export"),
        (make_test(cls="TrainingIRExport"), "in-scope"),
        (make_test("dynamo/test_aot_autograd_cache.py", "TestCache"), "compile"),
        (make_test("dynamo/test_autograd_function.py"), "training"),
        (make_test(template="test_avg_pool2d_backward2"), "training"),
        (make_test(template="test_vmapvjpvmap"), "training"),
        (make_test("distributions/test_transforms.py", "", "test_jacobian"), "distributions"),
        (make_test("functorch/test_aotdispatch.py", "TestAOTAutograd", "test_batchnorm"), "training"),
        (make_test("functorch/test_aotdispatch.py", "TestEagerFusionOpInfo", op="add"), "training"),
        (make_test("functorch/test_aotdispatch.py", "TestPythonKey", "test_make_fx"), "functorch"),
        (make_test("test_dispatch.py", template="test_computed_table_with_autograd"), "dispatch"),
        (make_test(op="_softmax_backward_data"), "training"),
        (make_test(template="test_elu_gradgrad"), "training"),
        (make_test(template="test_fuse_module_train"), "training"),
        (make_test(template="test_if_train_and_eval_modes_differ"), "in-scope"),
        (make_test("quantization/x/test_y.py", template="test_linear_qat"), "training"),
        (make_test(template="test_chip_select"), "in-scope"),
        (make_test(template="test_membership"), "in-scope"),
        (make_test(template="test_relationship_mapping"), "in-scope"),
        (make_test(template="test_decomps_dynamic"), "in-scope"),
        (make_test(template="test_hip_graph"), "cuda"),
        (make_test(template="test_metallic"), "in-scope"),
        (make_test(cls="TestMetaLinear"), "in-scope"),
        (make_test(cls="TestMobileNet"), "in-scope"),
        (make_test(cls="TestMetal"), "other-device"),
        (make_test(cls="TestDeviceGPUAgnostic"), "in-scope"),
        (make_test(cls="TestAutocastGPU"), "cuda"),
        (make_test("inductor/test_triton_kernels.py"), "cuda"),
        (make_test("inductor/test_cpu_repro.py"), "other-device"),
        (make_test("test_privateuseone_backend.py"), "other-device"),
        (make_test("test_view_ops.py", "TestViewOps", "test_contiguous"), "indexing-views"),
        (make_test("test_unary_ufuncs.py", op="exp", dtype="float32"), "operators"),
        (make_test("test_op_suite.py", "TestOpSuite", "test_op", "add", "int8"), "operators"),
    ],
)
def test_the_shipped_rules_know_these(test: CatalogTest, code: str) -> None:
    assert decide(test, "spyre", SHIPPED).code == code


values = st.sampled_from(["a.py", "b.py", "test_add", "add", "float32", "serial", "cpu"])
wanted = st.sampled_from(["*", "a*", "/add/", "b.py", "float32", "serial", "cpu", "/^$/"])


@st.composite
def rule_rows(draw: st.DrawFn) -> Rule:
    fields = draw(
        st.lists(
            st.sampled_from(["file", "class", "template", "op", "dtype", "marker", "device"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    patterns = {
        name: tuple(
            Wanted(text=one, pattern=compile_pattern(one))
            for one in draw(st.lists(wanted, min_size=1, max_size=2))
        )
        for name in fields
    }
    verdict = draw(st.sampled_from(["in", "out"]))
    return Rule(code=f"code-{verdict}", text="t", verdict=verdict, patterns=patterns)


@st.composite
def rule_files(draw: st.DrawFn) -> Rules:
    rows = draw(st.lists(rule_rows(), max_size=6))
    last = Rule(code="code-in", text="t", verdict="in")
    return Rules(path=Path("rules.yaml"), rules=(*rows, last))


tests = st.builds(
    lambda file, cls, template, op, dtype, markers: CatalogTest(
        id=f"{file}::{cls}::{template}", node="n", file=file, cls=cls, template=template,
        op=op, dtype=dtype, markers=tuple(sorted(markers)),
    ),
    values, values | st.just(""), values, values | st.none(), values | st.none(), st.sets(values, max_size=2),
)  # fmt: skip
devices = st.sampled_from(["cpu", "spyre"])


def naive(test: CatalogTest, device: str, rules: Rules) -> int:
    """First match wins, said as plainly as can be."""
    has: dict[str, list[str]] = {
        "file": [test.file],
        "class": [test.cls],
        "template": [test.template],
        "op": [test.op] if test.op is not None else [],
        "dtype": [test.dtype] if test.dtype is not None else [],
        "marker": list(test.markers),
        "device": [device],
    }
    return next(
        number
        for number, rule in enumerate(rules.rules)
        if all(
            any(one.pattern.search(value) for one in patterns for value in has[name])
            for name, patterns in rule.patterns.items()
        )
    )


@given(st.lists(tests, max_size=8), devices, rule_files())
def test_the_explanation_agrees_with_the_scope_and_the_first_match_wins(
    rows: list[CatalogTest], device: str, rules: Rules
) -> None:
    scope = apply_scope(Catalog(pytorch="p", device=device, tests=rows), rules)
    numbers = deciding_rules(rows, device, rules)
    told = [explain(test, device, rules) for test in rows]
    assert [one.rule for one in told] == numbers == [naive(test, device, rules) for test in rows]
    assert [decide(test, device, rules).rule for test in rows] == numbers
    assert scope.in_scope == [
        test for test, one in zip(rows, told, strict=True) if rules.rules[one.rule].verdict == "in"
    ]
    for one in told:
        assert [match.rule for match in one.matches] == list(range(one.rule + 1))
        assert [not match.misses for match in one.matches] == [False] * one.rule + [True]


@given(values, devices, rule_files())
def test_a_files_explanation_agrees_with_its_scope(file: str, device: str, rules: Rules) -> None:
    told = explain_file(file, device, rules)
    assert (rules.rules[told.rule].verdict == "in") == file_in_scope(file, device, rules)
    assert all(index < told.rule and not rules.rules[index].by_file for index in told.before)


@given(st.lists(tests, max_size=6), rule_files(), rule_files())
def test_rules_appended_before_the_last_change_nothing_that_was_decided(
    rows: list[CatalogTest], rules: Rules, more: Rules
) -> None:
    longer = Rules(path=rules.path, rules=(*rules.rules[:-1], *more.rules))
    last = len(rules.rules) - 1
    before, after = deciding_rules(rows, "cpu", rules), deciding_rules(rows, "cpu", longer)
    assert all(new == old for old, new in zip(before, after, strict=True) if old != last)


def test_an_explanation_holds_patterns_as_written_and_what_they_matched(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "rules:\n"
        "  - {code: part, text: t, verdict: out, file: 'a*', op: mul}\n"
        "  - {code: whole, text: t, verdict: out, file: ['b*', 'a*'], marker: /ser/}\n"
        "  - {code: in-scope, text: t, verdict: in}\n"
        "tiers:\n  - {code: b, text: t, tier: weekly, op: add}\n"
        "must_run:\n  - {serves: models, op: add}\n"
    )
    rules = load_rules(path)
    test = CatalogTest(id="a.py::x", node="n", file="a.py", template="x", op="add", markers=("serial", "zz"))
    told = explain(test, "spyre", rules)
    assert told.matches[0].hits == {"file": ("a*", "a.py")}
    assert told.matches[0].misses == {"op": "add"}
    assert told.matches[1].hits == {"file": ("a*", "a.py"), "marker": ("/ser/", "serial")}
    assert (told.rule, told.tiers, told.serves) == (1, [0], ["models"])
    bare = explain(CatalogTest(id="a.py::x", node="n", file="a.py", template="x"), "spyre", rules)
    assert bare.matches[0].misses == {"op": None}
    assert bare.matches[1].misses == {"marker": None}


def test_what_the_device_lacks_is_explained() -> None:
    rules = default_rules().for_device(declared(["add"], ["float16"]))
    test = parse_test("test_ops.py::TestCommon::test_out[dtype=float64,op=add]")
    told = explain(test, "spyre", rules)
    assert rules.rules[told.rule].code == "unsupported-dtype"
    assert told.matches[-1].hits == {"dtype": ("not in device.dtypes", "float64")}


def test_an_id_no_catalog_holds_is_taken_apart() -> None:
    test = parse_test("nn/test_x.py::TestA::TestB::test_y[dtype=float32,module=nn.Linear]#2")
    assert (test.file, test.cls, test.template) == ("nn/test_x.py", "TestA::TestB", "test_y")
    assert (test.op, test.dtype, test.markers) == ("nn.Linear", "float32", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "is not a test id"),
        ("::", "names no file"),
        ("::test_x", "names no file"),
        ("a.py::", "names no test"),
        ("a.py::x[y", "is not a test id"),
    ],
)
def test_what_is_no_id_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_test(text)
