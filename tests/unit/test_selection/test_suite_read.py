"""Suite files: which tests an entry is about, what it expects of them, and every mistake pointed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.catalog import CatalogTest
from test_selection.errors import MissingInputError, SettingsError
from test_selection.selection import Expectation, Precision
from test_selection.suite_decide import Decider
from test_selection.suite_model import Suite
from test_selection.suite_read import load_suite, suite_paths


def make_test(
    template: str = "test_y",
    *,
    cls: str = "TestX",
    file: str = "test_x.py",
    op: str | None = None,
    dtype: str | None = None,
    node: str = "",
) -> CatalogTest:
    name = f"{file}::{cls}::{template}-{op}-{dtype}"
    node = node or f"{file}::{cls}::{template}"
    return CatalogTest(id=name, node=node, file=file, cls=cls, template=template, op=op, dtype=dtype)


def load(tmp_path: Path, text: str) -> Suite:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return load_suite(path)


def suite_of(tmp_path: Path, entries: str, unlisted: str = "mandatory_success") -> Suite:
    """A suite of one file, test_x.py, with the given entries (YAML flow, one a line)."""
    rows = "".join(f"        - {line}\n" for line in entries.splitlines())
    return load(
        tmp_path,
        "test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_x.py\n"
        f"      unlisted_test_mode: {unlisted}\n      tests:\n{rows}",
    )


def mode_of(suite: Suite, test: CatalogTest) -> str | None:
    found = Decider(suite).expectations([test]).get(test.id)
    return None if found is None else found.mode


@pytest.mark.parametrize(
    ("path", "file", "matches"),
    [
        ("${TORCH_ROOT}/test/test_x.py", "test_x.py", True),
        ("${TORCH_ROOT}/test/nn/test_x.py", "nn/test_x.py", True),
        ("${TORCH_ROOT}/test/test_x.py", "nn/test_x.py", False),
        ("${TORCH_DEVICE_ROOT}/test_op_suite.py", "test_op_suite.py", True),
        ("${TORCH_ROOT}/test/test_*.py", "test_x.py", True),
        ("${TORCH_ROOT}/test/test_*.py", "nn/test_x.py", False),
        ("${TORCH_ROOT}/test/**/test_x.py", "nn/test_x.py", True),
        ("test_x.py", "test_x.py", True),
        ("${PYTORCH}/test/test_x.py", "test_x.py", True),
        ("${TORCH_SPYRE}/tests/inductor/test_x.py", "inductor/test_x.py", True),
        ("${TORCH_DEVICE_ROOT}/tests/inductor/test_x.py", "inductor/test_x.py", True),
        ("${TORCH_ROOT}/test/.*py", "nn/test_x.py", True),
        ("${TORCH_ROOT}/test/test_(x|z).py", "test_z.py", True),
        ("${TORCH_ROOT}/test/test_(x|z).py", "test_zz.py", False),
        ("${TORCH_ROOT}/test/**/*.py", "nn/test_x.py", True),
        ("${TORCH_ROOT}/test/*.py", "nn/test_x.py", False),
    ],
)
def test_a_path_names_files_from_the_root_of_the_tests(
    tmp_path: Path, path: str, file: str, *, matches: bool
) -> None:
    suite = load(tmp_path, f"test_suite_config: {{files: [{{path: '{path}'}}]}}\n")
    assert Decider(suite).names_file(file) is matches


@pytest.mark.parametrize(
    ("name", "test", "matches"),
    [
        ("TestX::test_y", make_test("test_y"), True),
        ("TestX::test_y", make_test("test_yy"), False),
        ("TestX::test_y", make_test("test_y", cls="TestZ"), False),
        ("test_y", make_test("test_y", cls="TestZ"), True),
        ("test_y", make_test("test_y", cls=""), True),
        ("TestX::test_*", make_test("test_y"), True),
        ("TestX::test_*", make_test("test_y", cls="TestXX"), False),
        ("test_?", make_test("test_yy"), False),
        ("TestX::test_.*view.*", make_test("test_a_view_b"), True),
        ("TestX::test_.*view.*", make_test("test_contiguous"), False),
        ("TestX::test_(a|b)", make_test("test_b"), True),
        ("TestX::test_(a|b)", make_test("test_bb"), False),
        ("Test.::test_y", make_test("test_y"), True),
        ("test_.+", make_test("test_y"), True),
        ("*TestX*::test_y", make_test("test_y", cls="MyTestXs"), True),
        ("*TestX*::test_.*", make_test("test_y", cls="MyTestXs"), True),
        ("*TestX*::test_.*", make_test("test_y", cls="MyTest"), False),
        ("Lx.*::test_(a|b).*_wrap_(c|d)", make_test("test_b1_wrap_c", cls="LxTwo"), True),
        ("generate_not_implemented_tests", make_test("test___add___not_implemented"), True),
        ("TestX::generate_not_implemented_tests", make_test("test___add___not_implemented"), True),
        ("TestZ::generate_not_implemented_tests", make_test("test___add___not_implemented"), False),
        ("generate_not_implemented_tests", make_test("test_add"), False),
        ("generate_not_implemented_tests", make_test("generate_not_implemented_tests"), True),
        ("generate_tensor_like_override_tests", make_test("test_torch_add"), True),
        ("generate_tensor_like_override_tests", make_test("test_precedence_semantics"), False),
        ("TestX::test_from_float32", make_test("test_from", node="f.py::TestX::test_from_float32"), True),
        ("test_from_float32", make_test("test_from", node="f.py::TestX::test_from_float32"), True),
        ("TestX::test_from_.*", make_test("test_from", node="f.py::TestX::test_from_float32"), True),
        ("TestX::test_y_cpu", make_test("test_y", node="f.py::TestXCPU::test_y_cpu"), True),
        ("TestXCPU::test_y_cpu", make_test("test_y", node="f.py::TestXCPU::test_y_cpu"), True),
        # A pattern means templates: it must not take the variants of test_y for tests named test_y_….
        ("TestX::test_y_.*", make_test("test_y", node="f.py::TestXCPU::test_y_cpu"), False),
    ],
)
def test_a_name_is_a_name_a_glob_or_a_regex(
    tmp_path: Path, name: str, test: CatalogTest, *, matches: bool
) -> None:
    suite = suite_of(tmp_path, f"{{names: ['{name}'], mode: xfail}}")
    assert (mode_of(suite, test) == "xfail") is matches


def test_an_entry_passes_by_default_and_unlisted_tests_xfail_by_default(tmp_path: Path) -> None:
    suite = load(
        tmp_path, "test_suite_config:\n  files:\n    - {path: test_x.py, tests: [{names: [test_y]}]}\n"
    )
    other = make_test("test_z")
    assert mode_of(suite, make_test("test_y")) == "mandatory_success"
    assert Decider(suite).expectations([other]) == {
        other.id: Expectation(mode="xfail", reason="not listed in the suite")
    }


@pytest.mark.parametrize("mode", ["xfail", "xfail_strict", "skip"])
def test_unlisted_tests_take_the_mode_of_their_file(tmp_path: Path, mode: str) -> None:
    suite = suite_of(tmp_path, "{names: [test_y]}", unlisted=mode)
    assert mode_of(suite, make_test("test_z")) == mode


def test_unlisted_tests_that_have_to_pass_are_not_spelled_out(tmp_path: Path) -> None:
    assert mode_of(suite_of(tmp_path, "{names: [test_y]}"), make_test("test_z")) is None


def test_files_the_suite_does_not_name_are_left_out(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "{names: [test_y], mode: xfail}")
    assert Decider(suite).expectations([make_test("test_y", file="test_other.py")]) == {}
    assert not Decider(suite).names_file("test_other.py")


def test_the_first_entry_about_a_test_decides(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "{names: [test_y], mode: skip}\n{names: ['test_*'], mode: xfail}")
    assert mode_of(suite, make_test("test_y")) == "skip"
    assert mode_of(suite, make_test("test_z")) == "xfail"


def test_the_first_path_that_matches_decides(tmp_path: Path) -> None:
    suite = load(
        tmp_path,
        "test_suite_config:\n  files:\n    - {path: test_x.py, unlisted_test_mode: skip}\n"
        "    - {path: 'test_*.py', unlisted_test_mode: xfail_strict}\n",
    )
    assert mode_of(suite, make_test()) == "skip"
    assert mode_of(suite, make_test(file="test_z.py")) == "xfail_strict"


INCLUDES = (
    "{names: [test_op], mode: xfail, description: the entry, edits: "
    "{ops: {include: [{name: add, description: no kernel}, {name: mul}]}, "
    "dtypes: {include: [{name: float32}, {name: torch.int8, description: narrow}]}}}"
)


@pytest.mark.parametrize(
    ("op", "dtype", "reason"),
    [
        ("add", "float32", "no kernel"),
        ("add", "int8", "no kernel"),
        ("mul", "int8", "narrow"),
        ("mul", "float32", "the entry"),
        ("sub", "float64", "the entry"),
        (None, None, "the entry"),
    ],
)
def test_the_mode_of_the_only_entry_is_that_of_every_variant(
    tmp_path: Path, op: str | None, dtype: str | None, reason: str
) -> None:
    test = make_test("test_op", op=op, dtype=dtype)
    found = Decider(suite_of(tmp_path, INCLUDES)).expectations([test])
    assert found == {test.id: Expectation(mode="xfail", reason=reason)}


@pytest.mark.parametrize("entries", [INCLUDES + "\n{names: [test_op]}", "{names: [test_op]}\n" + INCLUDES])
@pytest.mark.parametrize(
    ("op", "dtype", "mode"),
    [
        ("add", "float32", "xfail"),
        ("sub", "int8", "mandatory_success"),
        ("add", "float64", "mandatory_success"),
        ("sub", "float64", "mandatory_success"),
        ("add", None, "xfail"),
        (None, "float32", "xfail"),
    ],
)
def test_of_several_entries_the_one_that_includes_the_variant_decides(
    tmp_path: Path, entries: str, op: str | None, dtype: str | None, mode: str
) -> None:
    assert mode_of(suite_of(tmp_path, entries), make_test("test_op", op=op, dtype=dtype)) == mode


def test_what_one_entry_is_not_about_goes_to_the_next(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, INCLUDES + "\n{names: [test_op], mode: skip, description: rest}")
    assert mode_of(suite, make_test("test_op", op="add", dtype="int8")) == "xfail"
    assert mode_of(suite, make_test("test_op", op="sub", dtype="int8")) == "skip"


@pytest.mark.parametrize("mode", ["mandatory_success", "xfail"])
def test_an_excluded_op_or_dtype_is_none_of_the_suites_tests(tmp_path: Path, mode: str) -> None:
    entry = (
        f"{{names: [test_op], mode: {mode}, description: entry, edits: "
        "{ops: {exclude: [{name: gcd, description: crashes}]}, dtypes: {exclude: [float64]}}}"
    )
    suite = suite_of(tmp_path, entry)
    tests = [make_test("test_op", op="gcd", dtype="int8"), make_test("test_op", op="add", dtype="float64")]
    assert Decider(suite).expectations(tests) == {}
    assert Decider(suite).narrow(tests) == ([], {"suite-excluded": 2})
    assert mode_of(suite, make_test("test_op", op="add", dtype="int8")) == mode


def test_an_include_under_mandatory_success_restricts_nothing(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "{names: [test_op], edits: {dtypes: {include: [float64]}}}", unlisted="skip")
    assert mode_of(suite, make_test("test_op", dtype="float32")) == "mandatory_success"


def test_an_op_named_like_a_module_keeps_its_prefix(tmp_path: Path) -> None:
    entry = "{names: [test_op], mode: xfail, edits: {ops: {include: [torch.ops.aten.relu]}}}"
    assert mode_of(suite_of(tmp_path, entry), make_test("test_op", op="torch.ops.aten.relu")) == "xfail"


def test_every_key_of_the_schema_is_read(tmp_path: Path) -> None:
    suite = load(
        tmp_path,
        """\
