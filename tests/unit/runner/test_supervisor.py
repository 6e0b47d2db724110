from __future__ import annotations

from ci.runner.supervisor import without
from test_selection.plan import Group


def test_what_ended_leaves_its_group_and_empty_groups_go() -> None:
    groups = [Group(file="a", ids=("1", "2")), Group(file="b", ids=("3",))]
    assert without(groups, {"1", "3"}) == [Group(file="a", ids=("2",))]
    assert without(groups, set()) == groups
    assert without(groups, {"1", "2", "3"}) == []


def test_what_is_left_of_a_group_keeps_what_the_plan_says_of_it() -> None:
    group = Group(file="a", ids=("1", "2"), alone=True, timeout_s=7.0)
    assert without([group], {"1"}) == [Group(file="a", ids=("2",), alone=True, timeout_s=7.0)]
