"""Suite files: which tests an entry is about, what it expects of them, and every mistake pointed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.catalog import CatalogTest
from test_selection.errors import MissingInputError, SettingsError
from test_selection.selection import Expectation
from test_selection.suite_config import Suite, expectations, in_suite, load_suite, unmatched_paths


def make_test(
    template: str = "test_y",
    *,
    cls: str = "TestX",
    file: str = "test_x.py",
    op: str | None = None,
    dtype: str | None = None,
) -> CatalogTest:
    name = f"{file}::{cls}::{template}-{op}-{dtype}"
    return CatalogTest(id=name, node=name, file=file, cls=cls, template=template, op=op, dtype=dtype)


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
    found = expectations(suite, [test]).get(test.id)
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
    ],
)
def test_a_path_names_files_from_the_root_of_the_tests(
    tmp_path: Path, path: str, file: str, *, matches: bool
) -> None:
    suite = load(tmp_path, f"test_suite_config: {{files: [{{path: '{path}'}}]}}\n")
    assert in_suite(suite, file) is matches
    assert unmatched_paths(suite, [file]) == ([] if matches else [path])


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
    assert expectations(suite, [other]) == {
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
    assert expectations(suite, [make_test("test_y", file="test_other.py")]) == {}
    assert not in_suite(suite, "test_other.py")


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
    ("op", "dtype", "expected"),
    [
        ("add", "float32", Expectation(mode="xfail", reason="no kernel")),
        ("add", "int8", Expectation(mode="xfail", reason="no kernel")),
        ("mul", "int8", Expectation(mode="xfail", reason="narrow")),
        ("mul", "float32", Expectation(mode="xfail", reason="the entry")),
        ("mul", "float64", None),
        ("sub", "float32", None),
        ("add", None, None),
        (None, "float32", None),
    ],
)
def test_an_xfail_is_about_the_ops_and_dtypes_it_includes(
    tmp_path: Path, op: str | None, dtype: str | None, expected: Expectation | None
) -> None:
    test = make_test("test_op", op=op, dtype=dtype)
    assert expectations(suite_of(tmp_path, INCLUDES), [test]).get(test.id) == expected


def test_what_one_entry_is_not_about_goes_to_the_next(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, INCLUDES + "\n{names: [test_op], mode: skip, description: rest}")
    assert mode_of(suite, make_test("test_op", op="add", dtype="int8")) == "xfail"
    assert mode_of(suite, make_test("test_op", op="sub", dtype="int8")) == "skip"


@pytest.mark.parametrize("mode", ["mandatory_success", "xfail"])
def test_an_excluded_op_or_dtype_is_not_run(tmp_path: Path, mode: str) -> None:
    entry = (
        f"{{names: [test_op], mode: {mode}, description: entry, edits: "
        "{ops: {exclude: [{name: gcd, description: crashes}]}, dtypes: {exclude: [float64]}}}"
    )
    suite = suite_of(tmp_path, entry)
    tests = [make_test("test_op", op="gcd", dtype="int8"), make_test("test_op", op="add", dtype="float64")]
    assert list(expectations(suite, tests).values()) == [
        Expectation(mode="skip", reason="crashes"),
        Expectation(mode="skip", reason="entry"),
    ]
    assert mode_of(suite, make_test("test_op", op="add", dtype="int8")) == mode


def test_an_include_under_mandatory_success_restricts_nothing(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "{names: [test_op], edits: {dtypes: {include: [float64]}}}", unlisted="skip")
    assert mode_of(suite, make_test("test_op", dtype="float32")) == "mandatory_success"


def test_an_op_named_like_a_module_keeps_its_prefix(tmp_path: Path) -> None:
    entry = "{names: [test_op], mode: xfail, edits: {ops: {include: [torch.ops.aten.relu]}}}"
    assert mode_of(suite_of(tmp_path, entry), make_test("test_op", op="torch.ops.aten.relu")) == "xfail"


def test_what_is_not_interpreted_is_kept_and_precisions_become_numbers(tmp_path: Path) -> None:
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
          no_grad: true
          edits:
            dtypes: {include: [{name: float16, precision: {atol: 1e-3, rtol: 0.5}}]}
            modules: {include: [{name: torch.nn.Linear}]}
            functions: {cpu_move: [copy_]}
  global:
    supported_dtypes: [{name: float16, precision: {atol: 1e-3}}]
    supported_ops: [{name: add, force_xfail: true, dtypes: [{name: int64, precision: {rtol: 2e-2}}]}]
    supported_modules: [{name: torch.nn.Linear, description: why}]
    input_config: {seed: 0}
""",
    )
    assert suite.kept == {
        "labels": ["nightly"],
        "global": {
            "input_config": {"seed": 0},
            "supported_dtypes": [{"name": "float16", "precision": {"atol": 0.001}}],
            "supported_ops": [
                {
                    "name": "add",
                    "force_xfail": True,
                    "dtypes": [{"name": "int64", "precision": {"rtol": 0.02}}],
                }
            ],
            "supported_modules": [{"name": "torch.nn.Linear", "description": "why"}],
        },
    }
    assert suite.files[0].kept == {"labels": ["slow"]}
    assert suite.files[0].entries[0].kept == {
        "tags": ["model_1"],
        "no_grad": True,
        "modules": {"include": [{"name": "torch.nn.Linear"}]},
        "functions": {"cpu_move": ["copy_"]},
    }


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
            "suite.yaml:3: path holds a pattern that cannot be read: bad character range z-a",
            "mend it",
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
            "suite.yaml:5: names holds a pattern that cannot be read: missing )",
            "mend it",
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