test_suite_config:
  labels: [nightly]
  files:
    - path: test_x.py
      labels: [slow]
      tests:
        - names: test_y
          tags: [model_1]
          labels: [trunk]
          no_grad: true
          edits:
            ops:
              include:
                - &one
                  name: torch.mul
                  description:
                  tags: [constant, torch.mul.1_spyre]
                  sample_inputs_func: {args: [{tensor: {shape: [1, 41], init: rand}}, {value: null}]}
                - *one
            dtypes:
              include: [{name: half, precision: {atol: 1e-3, rtol: 0.5}}, {name: int8, precision: {atol: }}]
            modules:
              include:
                - name: GraniteMLP
                  module_path: transformers.models.granite.GraniteMLP
                  constructor_inputs: {args: [{value: 4096}], kwargs: {}}
                  forward_inputs: [{args: [], kwargs: {}}]
            functions: {cpu_move: [{name: assertEqual, description: why}, assertTrue]}
  global:
    devices: [cpu, spyre]
    supported_dtypes: [{name: float16, precision: {atol: 1e-3}, force_xfail: true}]
    supported_ops: [{name: add, force_xfail: true, dtypes: [{name: int64, precision: {rtol: 2e-2}}]}, mul]
    supported_modules: [{name: torch.nn.Linear, description: why}]
    input_config: {seed: 123}
