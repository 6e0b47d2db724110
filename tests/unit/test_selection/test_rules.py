"""Rules files: alternatives, markers, what a device declares, and a version that follows the content."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.capabilities import DTYPES, Capabilities, declared, known_dtype
from test_selection.catalog import CatalogTest
from test_selection.errors import SettingsError
from test_selection.rules import Rules, load_rules, rules_version
from test_selection.scope import deciding_rules

LAST = "  - {code: in-scope, text: all else, verdict: in}\n"
UNSUPPORTED = (
    "rules:\n"
    "  - {code: first, text: t, verdict: out, file: out.py}\n"
    "  - {code: unsupported-op, text: t, verdict: out, unsupported: op}\n"
    "  - {code: unsupported-dtype, text: t, verdict: out, unsupported: dtype}\n" + LAST
)


def load(tmp_path: Path, text: str) -> Rules:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return load_rules(path)


class Decided(NamedTuple):
    in_scope: bool
    code: str
    rule: int


def decide(test: CatalogTest, device: str, rules: Rules) -> Decided:
    (number,) = deciding_rules([test], device, rules)
    rule = rules.rules[number]
    return Decided(rule.verdict == "in", rule.code, number)


def make_test(
    file: str = "x.py", op: str | None = None, dtype: str | None = None, markers: tuple[str, ...] = ()
) -> CatalogTest:
    name = f"{file}::test_y"
    return CatalogTest(id=name, node=name, file=file, template="test_y", op=op, dtype=dtype, markers=markers)


def test_alternatives_are_rules_of_one_code_each_with_its_own_line(tmp_path: Path) -> None:
    text = (
        "rules:\n  - code: a\n    text: t\n    verdict: out\n    any:\n      - file: a.py\n      - op: add\n"
        + LAST
    )
    rules = load(tmp_path, text)
    assert [(rule.code, rule.line) for rule in rules.rules] == [("a", 6), ("a", 7), ("in-scope", 8)]
    assert decide(make_test("a.py"), "spyre", rules).rule == 0
    assert decide(make_test("b.py", op="add"), "spyre", rules).rule == 1
    assert decide(make_test("b.py"), "spyre", rules).in_scope


def test_a_text_of_several_lines_is_shown_on_one(tmp_path: Path) -> None:
    text = "rules:\n  - code: a\n    text: |\n      one\n      two\n    verdict: in\n"
    assert load(tmp_path, text).rules[0].text == "one two"


def test_a_rule_on_a_marker_matches_any_of_a_tests_markers(tmp_path: Path) -> None:
    rules = load(tmp_path, "rules:\n  - {code: alone, text: t, verdict: out, marker: [serial]}\n" + LAST)
    assert decide(make_test(markers=("other", "serial")), "spyre", rules).code == "alone"
    assert decide(make_test(markers=("other",)), "spyre", rules).in_scope
    assert decide(make_test(), "spyre", rules).in_scope


def test_what_the_device_does_not_declare_is_out_in_the_rules_own_order(tmp_path: Path) -> None:
    rules = load(tmp_path, UNSUPPORTED).for_device(declared(["add", "max"], ["float16", "int64"]))
    codes = {
        ("out.py", "mul", "float64"): "first",
        ("x.py", "mul", "float64"): "unsupported-op",
        ("x.py", "add", "float64"): "unsupported-dtype",
        ("x.py", "add", "float16"): "in-scope",
        ("x.py", "max.binary", "float16"): "in-scope",
        ("x.py", "_refs.add", None): "in-scope",
        ("x.py", "_refs._conversions.half", None): "unsupported-op",
        ("x.py", "_refs.max.binary", None): "in-scope",
        ("x.py", "_foreach_add", None): "unsupported-op",
        ("x.py", "nn.functional.relu", None): "unsupported-op",
        ("x.py", "nn.Linear", "float16"): "in-scope",
        ("x.py", None, "float16+int64"): "in-scope",
        ("x.py", None, "float16+int32"): "unsupported-dtype",
        ("x.py", None, "None"): "in-scope",
        ("x.py", None, None): "in-scope",
    }
    for (file, op, dtype), code in codes.items():
        assert decide(make_test(file, op, dtype), "spyre", rules).code == code, (file, op, dtype)


def test_a_device_that_declares_nothing_can_do_everything(tmp_path: Path) -> None:
    rules = load(tmp_path, UNSUPPORTED)
    for bound in (rules, rules.for_device(Capabilities())):
        assert decide(make_test(op="mul", dtype="float64"), "spyre", bound).in_scope


def test_ops_and_dtypes_are_declared_one_without_the_other(tmp_path: Path) -> None:
    rules = load(tmp_path, UNSUPPORTED)
    only_ops = rules.for_device(declared(["add"], []))
    assert decide(make_test(op="add", dtype="float64"), "spyre", only_ops).in_scope
    only_dtypes = rules.for_device(declared([], ["float16"]))
    assert decide(make_test(op="mul", dtype="float16"), "spyre", only_dtypes).in_scope


@pytest.mark.parametrize(
    ("name", "meant"),
    [("flaot16", "float16"), ("half", "float16"), ("torch.bfloat16", "bfloat16"), ("long", "int64")],
)
def test_an_unknown_dtype_is_refused_with_the_one_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf"there is no dtype '{name}', did you mean '{meant}'\?"):
        declared([], [name])


def test_a_dtype_like_none_is_refused_without_a_guess() -> None:
    with pytest.raises(ValueError, match=r"there is no dtype 'zzzzz'$"):
        known_dtype("zzzzz")


def test_torchs_own_dtypes_are_known() -> None:
    assert {"float32", "bfloat16", "int8", "bool", "complex64", "float8_e4m3fn"} <= set(DTYPES)
    assert len(set(DTYPES)) == len(DTYPES)


VERSIONED = """\
rules:
  - {code: a, text: t, verdict: out, file: [a.py, b.py]}
  - {code: in-scope, text: all else, verdict: in}
