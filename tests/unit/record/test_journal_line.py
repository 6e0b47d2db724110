from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ci.record.journal_line import Lines, event_of, line_of

TEXT = st.text(st.characters(codec=None))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
EVENTS = st.builds(
    lambda kind, content: {"t": 1.5, "e": kind, **content},
    TEXT,
    st.dictionaries(TEXT.filter(lambda key: key not in {"c", "t", "e"}), VALUES, max_size=4),
)


@given(EVENTS)
def test_an_event_comes_back_as_it_was(event: dict[str, Any]) -> None:
    line = line_of(event)
    assert line.count(b"\n") == 1
    assert event_of(line) == event_of(line[:-1]) == event


@given(EVENTS, st.data())
def test_a_line_with_one_byte_changed_is_no_event(event: dict[str, Any], data: st.DataObject) -> None:
    line = bytearray(line_of(event))
    place = data.draw(st.integers(0, len(line) - 2))
    line[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    assert event_of(bytes(line)) is None


@given(EVENTS, st.data())
def test_a_line_that_is_cut_is_no_event(event: dict[str, Any], data: st.DataObject) -> None:
    line = line_of(event)
    assert event_of(line[: data.draw(st.integers(0, len(line) - 2))]) is None


@given(st.lists(st.binary(max_size=60) | st.builds(line_of, EVENTS)))
def test_whatever_a_journal_holds_each_line_is_an_event_or_is_counted(lines: list[bytes]) -> None:
    found = Lines(lines)
    assert len(found.events) + found.torn + found.damaged == len(lines)


def test_a_line_cut_as_it_was_written_names_nobody_and_puts_nobody_in_doubt() -> None:
    found = Lines([line_of({"t": 1, "e": "end", "id": "a"}), b'{"t":2,"e":"sta'])
    assert (found.torn, found.damaged, found.suspects, found.nameless) == (1, 0, set(), 0)


def test_a_damaged_line_puts_in_doubt_whom_it_names_or_else_everybody() -> None:
    good = line_of({"t": 1, "e": "start", "id": 'a"\\'})
    named, nameless = good.replace(b"1", b"2", 1), good.replace(b"id", b"iq")
    harmless = line_of({"t": 1, "e": "piece", "file": "f"}).replace(b"1", b"2", 1)
    found = Lines([good, named, nameless, harmless, b"\0" * 40])
    assert (found.damaged, found.torn) == (3, 1)
    assert found.suspects == {'a"\\'}
    assert found.nameless == 2


def test_a_journal_without_any_checksum_is_of_an_earlier_version() -> None:
    old = Lines([b'{"e":"start","id":"a"}\n', b'{"e":"en'])
    assert ([event["e"] for event in old.events], old.unchecked, old.torn) == (["start"], True, 1)
    mixed = Lines([b'{"e":"start","id":"a"}\n', line_of({"e": "end", "id": "a"})])
    assert ([event["e"] for event in mixed.events], mixed.unchecked, mixed.torn) == (["end"], False, 1)
    assert not Lines([]).unchecked


@given(st.lists(EVENTS, max_size=5))
def test_a_whole_journal_holds_the_events_that_were_written(events: list[dict[str, Any]]) -> None:
    assert Lines(map(line_of, events)).events == events


def test_events_of_a_journal_share_the_words_they_have_in_common() -> None:
    one, other = Lines([line_of({"t": n, "e": "end", "id": "test_a.py::b"}) for n in range(2)]).events
    assert one["id"] is other["id"]
    assert all(mine is yours for mine, yours in zip(one, other, strict=True))


def test_a_checksum_in_capitals_was_not_written_here() -> None:
    event = next(
        {"t": 1, "e": "x", "n": n} for n in range(99) if b"a" in line_of({"t": 1, "e": "x", "n": n})[-11:]
    )
    line = line_of(event)
    assert event_of(line[:-11] + line[-11:].replace(b"a", b"A")) is None
