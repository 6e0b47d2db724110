"""What goes and what stays: by age, size and number, and never what is protected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.retention.decide import SLACK_S, decide, space
from ci.retention.things import DAY_S, GIB, Decision, Rule, Shared, Thing

NOW = 1_800_000_000.0
NAMES = [f"r{number}" for number in range(8)]
RULES = st.builds(
    Rule,
    keep_days=st.none() | st.integers(0, 60),
    keep_bytes=st.none() | st.integers(0, 40),
    keep_last=st.integers(0, 4),
    cut_off=st.booleans(),
)


def thing(name: str, days: float, **more: object) -> Thing:
    made = Thing(kind="runs", name=name, path=f"/runs/{name}", at=NOW - days * DAY_S, own=GIB)
    return replace(made, **more)  # type: ignore[arg-type]  # fields of it


def gone(things: list[Thing], **rule: object) -> list[str]:
    kept = Rule(**({"keep_days": None, "keep_bytes": None} | rule))  # type: ignore[arg-type]  # its fields
    return [one.thing.name for one in decide(things, kept, now=NOW) if one.goes]


def why(things: list[Thing], name: str, **rule: object) -> str:
    kept = Rule(**({"keep_days": 30, "keep_bytes": 0} | rule))  # type: ignore[arg-type]  # its fields
    return next(one.why for one in decide(things, kept, now=NOW) if one.thing.name == name)


def test_what_is_older_goes_and_what_is_not_stays() -> None:
    things = [thing("old", 31), thing("young", 29), thing("exact", 30)]
    assert gone(things, keep_days=30) == ["old"]
    assert gone(things, keep_days=None) == []


def test_beyond_the_room_the_oldest_goes_first() -> None:
    things = [thing("b", 2), thing("c", 1), thing("a", 3)]
    assert gone(things, keep_bytes=2 * GIB) == ["a"]
    assert gone(things, keep_bytes=GIB) == ["b", "a"]
    assert gone(things, keep_bytes=0) == ["b", "c", "a"]


def test_so_many_of_the_newest_stay_whatever_their_age_and_size() -> None:
    things = [thing("a", 300), thing("b", 200), thing("c", 100)]
    assert gone(things, keep_days=1, keep_bytes=0, keep_last=2) == ["a"]


def test_what_is_held_stays_and_takes_room() -> None:
    things = [thing("a", 9, held=("a release names it",)), thing("b", 2), thing("c", 1)]
    assert gone(things, keep_days=1.5, keep_bytes=2 * GIB) == ["b"]
    assert gone(things, keep_bytes=GIB) == ["b", "c"]
    assert why(things, "a") == "a release names it"


def test_what_another_that_stays_names_stays() -> None:
    things = [thing("a", 90), thing("b", 60, names=frozenset({"a"})), thing("c", 1, names=frozenset({"b"}))]
    assert gone(things, keep_days=30) == []
    assert gone(things[:2], keep_days=30) == ["a", "b"]
    assert gone(things[:2], keep_bytes=GIB) == ["b"]
    assert why([*things[:1], thing("b", 60, names=frozenset({"a"}), held=("in use",))], "a") == (
        "b names it, and stays"
    )


def test_two_that_name_each_other_go_together() -> None:
    things = [thing("a", 90, names=frozenset({"b"})), thing("b", 60, names=frozenset({"a"}))]
    assert gone(things, keep_days=30) == ["a", "b"]
    assert gone(things, keep_days=75) == []


def test_what_was_cut_off_goes_by_age_alone_and_only_where_it_is_asked_for() -> None:
    things = [thing("a", 90, cut_off=True), thing("b", 5, cut_off=True)]
    assert gone(things, keep_days=30, keep_bytes=0) == []
    assert gone(things, keep_days=30, keep_bytes=0, cut_off=True) == ["a"]
    assert gone(things, keep_days=None, keep_bytes=0, cut_off=True) == []
    assert gone([thing("a", 90, cut_off=True)], keep_days=100, keep_bytes=0, cut_off=True) == []
    assert "--cut-off" in why(things, "a")
    assert why(things, "b", cut_off=True) == "not finished, and younger than what may go so"


def test_a_date_in_the_future_or_none_keeps_it() -> None:
    things = [thing("a", -1), replace(thing("b", 0), at=None), thing("c", 40)]
    assert gone(things, keep_days=0, keep_bytes=0) == ["c"]
    assert "future" in why(things, "a")
    assert why(things, "b") == "nothing tells how old it is"


def test_one_of_the_future_is_none_of_the_newest() -> None:
    things = [thing("ahead", -400), thing("a", 40), thing("b", 50)]
    assert gone(things, keep_days=30, keep_last=1) == ["b"]


def test_a_clock_that_is_a_little_behind_is_no_future() -> None:
    things = [replace(thing("a", 0), at=NOW + SLACK_S - 1)]
    assert gone(things, keep_bytes=0) == ["a"]


def test_a_file_of_two_names_comes_back_with_the_last() -> None:
    both = Shared(key=(1, 7), inside=1, links=2, bytes=4 * GIB)
    things = [thing("a", 3, shared=(both,)), thing("b", 2, shared=(both,)), thing("c", 1)]
    assert space(things) == 7 * GIB
    assert space(things[:1]) == GIB
    assert gone(things, keep_bytes=6 * GIB) == ["a"]
    # The first gives back its own GiB alone, so the second has to go as well.
    decided = decide(things, Rule(keep_days=None, keep_bytes=5 * GIB), now=NOW)
    assert [(one.goes, one.frees) for one in decided] == [(True, GIB), (True, 5 * GIB), (False, 0)]


def test_what_a_name_elsewhere_holds_makes_nothing_go() -> None:
    other = Shared(key=(1, 7), inside=1, links=2, bytes=400 * GIB)
    assert gone([thing("a", 3, shared=(other,)), thing("b", 2)], keep_bytes=2 * GIB) == []


@st.composite
def many(draw: st.DrawFn) -> list[Thing]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    links = draw(st.dictionaries(st.integers(0, 2), st.integers(1, 4)))
    return [
        Thing(
            kind="runs",
            name=name,
            path=name,
            at=draw(st.none() | st.integers(-5, 60).map(lambda days: NOW - days * DAY_S)),
            own=draw(st.integers(0, 8)),
            shared=tuple(
                Shared(key=(1, number), inside=1, links=count, bytes=5)
                for number, count in links.items()
                if draw(st.booleans())
            ),
            held=draw(st.sampled_from([(), (), (), ("held",)])),
            cut_off=draw(st.booleans()),
            names=frozenset(draw(st.sets(st.sampled_from(NAMES), max_size=2))) - {name},
        )
        for name in names
    ]


def names_of(decided: list[Decision]) -> set[str]:
    return {one.thing.name for one in decided if one.goes}


@given(many(), RULES)
def test_nothing_that_is_protected_ever_goes(things: list[Thing], rule: Rule) -> None:
    decided = decide(things, rule, now=NOW)
    goes = names_of(decided)
    assert [one.thing for one in decided] == things
    young = [one for one in things if one.at is not None and one.at <= NOW + SLACK_S]
    for one in things:
        if one.name not in goes:
            assert not one.names & goes, "something that stays names it"
            continue
        assert not one.held
        assert one.at is not None
        assert one.at <= NOW + SLACK_S
        younger = [other for other in young if other is not one and (other.at or 0) >= one.at]
        assert len(younger) >= rule.keep_last
        if one.cut_off:
            assert rule.cut_off
            assert rule.keep_days is not None
            assert one.at < NOW - rule.keep_days * DAY_S


@given(many(), RULES, st.integers(0, 40))
def test_more_room_never_makes_more_go(things: list[Thing], rule: Rule, more: int) -> None:
    less = names_of(decide(things, rule, now=NOW))
    wider = None if rule.keep_bytes is None else rule.keep_bytes + more
    assert names_of(decide(things, replace(rule, keep_bytes=wider), now=NOW)) <= less
    assert names_of(decide(things, replace(rule, keep_bytes=None), now=NOW)) <= less


@given(many(), RULES, st.integers(0, 4))
def test_keeping_more_of_the_newest_by_age_never_makes_more_go(
    things: list[Thing], rule: Rule, more: int
) -> None:
    rule = replace(rule, keep_bytes=None)
    less = names_of(decide(things, rule, now=NOW))
    assert names_of(decide(things, replace(rule, keep_last=rule.keep_last + more), now=NOW)) <= less


@given(many(), RULES)
def test_what_is_said_to_come_back_does(things: list[Thing], rule: Rule) -> None:
    decided = decide(things, rule, now=NOW)
    assert sum(one.frees for one in decided) == space(one.thing for one in decided if one.goes)


@given(many(), RULES, st.randoms(use_true_random=False))
def test_the_order_they_are_found_in_does_not_matter(things: list[Thing], rule: Rule, random: object) -> None:
    shuffled = list(things)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's Random
    assert names_of(decide(things, rule, now=NOW)) == names_of(decide(shuffled, rule, now=NOW))


@given(many(), RULES)
def test_what_is_left_is_not_beyond_its_room_but_for_what_must_stay(things: list[Thing], rule: Rule) -> None:
    decided = decide(things, rule, now=NOW)
    left = [one for one in decided if not one.goes]
    free = [one for one in left if one.why == "within what is kept"]
    if rule.keep_bytes is not None and space(one.thing for one in left) > rule.keep_bytes:
        # All that may go has gone, but for what is named by it or finds itself named by what stays.
        named = {name for one in left for name in one.thing.names}
        assert all(one.thing.cut_off or one.thing.name in named for one in free)


@pytest.mark.parametrize("days", [0, 0.5, 36_500])
def test_any_number_of_days_is_taken(days: float) -> None:
    assert gone([thing("a", 1)], keep_days=days) == (["a"] if days < 1 else [])
