"""What goes and what stays: by age, size and number, and never what is protected."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.retention.rules import CLOCK_SKEW_S, DAY_S, GIB, Item, Rule, decide

NOW = 1_800_000_000.0
RULES = st.builds(
    Rule,
    keep_days=st.none() | st.integers(0, 60),
    keep_gib=st.none() | st.integers(0, 40),
    keep_last=st.integers(0, 4),
    unfinished=st.booleans(),
)


def item(name: str, days: float | None, **more: Any) -> Item:
    at = None if days is None else NOW - days * DAY_S
    return replace(Item(kind="runs", name=name, path=f"/runs/{name}", at=at, bytes=GIB), **more)


def gone(items: list[Item], rule: Rule) -> set[str]:
    return {one.item.name for one in decide(items, rule, now=NOW) if one.goes}


UNFINISHED = "unfinished: it can be resumed (--unfinished removes it once it is too old)"
ABC = [item("b", 2), item("c", 1), item("a", 3)]
CUT = [item("a", 90, unfinished=True), item("b", 5, unfinished=True)]
HELD = [item("a", 9, held="a release names it"), item("b", 2), item("c", 1)]
ODD = [item("ahead", -400), item("none", None), item("a", 40), item("b", 50)]


@pytest.mark.parametrize(
    ("items", "rule", "names"),
    [
        ([item("a", 31), item("b", 29), item("c", 30)], Rule(keep_days=30), "a"),
        ([item("a", 1)], Rule(keep_days=0), "a"),
        ([item("a", 1)], Rule(keep_days=36_500), ""),
        (ABC, Rule(), ""),
        (ABC, Rule(keep_gib=2), "a"),
        (ABC, Rule(keep_gib=1), "a b"),
        (ABC, Rule(keep_gib=0), "a b c"),
        # What is too old makes room first.
        (ABC, Rule(keep_days=2.5, keep_gib=2), "a"),
        (ABC, Rule(keep_days=0, keep_gib=0, keep_last=2), "a"),
        # What is held takes room.
        (HELD, Rule(keep_days=1.5, keep_gib=2), "b"),
        (HELD, Rule(keep_gib=1), "b c"),
        # What can be resumed goes by age alone, and only where that is asked for.
        (CUT, Rule(keep_days=30, keep_gib=0), ""),
        (CUT, Rule(keep_days=30, keep_gib=0, unfinished=True), "a"),
        (CUT, Rule(keep_gib=0, unfinished=True), ""),
        # Somebody may be at work in it, and has no lock yet or no more.
        ([*CUT, item("c", 0.9, unfinished=True)], Rule(keep_days=0, unfinished=True), "a b"),
        # A date of the future is none of the newest.
        (ODD, Rule(keep_days=30, keep_last=1), "b"),
        (ODD, Rule(keep_days=0, keep_gib=0), "a b"),
        ([replace(item("a", 0), at=NOW + CLOCK_SKEW_S - 1)], Rule(keep_gib=0), "a"),
    ],
)
def test_what_goes(items: list[Item], rule: Rule, names: str) -> None:
    assert gone(items, rule) == set(names.split())


@pytest.mark.parametrize(
    ("items", "rule", "whys"),
    [
        (ABC, Rule(keep_days=2.5, keep_gib=1, keep_last=1),
         ["beyond 1 GiB", "one of the newest 1", "older than 2.5 days"]),
        (ABC, Rule(), ["within the limits"] * 3),
        (HELD[:1], Rule(keep_days=0), ["a release names it"]),
        (CUT, Rule(keep_days=30), [UNFINISHED] * 2),
        (ODD[:2], Rule(keep_days=0), ["dated in the future: a clock was wrong", "its age is unknown"]),
    ],
)  # fmt: skip
def test_each_decision_says_why(items: list[Item], rule: Rule, whys: list[str]) -> None:
    assert [one.why for one in decide(items, rule, now=NOW)] == whys


@st.composite
def many(draw: st.DrawFn) -> list[Item]:
    return [
        item(
            name,
            draw(st.none() | st.integers(-5, 60)),
            bytes=draw(st.integers(0, 8)) * GIB,
            held=draw(st.sampled_from(["", "", "", "held"])),
            unfinished=draw(st.booleans()),
        )
        for name in draw(st.lists(st.sampled_from([f"r{number}" for number in range(8)]), unique=True))
    ]


@given(many(), RULES)
def test_nothing_that_is_protected_goes_and_the_rest_fits(items: list[Item], rule: Rule) -> None:
    decided = decide(items, rule, now=NOW)
    assert [one.item for one in decided] == items
    past = [one for one in items if one.at is not None and one.at <= NOW + CLOCK_SKEW_S]
    for one in (one.item for one in decided if one.goes):
        assert one in past
        assert not one.held
        assert sum((other.at or 0) >= (one.at or 0) for other in past if other is not one) >= rule.keep_last
        if one.unfinished:
            assert rule.unfinished
            assert (one.at or 0) < NOW - (rule.keep_days or 0) * DAY_S
    left = sum(one.item.bytes for one in decided if not one.goes)
    if rule.keep_gib is not None and left > rule.keep_gib * GIB:
        assert not any(one.why == "within the limits" for one in decided)


@given(many(), RULES, st.integers(0, 40), st.integers())
def test_more_room_never_makes_more_go_and_order_does_not_matter(
    items: list[Item], rule: Rule, more: int, seed: int
) -> None:
    goes = gone(items, rule)
    wider = None if rule.keep_gib is None else rule.keep_gib + more
    assert gone(items, replace(rule, keep_gib=wider)) <= goes
    assert gone(items, replace(rule, keep_gib=None)) <= goes
    assert gone(random.Random(seed).sample(items, len(items)), rule) == goes  # noqa: S311  # no secret
