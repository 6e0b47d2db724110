from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.catalog import CatalogTest
from test_selection.errors import SettingsError
from test_selection.limits import limits_of
from test_selection.pack import make_plan
from test_selection.rules import Rules, default_rules, load_rules

HEAD = "rules:\n  - {code: all, text: everything, verdict: in}\n"


def rules_of(folder: Path, text: str) -> Rules:
    path = folder / "rules.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return load_rules(path)


def a_test(name: str, *, cls: str = "T", markers: tuple[str, ...] = ()) -> CatalogTest:
    return CatalogTest(
        id=f"a.py::{cls}::{name}", node="", file="a.py", cls=cls, template=name, markers=markers
    )


def test_the_first_rule_that_matches_says_how_a_test_runs(tmp_path: Path) -> None:
    rules = rules_of(
        tmp_path,
        "order:\n"
        "  - {code: serial, text: marked so, marker: serial, alone: true}\n"
        "  - {code: steps, text: each builds on the one before, class: Steps, in_order: class}\n"
        "  - {code: rest, text: of the file, template: shared, in_order: file}\n"
        "tiers:\n"
        "  - {code: wide, text: two at once, template: wide, needs: {cards: 2}}\n"
        "  - {code: memory, text: much, template: t1, needs: {memory_gib: 4}}\n",
    )
    tests = [
        a_test("t2", cls="Steps"),
        a_test("t1", cls="Steps"),
        a_test("t3", cls="Steps", markers=("serial",)),
        a_test("shared"),
        a_test("wide"),
    ]
    limits = limits_of(tests, rules.order, rules.tiers)
    assert limits.alone == {"a.py::Steps::t3"}
    assert list(limits.in_order.items()) == [
        ("a.py::Steps::t2", "Steps"), ("a.py::Steps::t1", "Steps"), ("a.py::T::shared", "")
    ]  # fmt: skip
    assert limits.cards == {"a.py::T::wide": 2}


def test_a_plan_keeps_the_order_of_the_source(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "order:\n  - {code: s, text: t, class: Steps, in_order: class}\n")
    tests = [a_test(f"t{number}", cls="Steps") for number in (3, 1, 2, 0)]
    limits = limits_of(tests, rules.order, rules.tiers)
    plan = make_plan(tests, test_s={}, file_s={"a.py": 1.0}, shards=3, limits=limits)
    assert plan.ids == [test.id for test in tests]
    assert sum(bool(shard.groups) for shard in plan.shards) == 1


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{code: a, text: t, class: X}", "order rule 'a' has neither alone nor in_order"),
        ("{code: a, text: t, class: X, alone: true, in_order: file}", "has both alone and in_order"),
        ("{code: a, text: t, alone: true}", "order rule 'a' matches every test"),
        ("{code: a, text: t, class: X, alone: 'yes'}", "alone is 'yes'"),
        ("{code: a, text: t, class: X, in_order: module}", "in_order is 'module'"),
        ("{code: a, text: t, class: X, alnoe: true}", "unknown key 'alnoe'"),
    ],
)
def test_an_entry_that_cannot_be_taken_is_told_with_its_line(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        rules_of(tmp_path, f"order:\n  - {entry}\n")
    assert "rules.yaml:4" in str(caught.value)
    assert caught.value.remedy


def test_what_pytorch_marks_serial_runs_alone() -> None:
    rules = default_rules()
    tests = [a_test("x", markers=("serial",)), a_test("y")]
    assert limits_of(tests, rules.order, rules.tiers).alone == {"a.py::T::x"}
