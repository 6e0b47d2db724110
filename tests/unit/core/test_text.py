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


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            text.plain("\x1b[1;31mE\x1b[0m x\r\n\x1b]8;;http://evil\x07click\x1b]8;;\x1b\\ done"),
            "E x\nclick done",
        ),
        (text.escaped("a\n\tb"), r"a\n\tb"),
        (text.escaped("\x1b[2J\u200b\ufffd"), r"\x1b[2J\u200b\ufffd"),
        (text.escaped("##[error]é"), "# #[error]é"),
        (text.listed(["a", "b"], 2), "a, b"),
        (text.listed(["a", "b", *"c" * 1234], 2, "; "), "a; b and 1,234 more"),
        (text.size(0), "0 KiB"),
        (text.size(3 << 20), "3.0 MiB"),
        (text.size(1500 << 30), "1,500.0 GiB"),
        (text.one_line("a\n  b\tc", 4), "a b…"),
        (text.one_line("a b"), "a b"),
        (text.last_line("Traceback\n  File\nImportError: x\n\n "), "ImportError: x"),
        (text.last_line(""), ""),
        (text.tail("abc", 3), "abc"),
        (text.tail("x" * 1500 + "end", 3), "… 1,500 characters cut …\nend"),
        (text.span(0), "0.0 s"),
        (text.span(9.94), "9.9 s"),
        (text.span(9.96), "10 s"),
        (text.span(59.4), "59 s"),
        (text.span(59.6), "1 min 00 s"),
        (text.span(185), "3 min 05 s"),
        (text.span(7620), "2 h 07 min"),
        (text.counted(1, "test"), "1 test"),
        (text.counted(1234, "test"), "1,234 tests"),
        (text.counted(2, "match", "matches"), "2 matches"),
    ],
)
def test_what_people_read(said: str, shown: str) -> None:
    assert said == shown
