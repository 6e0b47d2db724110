"""One line of a journal and its checksum. Pure.

A line is a JSON object whose last key `c` is the CRC-32 (IEEE 802.3, as zlib has it) in eight hexadecimal
digits of every byte of the line before `,"c":`. It finds what a machine's end or a full disk leaves: lines
cut short, run into each other, or filled with zeros. It is no protection against anybody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from sys import intern
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
    {b"shard_start", b"shard_end", b"group_start", b"group_ready", b"group_end", b"op_set", b"piece"}
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


@dataclass(slots=True, kw_only=True)
class Lines:
    """The lines of a journal, told apart.

    Attributes:
        events: of the lines that are as they were written, in the order of the file.
        torn: lines without a checksum: cut short.
        damaged: lines with a wrong one.
        suspects: ids these lines seem to name; good for a warning and for nothing else.
        nameless: how many of them may have told of a test and name none.
    """

    events: list[JournalEvent] = field(default_factory=list)
    torn: int = 0
    damaged: int = 0
    suspects: set[str] = field(default_factory=set)
    nameless: int = 0

    def take(self, line: bytes, cut: Callable[[JournalEvent], JournalEvent] = lambda event: event) -> None:
        """Take the next line, which is not kept, so that a journal of any size can be read.

        Args:
            line: with its line break.
            cut: what is kept of an event.
        """
        if (event := event_of(line)) is not None:
            self.events.append(_shared(cut(event)))
            return
        whole = _TAIL.search(line) is not None
        self.damaged += whole
        self.torn += not whole
        named = {name for text in _ID.findall(line) if (name := _name(text)) is not None}
        self.suspects |= named
        # A start that was cut short as it was written was no start: the writer was at its end.
        unwritten = not whole and line.startswith((b'{"e":', b'{"t":')) and b"\0" not in line
        kind = _KIND.search(line)
        of_no_test = kind is not None and kind[1] in _OF_NO_TEST
        self.nameless += not (named or unwritten or of_no_test)


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
