from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal_line import Lines, event_of, line_of

TEXT = st.text(st.characters(codec=None))
TIMES = st.integers(0, 10**10).map(float)
EVENTS = st.one_of(
    st.builds(events.Start, t=TIMES, id=TEXT, number=st.integers(1, 100), seed=st.none() | st.integers(0, 9)),
    st.builds(events.End, t=TIMES, id=TEXT, outcome=TEXT, seconds=st.none() | TIMES, message=TEXT, leak=TEXT),
    st.builds(events.NotRun, t=TIMES, ids=st.lists(TEXT, max_size=3), message=TEXT),
    st.builds(events.ShardStart, t=TIMES, card=st.none() | TEXT, environ=st.dictionaries(TEXT, TEXT)),
    st.builds(events.CardCheck, t=TIMES, why=TEXT, ok=st.booleans(), ended=st.booleans()),
    st.builds(events.WorkerLost, t=TIMES, id=st.none() | TEXT),
)  # fmt: skip


END = events.End(t=1, id="a", outcome="passed")


@given(EVENTS)
def test_an_event_comes_back_as_it_was(event: JournalEvent) -> None:
    line = line_of(event)
    assert line.count(b"\n") == 1
    assert event_of(line) == event_of(line[:-1]) == event


@given(EVENTS, st.data())
def test_a_line_with_one_byte_changed_is_no_event(event: JournalEvent, data: st.DataObject) -> None:
    line = bytearray(line_of(event))
    place = data.draw(st.integers(0, len(line) - 2))
    line[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    assert event_of(bytes(line)) is None


@given(EVENTS, st.data())
def test_a_line_that_is_cut_is_no_event(event: JournalEvent, data: st.DataObject) -> None:
    line = line_of(event)
    assert event_of(line[: data.draw(st.integers(0, len(line) - 2))]) is None


@given(st.lists(st.binary(max_size=60) | st.builds(line_of, EVENTS)))
def test_whatever_a_journal_holds_each_line_is_an_event_or_is_counted(lines: list[bytes]) -> None:
    found = lines_of(lines)
    assert len(found.events) + found.torn + found.damaged == len(lines)


def lines_of(lines: Iterable[bytes]) -> Lines:
    found = Lines()
    for line in lines:
        found.take(line)
    return found


def test_a_line_cut_as_it_was_written_names_nobody_and_puts_nobody_in_doubt() -> None:
    found = lines_of([line_of(END), b'{"t":2,"e":"sta'])
    assert (found.torn, found.damaged, found.suspects, found.nameless) == (1, 0, set(), 0)


def test_a_damaged_line_puts_in_doubt_whom_it_names_or_else_everybody() -> None:
    good = line_of(events.Start(t=1, id='a"\\'))
    named, nameless = good.replace(b"1", b"2", 1), good.replace(b"id", b"iq")
    harmless = line_of(events.Piece(t=1, file="f")).replace(b"1", b"2", 1)
    found = lines_of([good, named, nameless, harmless, b"\0" * 40])
    assert (found.damaged, found.torn) == (3, 1)
    assert found.suspects == {'a"\\'}
    assert found.nameless == 2


@given(st.lists(EVENTS, max_size=5))
def test_a_whole_journal_holds_the_events_that_were_written(written: list[JournalEvent]) -> None:
    assert lines_of(map(line_of, written)).events == written


def test_events_of_a_journal_share_the_words_they_have_in_common() -> None:
    lines = [line_of(events.End(t=n, id="test_a.py::b", outcome="passed")) for n in range(2)]
    one, other = lines_of(lines).events
    assert isinstance(one, events.End)
    assert isinstance(other, events.End)
    assert one.id is other.id
    assert one.outcome is other.outcome


def test_a_checksum_in_capitals_was_not_written_here() -> None:
    line = next(line for n in range(99) if b"a" in (line := line_of(events.Start(id="x", log=n)))[-11:])
    assert event_of(line[:-11] + line[-11:].replace(b"a", b"A")) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"e":"start","id":"\xff"',
        b'{"e":"start","id":"a","x":' + b"[" * 200_000 + b"]" * 200_000,
        b'{"e":"not_run","ids":' + b"[" * 200_000 + b"]" * 200_000,
        b'{"e":"start","id":"a","log":' + b"9" * 5_000,
    ],
    ids=["no UTF-8", "deep", "deep where a list is", "endless number"],
)
def test_a_line_that_no_reader_of_json_takes_is_no_event(body: bytes) -> None:
    assert event_of(body + b',"c":"%08x"}\n' % crc32(body)) is None
    assert lines_of([body + b"}\n"]).torn == 1


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (b'{"e":"start","id":"a","try":-1,"seed":true}', events.Start(id="a")),
        (b'{"e":"start","id":"\\ud800","t":NaN,"log":"x"}', events.Start(id="\ud800")),
        (b'{"e":"end","id":"a","outcome":"passed","seconds":1e12,"t":3,"of":"tomorrow"}', replace(END, t=3)),
        (b'{"e":"end","id":"a","t":3}', events.Unread(malformed=True, t=3)),
        (b'{"e":"not_run","ids":["a",7],"t":"x"}', events.Unread(malformed=True)),
        (b'{"e":"of_tomorrow","id":"a","t":3}', events.Unread(malformed=False, t=3)),
        (b'{"e":"unread","malformed":true}', events.Unread(malformed=False)),
    ],
)
def test_what_a_field_cannot_hold_counts_as_not_told(line: bytes, event: JournalEvent) -> None:
    body = line[:-1]
    assert event_of(body + b',"c":"%08x"}\n' % crc32(body)) == event
