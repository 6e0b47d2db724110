"""The explanation says what the scope did, whatever the rules and the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.capabilities import declared
from test_selection.catalog import Catalog, CatalogTest
from test_selection.errors import UsageError
from test_selection.explain import explain, explain_file, parse_test
from test_selection.matching import Wanted
from test_selection.patterns import compile_pattern
from test_selection.rules import Rule, Rules, default_rules, load_rules
from test_selection.scope import apply_scope, decide, deciding_rules, file_in_scope

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
        assert [said.rule for said in one.said] == list(range(one.rule + 1))
        assert [said.matches for said in one.said] == [False] * one.rule + [True]


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
        "buckets:\n  - {code: b, text: t, bucket: weekly, op: add}\n"
        "must_run:\n  - {serves: models, op: add}\n"
    )
    rules = load_rules(path)
    test = CatalogTest(id="a.py::x", node="n", file="a.py", template="x", op="add", markers=("serial", "zz"))
    told = explain(test, "spyre", rules)
    assert told.said[0].hits == {"file": ("a*", "a.py")}
    assert told.said[0].misses == {"op": "add"}
    assert told.said[1].hits == {"file": ("a*", "a.py"), "marker": ("/ser/", "serial")}
    assert (told.rule, told.buckets, told.serves) == (1, [0], ["models"])
    bare = explain(CatalogTest(id="a.py::x", node="n", file="a.py", template="x"), "spyre", rules)
    assert bare.said[0].misses == {"op": None}
    assert bare.said[1].misses == {"marker": None}


def test_what_the_device_lacks_is_explained() -> None:
    rules = default_rules().for_device(declared(["add"], ["float16"]))
    test = parse_test("test_ops.py::TestCommon::test_out[dtype=float64,op=add]")
    told = explain(test, "spyre", rules)
    assert rules.rules[told.rule].code == "unsupported-dtype"
    assert told.said[-1].hits == {"dtype": ("not in device.dtypes", "float64")}


def test_an_id_no_catalog_holds_is_taken_apart() -> None:
    test = parse_test("nn/test_x.py::TestA::TestB::test_y[dtype=float32,module=nn.Linear]#2")
    assert (test.file, test.cls, test.template) == ("nn/test_x.py", "TestA::TestB", "test_y")
    assert (test.op, test.dtype, test.markers) == ("nn.Linear", "float32", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "is not a canonical id"),
        ("::", "names no file"),
        ("::test_x", "names no file"),
        ("a.py::", "names no test"),
        ("a.py::x[y", "is not a canonical id"),
    ],
)
def test_what_is_no_id_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_test(text)
