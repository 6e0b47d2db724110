"""The event log: what is read, appended, refused, and what a crash leaves of it."""

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
from ci.pins import events
from ci.pins.events import (
    FILE,
    CampaignStarted,
    Event,
    EventLogBusyError,
    Requested,
    Scheduled,
    Upgraded,
    Withdrawn,
    add_event,
    cut_end,
    line_of,
    next_id,
    parse,
    read_events,
    with_line,
)

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


def add(folder: Path, event: Event) -> None:
    add_event(folder, lambda _: event)


def test_events_are_read_in_the_order_they_were_told(tmp_path: Path) -> None:
    assert read_events(tmp_path / "torch") == []
    for event in EVENTS:
        add(tmp_path / "torch", event)
    assert read_events(tmp_path / "torch") == EVENTS
    assert add_event(tmp_path / "torch", lambda told: told[0]) == EVENTS[0]
    assert read_events(tmp_path / "torch") == EVENTS, "one that is there is not added again"
    assert (next_id([]), next_id([request(7), request(3)])) == (1, 8)


def test_a_line_that_was_cut_short_is_told_and_goes_with_the_next_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = line_of(EVENTS[0]) + b'{"kind": "requ\xc3'
    (tmp_path / FILE).write_bytes(content)
    assert read_events(tmp_path) == EVENTS[:1]
    assert (tmp_path / FILE).read_bytes() == content, "looking changes nothing"
    assert "the last line is truncated and the next event replaces it" in capsys.readouterr().err
    add(tmp_path, EVENTS[2])
    assert 'enter it again: {"kind": "requ' in capsys.readouterr().err
    # A whole event whose end of line is missing is an event.
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes().rstrip())
    add(tmp_path, EVENTS[1])
    assert read_events(tmp_path) == [EVENTS[0], EVENTS[2], EVENTS[1]]
    assert capsys.readouterr().err == ""


SCHEDULED = b'{"kind": "scheduled", "at": "2026-11-23T08:00:00%s", "version": "2", "on": %s}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (line_of(EVENTS[1]).replace(b'"id": 1', b'"id": 0').strip(), "id: "),
        (SCHEDULED % (b"", b"null"), "at: "),
        (
            SCHEDULED % (b"Z", b'"0001-01-01T00:00:00+05:00"'),
            "on: Value error, is not within the years 1970 to 9000",
        ),
        (b'{"kind": "moved", "at": "2026-11-23T08:00:00Z"}', "the line: "),
        (b'{"kind": "withdrawn", "at": "2026-11-23T08:00:00Z", "id": 1, "who": "me"}', "who: "),
        (b"<<<<<<< HEAD", "Invalid JSON"),
        (b"\x1b[2J", "Invalid JSON"),
        (line_of(request(1, "another")).strip(), "request 1 is listed twice, first on line 1"),
    ],
)
def test_a_line_that_is_no_event_names_file_line_and_key(tmp_path: Path, line: bytes, said: str) -> None:
    (tmp_path / FILE).write_bytes(line_of(EVENTS[0]) + line + b"\n" + line_of(EVENTS[1]))
    for work in (lambda: read_events(tmp_path), lambda: add(tmp_path, EVENTS[2])):
        with pytest.raises(BadFileError) as caught:
            work()
        assert caught.value.where == f"{tmp_path / FILE}:2"
        assert said in caught.value.what
        assert caught.value.remedy
        assert "\x1b" not in str(caught.value)


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
    monkeypatch.setattr(events, "PATIENCE_S", 0.05)
    with (tmp_path / FILE).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EventLogBusyError, match="wait until it ends") as caught:
            add(tmp_path, EVENTS[0])
    assert caught.value.exit_code == 3


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, EVENTS[0])
    write = os.write

    def full(descriptor: int, data: memoryview) -> int:
        if len(data) <= 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:20])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space") as caught:
        add(tmp_path, Withdrawn(at=NOW, id=1))
    assert caught.value.filename == str(tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == line_of(EVENTS[0])


@given(count=st.integers(0, 4), cut=st.integers(0, 400))
def test_wherever_a_crash_cuts_the_file_no_whole_event_is_lost(count: int, cut: int) -> None:
    content = b"".join(map(line_of, EVENTS[:count])) + line_of(EVENTS[count])[:cut]
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
    add(tmp_path, EVENTS[1])
    assert read_events(tmp_path) == EVENTS[:2]
