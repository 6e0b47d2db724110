"""One line of a journal and its checksum. Pure.

A line is a JSON object whose last key `c` is the CRC-32 (IEEE 802.3, as zlib has it) in eight hexadecimal
digits of every byte of the line before `,"c":`. It finds what a machine's end or a full disk leaves: lines
cut short, run into each other, or filled with zeros. It is no protection against anybody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from sys import intern
from typing import NamedTuple
from zlib import crc32

import msgspec

from ci.record import events
from ci.record.events import JournalEvent

_TAIL = re.compile(rb',"c":"([0-9a-f]{8})"\}\n?\Z')
_TAIL_BYTES = len(b',"c":"01234567"}')
_ID = re.compile(rb'"id":("(?:[^"\\]|\\.)*")')
_KIND = re.compile(rb'"e":"(\w+)"')
# What tells of no single test.
_OF_NO_TEST = frozenset(
    {b"shard_start", b"shard_end", b"group_start", b"group_ready", b"group_end", b"piece"}
)
_OF_A_TEST = (events.Start, events.End)
_DECODER: msgspec.json.Decoder[JournalEvent] = msgspec.json.Decoder(reduce(or_, events.KINDS.values()))


def line_of(event: JournalEvent) -> bytes:
    """The line of an event, with its line break."""
    try:
        body = msgspec.json.encode(event)[:-1]
    except UnicodeEncodeError:  # half of a surrogate pair, as of a file name that is not UTF-8
        body = json.dumps(msgspec.to_builtins(event), separators=(",", ":")).encode()[:-1]
    return b'%b,"c":"%08x"}\n' % (body, crc32(body))


def event_of(line: bytes) -> JournalEvent | None:
    """The event of a line that is as it was written; None for any other."""
    cut = len(line) - _TAIL_BYTES - line.endswith(b"\n")
    # Not the pattern: every line of a run comes by here, in the worker and in the supervisor.
    if cut <= 0 or line[cut : cut + _TAIL_BYTES] != b',"c":"%08x"}' % crc32(line[:cut]):
        return None
    return _event(line)


def _event(line: bytes) -> JournalEvent | None:
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError):  # no UTF-8, or nested too deeply, too
        return _odd_event(line)


def _odd_event(line: bytes) -> JournalEvent | None:
    """The event of a line of another version, or one that holds what only Python's own JSON does."""
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return events.parse(row) if isinstance(row, dict) and isinstance(row.get("e"), str) else None


class Lines:
    """The lines of a whole journal, told apart.

    Attributes:
        events: of the lines that are as they were written.
        torn: lines without a checksum: cut short.
        damaged: lines with a wrong one.
        suspects: ids these lines seem to name.
        nameless: how many of them may have told of a test and name none.
        unchecked: no line has a checksum; the events are those of an earlier version, taken as they stand.
    """

    def __init__(
        self, lines: Iterable[bytes], cut: Callable[[JournalEvent], JournalEvent] = lambda event: event
    ) -> None:
        """Read lines; none is kept, so that a journal of any size can be read.

        Args:
            lines: with their line breaks.
            cut: what is kept of an event.
        """
        self.events: list[JournalEvent] = []
        self.torn = self.damaged = self.nameless = 0
        self.suspects: set[str] = set()
        bad: list[tuple[_Lost, JournalEvent | None]] = []
        checked = False
        for line in lines:
            if (event := event_of(line)) is not None:
                self.events.append(_shared(cut(event)))
                checked = True
                continue
            lost = _lost(line)
            checked = checked or lost.whole
            old = None if checked else _event(line)
            bad.append((lost, None if old is None else _shared(cut(old))))
        old_events = [] if checked else [event for _, event in bad if event is not None]
        self.unchecked = bool(old_events)
        self.events += old_events
        for lost, old in bad:
            if checked or old is None:
                self._lose(lost)

    def _lose(self, lost: _Lost) -> None:
        self.damaged += lost.whole
        self.torn += not lost.whole
        self.suspects.update(lost.named)
        self.nameless += lost.nameless


class _Lost(NamedTuple):
    """What can be told of a line that is not as it was written."""

    whole: bool
    named: tuple[str, ...]
    nameless: bool


def _lost(line: bytes) -> _Lost:
    whole = _TAIL.search(line) is not None
    named = tuple(name for text in _ID.findall(line) if (name := _name(text)) is not None)
    # A start that was cut short as it was written was no start: the writer was at its end.
    cut = not whole and line.startswith((b'{"e":', b'{"t":')) and b"\0" not in line
    kind = _KIND.search(line)
    of_no_test = kind is not None and kind[1] in _OF_NO_TEST
    return _Lost(whole=whole, named=named, nameless=not (named or cut or of_no_test))


def _shared(event: JournalEvent) -> JournalEvent:
    """The event with one copy of the words that many have: a decoder makes them anew for each.

    A journal holds two events a test, and the words are more than half of them.
    """
    if isinstance(event, _OF_A_TEST):
        event.id = intern(event.id)
    if isinstance(event, events.End):
        event.outcome = intern(event.outcome)
    return event


def _name(text: bytes) -> str | None:
    try:
        return str(json.loads(text))
    except ValueError:
        return None
