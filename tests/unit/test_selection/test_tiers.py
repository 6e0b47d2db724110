"""Buckets: each keeps what it allows, moves the rest to a later one, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.errors import SettingsError
from test_selection.patterns import compile_pattern
from test_selection.rule_fields import Wanted
from test_selection.rules import load_rules
from test_selection.tiers import TIERS, Needs, Tier, TierRule, TierSplit, split_by_tier

LIMITS = {
    "pr": Tier(test_s=60, cards=1, memory_gib=16),
    "nightly": Tier(test_s=600, cards=8, memory_gib=64),
    "weekly": Tier(),
}
RULES = "rules:\n  - {code: in-scope, text: t, verdict: in}\n"


def make_test(name: str, file: str = "a.py") -> CatalogTest:
    return CatalogTest(id=f"{file}::{name}", node=name, file=file, template=name)


def rules_of(tmp_path: Path, text: str) -> tuple[TierRule, ...]:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES + "tiers:\n" + text)
    return load_rules(path).tiers


def split(
    rules: tuple[TierRule, ...], seconds: float = 0, tier: str = "pr", limits: dict[str, Tier] = LIMITS
) -> TierSplit:
    test = make_test("test_x")
    return split_by_tier([test], {test.id: seconds}, rules, limits, tier)


def test_what_a_tier_allows_stays_in_it(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "  - {code: b, text: t, tier: weekly, file: b.py}\n")
    assert split(rules, 60).kept == [make_test("test_x")]
    assert split(rules, 60).moved == {}


def test_a_test_without_an_estimate_stays() -> None:
    assert split_by_tier([make_test("x")], {}, (), LIMITS, "pr").kept == [make_test("x")]


@pytest.mark.parametrize(
    ("text", "seconds", "tier", "reason"),
    [
        ("  - {code: b, text: why, tier: weekly, file: a.py}\n", 0, "weekly", "b: why"),
        ("  - {code: b, text: why, tier: nightly, file: a.py}\n", 0, "nightly", "b: why"),
        (
            "  - {code: b, text: why, needs: {cards: 2}, file: a.py}\n",
            0,
            "nightly",
            "needs 2 cards, above 1 in tier pr",
        ),
        (
            "  - {code: b, text: why, needs: {memory_gib: 65}, file: a.py}\n",
            0,
            "weekly",
            "needs 65 GiB, above 16 GiB in tier pr",
        ),
        (
            "  - {code: b, text: why, tier: weekly, seconds_above: 30}\n",
            31,
            "weekly",
            "b: why",
        ),
        (
            "  - {code: b, text: why, tier: weekly, file: z.py}\n",
            61,
            "nightly",
            "takes 61.0 s, above 60 s in tier pr",
        ),
        (
            "  - {code: b, text: why, tier: nightly, file: a.py}\n",
            601,
            "weekly",
            "b: why; takes 601.0 s, above 60 s in tier pr",
        ),
    ],
)
def test_what_needs_more_moves_to_the_first_tier_that_allows_it_with_the_reason(
    tmp_path: Path, text: str, seconds: float, tier: str, reason: str
) -> None:
    found = split(rules_of(tmp_path, text), seconds)
    assert found.kept == []
    assert found.moved == {tier: {"a.py::test_x": reason}}
    assert found.beyond == {}


def test_seconds_above_does_not_hold_at_the_limit_itself(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "  - {code: b, text: t, tier: weekly, seconds_above: 30}\n")
    assert split(rules, 30).kept


def test_the_first_rule_with_a_tier_and_the_first_with_needs_count(tmp_path: Path) -> None:
    rules = rules_of(
        tmp_path,
        "  - {code: one, text: t, needs: {cards: 2}, file: a.py}\n"
        "  - {code: two, text: t, tier: nightly, file: a.py}\n"
        "  - {code: three, text: t, tier: weekly, needs: {cards: 99}, file: a.py}\n",
    )
    assert split(rules).moved == {"nightly": {"a.py::test_x": "two: t; needs 2 cards, above 1 in tier pr"}}


def test_the_tier_a_test_was_moved_to_runs_it(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "  - {code: b, text: t, tier: nightly, file: a.py}\n")
    assert list(split(rules, tier="pr").moved) == ["nightly"]
    assert split(rules, tier="nightly").kept
    assert split(rules, tier="weekly").kept


def test_what_no_tier_allows_goes_to_the_last_one_and_is_reported(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "  - {code: b, text: t, needs: {cards: 5}, file: a.py}\n")
    small = {name: Tier(cards=1) for name in TIERS}
    found = split(rules, limits=small)
    assert found.moved == {"weekly": {"a.py::test_x": "needs 5 cards, above 1 in tier pr"}}
    assert found.beyond == {"a.py::test_x": "needs 5 cards, above 1 in tier weekly"}
    last = split(rules, tier="weekly", limits=small)
    assert last.kept == [make_test("test_x")]
    assert last.beyond == found.beyond


limits = st.builds(
    Tier,
    test_s=st.none() | st.floats(0, 100),
    cards=st.none() | st.integers(1, 4),
    memory_gib=st.none() | st.floats(0.1, 100),
)
names = st.sampled_from(["a.py", "b.py", "c.py"])


@st.composite
def tier_rules(draw: st.DrawFn) -> TierRule:
    text = draw(names)
    needs = st.builds(Needs, cards=st.integers(1, 5), memory_gib=st.floats(0, 120))
    return TierRule(
        code="c",
        text="t",
        line=1,
        patterns=draw(st.sampled_from([{}, {"file": (Wanted(text=text, pattern=compile_pattern(text)),)}])),
        seconds_above=draw(st.none() | st.floats(0, 100)),
        tier=draw(st.sampled_from(["", "nightly", "weekly"])),
        needs=draw(st.none() | needs),
    )


@given(
    st.lists(st.tuples(names, st.floats(0, 200) | st.none()), max_size=12),
    st.lists(tier_rules(), max_size=4),
    st.tuples(limits, limits, limits),
    st.sampled_from(TIERS),
)
def test_kept_and_moved_are_what_was_given_whatever_the_rules(
    rows: list[tuple[str, float | None]],
    rules: list[TierRule],
    allowed: tuple[Tier, Tier, Tier],
    tier: str,
) -> None:
    tests = [make_test(f"t{number}", file) for number, (file, _) in enumerate(rows)]
    pairs = zip(tests, rows, strict=True)
    seconds = {test.id: takes for test, (_, takes) in pairs if takes is not None}
    tiers = dict(zip(TIERS, allowed, strict=True))
    found = split_by_tier(tests, seconds, rules, tiers, tier)
    moved = [name for ids in found.moved.values() for name in ids]
    assert sorted([test.id for test in found.kept] + moved) == sorted(test.id for test in tests)
    assert found.kept == [test for test in tests if test.id not in set(moved)]
    assert all(TIERS.index(later) > TIERS.index(tier) for later in found.moved)
    assert all(reason for ids in found.moved.values() for reason in ids.values())
    assert set(found.beyond) <= {test.id for test in found.kept} | set(found.moved.get("weekly", ()))
    # Asked in the tier it was moved to, a test stays there.
    for later, ids in found.moved.items():
        there = split_by_tier([t for t in tests if t.id in ids], seconds, rules, tiers, later)
        assert there.moved == {}
    backwards = split_by_tier(tests[::-1], seconds, rules, tiers, tier)
    assert {test.id for test in backwards.kept} == {test.id for test in found.kept}


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("  - {code: b, text: t, file: a}\n", "has neither tier nor needs", "give it one of them"),
        ("  - {code: b, text: t, tier: weekly}\n", "matches every test", "give it seconds_above or file"),
        ("  - {code: b, text: t, tier: pr, file: a}\n", "tier is 'pr'", "known: nightly, weekly"),
        ("  - {code: b, text: t, tier: nigthly, file: a}\n", "'nigthly'", "did you mean 'nightly'?"),
        ("  - {code: b, text: t, file: a, needs: {}}\n", "needs is empty", "give cards or memory_gib"),
        ("  - {code: b, text: t, file: a, needs: 2}\n", "needs is 2, not a table", "write keys under"),
        (
            "  - {code: b, text: t, file: a, needs: {card: 2}}\n",
            "unknown key 'card'",
            "did you mean 'cards'?",
        ),
        ("  - {code: b, text: t, file: a, needs: {cards: 0}}\n", "cards is 0", "whole number of 1 or more"),
        ("  - {code: b, text: t, file: a, needs: {cards: 1.5}}\n", "cards is 1.5", "whole number of 1"),
        ("  - {code: b, text: t, file: a, needs: {cards: 1.0e+400}}\n", "cards is inf", "whole number"),
        ("  - {code: b, text: t, file: a, needs: {cards: two}}\n", "cards is 'two'", "whole number"),
        ("  - {code: b, text: t, file: a, needs: {cards: true}}\n", "cards is True", "whole number"),
        ("  - {code: 'b c', text: t, tier: weekly, file: a}\n", "code is 'b c'", "letters, digits"),
        (
            "  - {code: b, text: t, tier: weekly, seconds_above: -1}\n",
            "seconds_above is -1, not a number of 0 or more",
            "write it as",
        ),
        (
            "  - {code: b, text: t, tier: weekly, seconds_above: .nan}\n",
            "seconds_above is nan",
            "write it as",
        ),
        ("  - {code: b, text: t, bucket: weekly, file: a}\n", "unknown key 'bucket'", "called 'tier' now"),
        ("  - {code: b, text: t, tier: weekly, seconds: 3}\n", "unknown key 'seconds'", "'seconds_above'"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_remedy(
    tmp_path: Path, text: str, message: str, remedy: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        rules_of(tmp_path, text)
    assert message in str(caught.value)
    assert remedy in str(caught.value)
    assert "rules.yaml:4: " in str(caught.value)
