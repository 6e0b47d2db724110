"""What a track's events are read from and written to."""

from __future__ import annotations

import errno
import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError
from ci.pins import diary
from ci.pins.diary import (
    CUT,
    FILE,
    DiaryBusyError,
    add_event,
    append_event,
    cut_end,
    line_of,
    next_id,
    parse,
    read_events,
    with_line,
)
from ci.pins.events import CampaignStarted, Event, Requested, Scheduled, Upgraded, Withdrawn

NOW = datetime(2026, 11, 23, 8, tzinfo=UTC)


def request(number: int, text: str = "it is slow") -> Requested:
    return Requested(at=NOW, id=number, reason="performance", text=text)


EVENTS: list[Event] = [
    request(1),
    Withdrawn(at=NOW, id=1),
    Scheduled(at=NOW, version="2.10", on=None),
    CampaignStarted(at=NOW, name="autumn", starts=NOW),
    Upgraded(at=NOW, before="2.9@ab", version="2.10", sha="c" * 64, reasons=("56 days",), answers=(1,)),
]


def test_what_is_appended_is_read_in_the_order_it_was_told(tmp_path: Path) -> None:
    for event in EVENTS:
        append_event(tmp_path / "torch", event)
    assert read_events(tmp_path / "torch") == EVENTS


@pytest.mark.parametrize("day", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:00-05:00"])
def test_a_day_at_an_end_of_the_calendar_is_told_with_its_line(tmp_path: Path, day: str) -> None:
    said = f'{{"kind": "scheduled", "at": "2026-11-23T08:00:00Z", "version": "2.10", "on": "{day}"}}\n'
    (tmp_path / FILE).write_text(said)
    with pytest.raises(BadFileError, match="on: Value error, is not within the years 1970 to 9000") as caught:
        read_events(tmp_path)
    assert caught.value.where == f"{tmp_path / FILE}:1"


def test_a_track_without_a_file_has_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path / "torch") == []


def test_the_next_request_has_the_number_after_the_highest() -> None:
    assert next_id([]) == 1
    assert next_id([request(7), request(3)]) == 8


def test_a_line_that_was_cut_short_is_told_and_the_events_before_it_are_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(line_of(EVENTS[0]) + line_of(EVENTS[1])[:20])
    told: list[str] = []
    assert read_events(tmp_path, tell=told.append) == EVENTS[:1]
    assert len(told) == 1
    assert "the last line was cut short and is no event" in told[0]
    assert (tmp_path / FILE).read_bytes().endswith(line_of(EVENTS[1])[:20])  # looking changes nothing


def test_the_next_append_mends_a_line_that_was_cut_short_and_keeps_what_is_left_of_it(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(line_of(EVENTS[0]) + b'{"kind": "requ\xc3')
    told: list[str] = []
    append_event(tmp_path, EVENTS[2], tell=told.append)
    assert [EVENTS[0], EVENTS[2]] == read_events(tmp_path, tell=told.append)
    assert (tmp_path / CUT).read_bytes() == b'{"kind": "requ\xc3\n'
    assert len(told) == 1
    assert f"it is in {CUT} now" in told[0]


def test_a_whole_event_whose_end_of_line_is_missing_is_an_event(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(line_of(EVENTS[0]).rstrip())
    told: list[str] = []
    append_event(tmp_path, EVENTS[1], tell=told.append)
    assert read_events(tmp_path, tell=told.append) == EVENTS[:2]
    assert told == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (line_of(EVENTS[1]).replace(b'"id": 1', b'"id": 0').strip(), "id: "),
        (b'{"kind": "scheduled", "at": "2026-11-23T08:00:00", "version": "2", "on": null}', "at: "),
        (b'{"kind": "moved", "at": "2026-11-23T08:00:00Z"}', "the line: "),
        (b'{"kind": "withdrawn", "at": "2026-11-23T08:00:00Z", "id": 1, "who": "me"}', "who: "),
        (b"<<<<<<< HEAD", "Invalid JSON"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_event_names_file_line_and_key(tmp_path: Path, line: bytes, said: str) -> None:
    (tmp_path / FILE).write_bytes(line_of(EVENTS[0]) + line + b"\n" + line_of(EVENTS[1]))
    for work in (lambda: read_events(tmp_path), lambda: append_event(tmp_path, EVENTS[2])):
        with pytest.raises(BadFileError, match="mend the line") as caught:
            work()
        assert caught.value.where == f"{tmp_path / FILE}:2"
        assert said in caught.value.what


def test_what_a_bad_line_holds_steers_no_terminal(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\x1b[2J\n")
    with pytest.raises(BadFileError) as caught:
        read_events(tmp_path)
    assert "\x1b" not in str(caught.value)


def test_a_number_that_stands_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(line_of(request(4)) + line_of(request(4, "another")))
    with pytest.raises(BadFileError, match="request 4 stands twice") as caught:
        read_events(tmp_path)
    assert caught.value.where == f"{tmp_path / FILE}:2"


def test_an_event_that_cannot_be_made_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(line_of(EVENTS[0]) + b"{")

    def fails(_: list[Event]) -> Event:
        raise KeyError("no such request")

    with pytest.raises(KeyError, match="no such request"):
        add_event(tmp_path, fails)
    assert (tmp_path / FILE).read_bytes() == line_of(EVENTS[0]) + b"{"


def test_who_waits_too_long_for_another_process_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diary, "PATIENCE_S", 0.05)
    with (tmp_path / FILE).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DiaryBusyError, match="wait until it ends") as caught:
            append_event(tmp_path, EVENTS[0])
    assert caught.value.exit_code == 3


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_event(tmp_path, EVENTS[0])
    write = os.write

    def full(descriptor: int, data: memoryview) -> int:
        if len(data) <= 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:20])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space") as caught:
        append_event(tmp_path, Withdrawn(at=NOW, id=1))
    assert caught.value.filename == str(tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == line_of(EVENTS[0])


@given(count=st.integers(0, 4), cut=st.integers(0, 400))
def test_wherever_a_crash_cuts_the_file_no_whole_event_is_lost(count: int, cut: int) -> None:
    whole = b"".join(map(line_of, EVENTS[:count]))
    content = whole + line_of(EVENTS[count])[:cut]
    seen = parse(with_line(content, EVENTS[-1]), Path("events.jsonl"))
    assert seen in (EVENTS[:count] + EVENTS[-1:], EVENTS[: count + 1] + EVENTS[-1:])
    assert content.endswith(cut_end(content))


def test_a_file_that_a_checkout_put_in_its_place_meanwhile_is_the_one_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / FILE
    path.write_bytes(b"")
    lock, others = fcntl.flock, [line_of(EVENTS[0])]

    def late(descriptor: int, kind: int) -> None:
        if others:
            (tmp_path / "new").write_bytes(others.pop())
            (tmp_path / "new").replace(path)
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    append_event(tmp_path, EVENTS[1])
    assert read_events(tmp_path) == EVENTS[:2]
