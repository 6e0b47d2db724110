"""Text from tests is harmless once it has passed here, and still readable."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core import text

ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates and controls too


@pytest.mark.parametrize(
    ("dirty", "shown"),
    [
        ("plain é 漢 😀\t\n", "plain é 漢 😀\t\n"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x00\x7f\x9b\r", r"\x00\x7f\x9b\x0d"),
        ("\udc80\ud83d", r"\udc80\ud83d"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\ufffe\uffff\ufeff\u2028", r"\ufffe\uffff\ufeff\u2028"),
    ],
)
def test_unsafe_characters_become_visible_escapes(dirty: str, shown: str) -> None:
    assert text.clean(dirty) == shown


@given(ANY)
def test_clean_text_fits_into_utf_8_and_xml(dirty: str) -> None:
    shown = text.clean(dirty)
    element = ET.Element("x", a=shown)
    assert ET.fromstring(ET.tostring(element, "utf-8")).get("a") == shown  # noqa: S314  # written above


@given(ANY)
def test_cleaning_twice_changes_nothing(dirty: str) -> None:
    assert text.clean(text.clean(dirty)) == text.clean(dirty)


def test_messages_lose_colours_links_and_carriage_returns() -> None:
    said = "\x1b[1;31mE\x1b[0m x\r\n\x1b]8;;http://evil\x07click\x1b]8;;\x1b\\ done"
    assert text.plain(said) == "E x\nclick done"


@pytest.mark.parametrize(
    ("dirty", "shown"),
    [("a\n\tb", r"a\n\tb"), ("\x1b[2J\u200b\ufffd", r"\x1b[2J\u200b\ufffd"), ("##[error]é", "# #[error]é")],
)
def test_a_name_is_one_line_that_shows_all_that_is_no_part_of_one(dirty: str, shown: str) -> None:
    assert text.escaped(dirty) == shown


def test_the_first_of_many_are_named() -> None:
    assert text.listed(["a", "b"], 2) == "a, b"
    assert text.listed(["a", "b", *"c" * 1234], 2, "; ") == "a; b and 1,234 more"


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 KiB"), (3 << 20, "3.0 MiB"), (1500 << 30, "1,500.0 GiB")]
)
def test_sizes_are_for_people(number: int, said: str) -> None:
    assert text.size(number) == said


def test_one_line_folds_space_and_cuts() -> None:
    assert text.one_line("a\n  b\tc", 4) == "a b…"
    assert text.one_line("a b") == "a b"


def test_the_last_line_of_a_traceback_is_the_last_that_is_not_blank() -> None:
    assert text.last_line("Traceback\n  File\nImportError: x\n\n ") == "ImportError: x"
    assert text.last_line("") == ""


def test_the_tail_says_how_much_was_cut() -> None:
    assert text.tail("abc", 3) == "abc"
    assert text.tail("x" * 1500 + "end", 3) == "… 1,500 characters cut …\nend"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7620, "2 h 07 min"),
    ],
)
def test_spans_are_for_people(seconds: float, said: str) -> None:
    assert text.span(seconds) == said


def test_numbers_have_their_noun() -> None:
    assert (text.counted(1, "test"), text.counted(1234, "test")) == ("1 test", "1,234 tests")
    assert text.counted(2, "match", "matches") == "2 matches"