""",
    )
    assert suite.support.seed == 123
    assert suite.support.dtypes is not None
    assert suite.support.dtypes["float16"].precision == Precision(atol=0.001)
    assert suite.support.dtypes["float16"].force_xfail
    assert suite.support.ops is not None
    assert suite.support.ops["add"].dtypes["int64"].precision == Precision(rtol=0.02)
    assert list(suite.support.ops) == ["add", "mul"]
    assert suite.support.modules is not None
    assert suite.support.modules["nn.Linear"].description == "why"
    (file,) = suite.files
    (entry,) = file.entries
    assert entry.no_grad
    assert entry.cpu_move == ("assertEqual", "assertTrue")
    assert [row.written for row in entry.ops.include.values()] == ["torch.mul"]
    assert entry.dtypes.include["float16"].precision == Precision(atol=0.001, rtol=0.5)
    assert entry.dtypes.include["int8"].precision is None
    assert entry.modules.include["GraniteMLP"].located
    assert (file.line, entry.line, entry.names[0].line) == (4, 7, 7)


TOP = "test_suite_config:\n  files:\n    - path: test_x.py\n"
ENTRY = TOP + "      tests:\n        - names: [test_y]\n"
EDITS = ENTRY + "          edits:\n"


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("test_suite: {}\n", "suite.yaml:1: unknown key 'test_suite'", "did you mean 'test_suite_config'?"),
        ("{}\n", "suite.yaml: test_suite_config is None, not a table", "write keys under"),
        ("test_suite_config: 3\n", "suite.yaml:1: test_suite_config is 3, not a table", "write keys under"),
        ("test_suite_config: {file: []}\n", "suite.yaml:1: unknown key 'file'", "did you mean 'files'?"),
        ("test_suite_config: {files: []}\n", "suite.yaml:1: files is empty", "list at least one file"),
        ("test_suite_config: {files: x}\n", "suite.yaml:1: files is 'x', not a list", "write `- ` items"),
        ("test_suite_config:\n  files:\n    - x\n", "suite.yaml:3: files holds 'x'", "write `key: value`"),
        (
            TOP + "      unlisted_mode: x\n",
            "suite.yaml:4: unknown key 'unlisted_mode'",
            "'unlisted_test_mode'?",
        ),
        (TOP.replace("path", "tags"), "suite.yaml:3: path is None, not text", "give path as text"),
        (
            TOP.replace("test_x.py", "${HOME}/x.py"),
            "suite.yaml:3: path '${HOME}/x.py' does not start at the tests' root",
            "start it with ${TORCH_ROOT}/test/ or ${TORCH_DEVICE_ROOT}/",
        ),
        (
            TOP.replace("test_x.py", "/x.py"),
            "suite.yaml:3: path '/x.py' does not start",
            "relative to the root",
        ),
        (TOP.replace("test_x.py", "../x.py"), "suite.yaml:3: path '../x.py' does not start", "relative"),
        (
            TOP.replace("test_x.py", "'test_[z-a].py'"),
            "suite.yaml:3: path holds 'test_[z-a].py', a pattern that cannot be read: bad character",
            "fix it",
        ),
        (
            TOP + "      unlisted_test_mode: xfial\n",
            "suite.yaml:4: unlisted_test_mode is 'xfial'",
            "did you mean 'xfail'? known: mandatory_success, xfail, xfail_strict, skip",
        ),
        (ENTRY + "          mod: skip\n", "suite.yaml:6: unknown key 'mod'", "did you mean 'mode'?"),
        (ENTRY + "          mode: nope\n", "suite.yaml:6: mode is 'nope'", "known: mandatory_success, xfail"),
        (ENTRY.replace("[test_y]", "[]"), "suite.yaml:5: names is empty", "such as TestX::test_y"),
        (ENTRY.replace("[test_y]", "[3]"), "suite.yaml:5: names is 3, not text", "quoted if need be"),
        (
            ENTRY.replace("[test_y]", "['test_(']"),
            "suite.yaml:5: names holds 'test_(', a pattern that cannot be read: missing )",
            "fix it",
        ),
        (EDITS + "            op: {}\n", "suite.yaml:7: unknown key 'op'", "did you mean 'ops'?"),
        (EDITS + "            ops: {includes: []}\n", "suite.yaml:7: unknown key 'includes'", "'include'?"),
        (
            EDITS + "            modules: {add: []}\n",
            "suite.yaml:7: unknown key 'add'",
            "known keys: include",
        ),
        (
            EDITS + "            ops: {include: [{nme: add}]}\n",
            "suite.yaml:7: unknown key 'nme'",
            "did you mean 'name'?",
        ),
        (EDITS + "            ops: {include: [{}]}\n", "suite.yaml:7: name is None, not text", "give name"),
        (
            EDITS + "            ops: {include: [add], exclude: [add]}\n",
            "suite.yaml:7: 'add' is both included and excluded",
            "keep it in one of them",
        ),
        (
            EDITS + "            dtypes:\n              include:\n                - name: int8\n"
            "                  precision: {atol: tiny}\n",
            "suite.yaml:10: atol is 'tiny', not a number of 0 or more",
            "write it as 0.001",
        ),
        (
            EDITS + "            dtypes: {include: [{name: int8, precision: {atoll: 1}}]}\n",
            "suite.yaml:7: unknown key 'atoll'",
            "did you mean 'atol'?",
        ),
        (
            EDITS + "            dtypes: {include: [flot16]}\n",
            "suite.yaml:7: name is 'flot16'",
            "did you mean 'float16'?",
        ),
        (
            ENTRY + "          no_grad: 'yes'\n",
            "suite.yaml:6: no_grad is 'yes', not true or false",
            "no_grad: true",
        ),
        (
            ENTRY + "          selectors: {include: [{has_op: true}]}\n",
            "suite.yaml:6: unknown key 'has_op'",
            "did you mean 'has_ops'?",
        ),
        (
            TOP + "  global: {input_config: {seed: x}}\n",
            "suite.yaml:4: seed is 'x', not a whole number",
            "write it as 123",
        ),
        (
            TOP + "  global: {supported_op: []}\n",
            "suite.yaml:4: unknown key 'supported_op'",
            "'supported_ops'?",
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


@pytest.mark.parametrize("value", ["-1", ".nan", ".inf", "true", "[]"])
def test_a_precision_is_a_finite_number_of_0_or_more(tmp_path: Path, value: str) -> None:
    row = f"{{name: int8, precision: {{atol: {value}}}}}"
    with pytest.raises(SettingsError, match="not a number of 0 or more"):
        load(tmp_path, f"{TOP}  global: {{supported_dtypes: [{row}]}}\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such file"):
        load_suite(tmp_path / "none.yaml")


def test_files_folders_and_globs_name_suites_and_each_is_read_once(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "sub/c.yml", "sub/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    named = {
        ("b.yaml", "."): ["b.yaml", "a.yaml", "sub/c.yml"],
        ("*.yaml",): ["a.yaml", "b.yaml"],
        ("**/*.y*ml", str(tmp_path / "a.yaml")): ["a.yaml", "b.yaml", "sub/c.yml"],
    }
    for paths, expected in named.items():
        assert suite_paths(paths, tmp_path) == [tmp_path / one for one in expected]


@pytest.mark.parametrize("name", ["none.yaml", "*.none", "sub", "[", "***/x"])
def test_a_name_without_a_suite_behind_it_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(MissingInputError, match="there is no such suite file"):
        suite_paths([name], tmp_path)
