"""Pins in a merge: Dependabot's stay, an upgrade's come in, and the newer of two holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.init.pins import pins, settle

TEXT = """\
jobs:
  a:
    uses: o/r/.github/workflows/a.yml@{}
  b:
    steps:
      - uses: actions/checkout@{}
"""
OLD, NEW, OTHER = "1" * 40 + " # v1.0.0", "2" * 40 + " # v2.0.0", "3" * 40 + " # v1.5.0"


def text(called: str, checkout: str = OLD) -> str:
    return TEXT.format(called, checkout)


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "chosen"),
    [
        (OLD, NEW, OLD, NEW),
        (OLD, OLD, NEW, NEW),
        (OLD, OTHER, NEW, NEW),
        (OLD, NEW, OTHER, NEW),
        (OLD, "main", NEW, "main"),
        (OLD, "4" * 40 + " # my own", NEW, "4" * 40 + " # my own"),
        (OLD, NEW, "5" * 40 + " # 2.0.0", NEW),
        (OLD, OLD, OLD, OLD),
    ],
)
def test_a_pin_is_decided_by_itself(base: str, theirs: str, ours: str, chosen: str) -> None:
    settled = settle(text(base), text(theirs), text(ours))
    assert settled == (text(chosen),) * 3


def test_other_actions_are_other_pins() -> None:
    settled = settle(text(OLD), text(OLD, NEW), text(NEW))
    assert settled == (text(NEW, NEW),) * 3


def test_what_is_pinned_twice_in_two_ways_is_left_to_the_lines() -> None:
    two = text(OLD) + "      - uses: actions/checkout@main\n"
    assert settle(two, two, two) == (two, two, two)
    assert pins(two)["actions/checkout"] == {OLD, "main"}


def test_what_one_text_alone_uses_stays() -> None:
    assert settle("", text(OLD), text(NEW)) == ("", text(OLD), text(NEW))


@given(st.text(), st.text(), st.text())
def test_nothing_but_pins_is_touched(base: str, theirs: str, ours: str) -> None:
    given_texts = (base, theirs, ours)
    if not any(pins(one) for one in given_texts):
        assert settle(*given_texts) == given_texts


@given(*[st.sampled_from([OLD, NEW, OTHER, "main"])] * 3)
def test_whatever_they_are_all_three_end_alike_and_with_one_that_was_there(a: str, b: str, c: str) -> None:
    settled = settle(text(a), text(b), text(c))
    assert len(set(settled)) == 1
    chosen = pins(settled[0])["o/r/.github/workflows/a.yml"]
    assert chosen <= {a, b, c}
    # What people changed and we did not is never taken back.
    assert chosen == {b} or a != c
