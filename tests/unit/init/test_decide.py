"""What becomes of a file: people's changes are never lost, and nothing is written unasked.

Of pins in a merge Dependabot's stay, an upgrade's come in, and the newer of two holds.
"""

from __future__ import annotations

from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.init.decide import Change, Merged, Status, decide, pins, settle
from ci.init.files import Seen, of_bytes

TEXT = Seen(text="theirs\n", data=b"theirs\n")
LINES = st.text("ab\n", max_size=6)
WORKFLOW = """\
jobs:
  a:
    uses: o/r/.github/workflows/a.yml@{}
  b:
    steps:
      - uses: actions/checkout@{}
"""
OLD, NEW, OTHER = "1" * 40 + " # v1.0.0", "2" * 40 + " # v2.0.0", "3" * 40 + " # v1.5.0"


def never(*_: str) -> NoReturn:
    pytest.fail("nothing is to be merged")


def conflict(*_: str) -> Merged:
    return Merged(text="<<<<<<<\n", conflicts=1)


def merged(*_: str) -> Merged:
    return Merged(text="both\n", conflicts=0)


def result(change: Change) -> tuple[str, str | None, str | None]:
    return change.status, change.text, change.base


def test_what_is_not_there_is_made() -> None:
    assert result(decide("f", Seen(), "ours\n", None, never)) == ("created", "ours\n", "ours\n")


def test_what_people_removed_is_not_made_again_unless_somebody_says_so() -> None:
    left = decide("f", Seen(), "ours\n", "base\n", never)
    assert result(left) == ("kept", None, "base\n")
    assert left.why == "it was removed; --again f makes it again"
    assert result(decide("f", Seen(), "ours\n", "base\n", never, again=True))[0] == "created"


def test_what_is_right_is_left_and_taken_for_ours() -> None:
    assert result(decide("f", TEXT, "theirs\n", None, never)) == ("unchanged", None, "theirs\n")


def test_what_was_there_before_is_left_and_stays_theirs() -> None:
    change = decide("f", TEXT, "ours\n", None, never)
    assert result(change) == ("kept", None, None)
    assert "was there before" in change.why


def test_what_nobody_changed_is_renewed() -> None:
    assert result(decide("f", TEXT, "ours\n", "theirs\n", never)) == ("updated", "ours\n", "ours\n")


def test_what_people_changed_stays_where_nothing_is_new() -> None:
    assert result(decide("f", TEXT, "ours\n", "ours\n", never)) == ("kept", None, "ours\n")


def test_what_is_new_comes_into_what_people_changed() -> None:
    assert result(decide("f", TEXT, "ours\n", "base\n", merged)) == ("merged", "both\n", "ours\n")


def test_a_merge_that_changes_nothing_is_noted() -> None:
    same = decide("f", TEXT, "ours\n", "base\n", lambda *_: Merged(text="theirs\n", conflicts=0))
    assert result(same) == ("kept", None, "ours\n")


def test_a_conflict_writes_nothing_and_comes_again() -> None:
    change = decide("f", TEXT, "ours\n", "base\n", conflict)
    assert result(change) == ("conflict", "<<<<<<<\n", "base\n")
    assert not change.writes


def test_a_merge_that_would_be_no_settings_is_a_conflict() -> None:
    change = decide("f", TEXT, "ours\n", "base\n", merged, wrong=lambda text: f"{text.strip()} is none")
    assert result(change) == ("conflict", "both\n", "base\n")
    assert change.why == "both is none"


@pytest.mark.parametrize("base", [None, "base\n"])
def test_what_is_no_text_is_a_conflict_until_somebody_says_that_it_stays(base: str | None) -> None:
    odd = Seen(odd="it is a link")
    assert result(decide("f", odd, "ours\n", base, never)) == ("conflict", None, base)
    assert result(decide("f", odd, "ours\n", base, never, keep=True)) == ("kept", None, "ours\n")


def test_what_somebody_keeps_is_merged_from_then_on() -> None:
    assert result(decide("f", TEXT, "ours\n", "base\n", never, keep=True)) == ("kept", None, "ours\n")
    # What is not there stays so: it is as a file that was removed.
    change = decide("f", Seen(), "ours\n", None, never, keep=True)
    assert result(change) == ("kept", None, "ours\n")
    assert not change.writes
    assert decide("f", Seen(), "newer\n", change.base, never).status is Status.KEPT
    assert decide("f", Seen(), "ours\n", None, never, keep=True, again=True).status is Status.CREATED


@given(theirs=st.none() | LINES, ours=LINES, base=st.none() | LINES, clean=st.booleans(), keep=st.booleans())
def test_what_people_wrote_is_never_lost(
    theirs: str | None, ours: str, base: str | None, clean: bool, keep: bool
) -> None:
    def merge(_: str, now: str, new: str) -> Merged:
        return Merged(text=f"{now}|{new}", conflicts=not clean)

    seen = Seen() if theirs is None else Seen(text=theirs, data=theirs.encode())
    change = decide("f", seen, ours, base, merge, keep=keep)
    if change.writes and theirs is not None and theirs != base:
        assert change.status is Status.MERGED
        assert change.text == f"{theirs}|{ours}"
    if theirs is None:
        assert change.writes == (base is None and not keep)
    if change.status is Status.CONFLICT:
        assert change.base == base
    # The next time there is nothing to do, but for a conflict.
    if change.status in {Status.CREATED, Status.UPDATED, Status.MERGED} and change.text is not None:
        after = Seen(text=change.text, data=change.text.encode())
        again = decide("f", after, ours, change.base, merge)
        assert not again.writes


@given(st.text("ab\r\n"))
def test_ends_of_lines_stay_as_they_are(text: str) -> None:
    seen = of_bytes(text.encode())
    assert seen.text is not None
    assert seen.encoded(seen.text) == text.encode()


def test_a_file_of_a_dos_is_a_text_like_any_other() -> None:
    seen = of_bytes(b"a\r\nb\r\n")
    assert (seen.text, seen.newline) == ("a\nb\n", "\r\n")
    assert of_bytes(b"a\r\nb\n").newline == "\n"
    assert of_bytes(b"\xff").odd == "it is not UTF-8"


def text(called: str, checkout: str = OLD) -> str:
    return WORKFLOW.format(called, checkout)


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