must_run:
  - {serves: models, op: linear}
"""


def test_comments_layout_texts_and_tiers_leave_the_version(tmp_path: Path) -> None:
    other = """\
# A comment.
must_run:
  - op: [linear]
    serves: other words
tiers:
  - {code: slow, text: t, tier: weekly, seconds_above: 3}
rules:
  - code: a
    any:
      - file: [b.py, a.py]
    issue: https://example.org/1
    verdict: out
    text: said otherwise
  - {code: in-scope, text: x, verdict: in}
"""
    assert rules_version(load(tmp_path, VERSIONED)) == rules_version(load(tmp_path, other))
    assert len(rules_version(load(tmp_path, VERSIONED))) == 12


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b.py", "c.py"),
        ("code: a,", "code: b,"),
        ("verdict: out, file", "verdict: in, file"),
        ("file:", "class:"),
        ("op: linear", "op: matmul"),
    ],
)
def test_what_decides_changes_the_version(tmp_path: Path, old: str, new: str) -> None:
    assert old in VERSIONED
    changed = VERSIONED.replace(old, new)
    assert rules_version(load(tmp_path, VERSIONED)) != rules_version(load(tmp_path, changed))


def test_what_the_device_declares_is_part_of_the_version(tmp_path: Path) -> None:
    rules = load(tmp_path, UNSUPPORTED)
    one, other = declared(["add", "mul"], []), declared(["mul", "add"], [])
    assert rules_version(rules.for_device(one)) == rules_version(rules.for_device(other))
    assert rules_version(rules.for_device(one)) != rules_version(rules)
    assert rules_version(rules.for_device(declared([], ["int8"]))) != rules_version(
        rules.for_device(declared([], ["int16"]))
    )


@given(st.lists(st.sampled_from(DTYPES)))
def test_the_order_of_what_is_declared_leaves_the_version(dtypes: list[str]) -> None:
    rules = Rules(path=Path("r"), rules=())
    assert rules_version(rules.for_device(declared([], dtypes))) == rules_version(
        rules.for_device(declared([], dtypes[::-1]))
    )


RULE = "rules:\n  - code: a\n    text: t\n    verdict: out\n"


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (RULE.replace("code: a", "code: a b") + LAST, "rules.yaml:2: code is 'a b'", "letters, digits"),
        (RULE + "    any: []\n" + LAST, "rules.yaml:5: any is empty", "list alternatives"),
        (RULE + "    any: x\n" + LAST, "rules.yaml:5: any is 'x', not a list", "write `- ` items under"),
        (
            RULE + "    any:\n      - file: a\n    op: x\n" + LAST,
            "rules.yaml:7: op is given together with any",
            "move it into each of the alternatives",
        ),
        (
            RULE + "    any:\n      - {}\n" + LAST,
            "rules.yaml:6: any holds an empty table",
            "give it a pattern, or take it out",
        ),
        (
            RULE + "    any:\n      - flie: a\n" + LAST,
            "rules.yaml:6: unknown key 'flie'",
            "did you mean 'file'?",
        ),
        (
            RULE + "    unsupported: ops\n" + LAST,
            "rules.yaml:5: unsupported is 'ops'",
            "did you mean 'op'? known: op, dtype",
        ),
        (
            RULE + "    unsupported: op\n    op: add\n" + LAST,
            "rules.yaml:6: op is given together with `unsupported: op`",
            "keep one of them",
        ),
        (RULE + "    marker: 7\n" + LAST, "rules.yaml:5: marker is 7, not text", "give marker as text"),
        (
            "rules:\n" + LAST + "tirs: []\n",
            "rules.yaml:3: unknown key 'tirs'",
            "did you mean 'tiers'?",
        ),
        (
            "rules:\n" + LAST + "must_run:\n  - {op: add}\n",
            "rules.yaml:4: serves is None, not text",
            "give serves as text",
        ),
        (
            "rules:\n" + LAST + "must_run:\n  - {serves: all}\n",
            "rules.yaml:4: 'all' names no tests",
            "give it one of file, class, template, op, dtype, marker",
        ),
        (
            "rules:\n" + LAST + "must_run:\n  - {serves: all, device: cpu}\n",
            "rules.yaml:4: unknown key 'device'",
            "known keys: serves, file",
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
