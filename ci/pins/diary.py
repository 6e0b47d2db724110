"""A track's `events.jsonl`: read, appended to by one process at a time, and mended at a cut end.

The file itself is locked: it is committed, and a lock beside it would be as well.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from pydantic import ValidationError

from ci.core.errors import EXIT_INCOMPLETE, BadFileError, SpyreCiError
from ci.core.locks import take
from ci.core.text import clip, escaped
from ci.pins.events import EVENT, KINDS, Event, Requested

_SHOWN = 200
FILE = "events.jsonl"
# What a crash left of a line is kept here, for people.
CUT = "events.cut"
PATIENCE_S = 30.0


def next_id(events: Sequence[Event]) -> int:
    """The number of the next request."""
    return 1 + max((one.id for one in events if isinstance(one, Requested)), default=0)


def line_of(event: Event) -> bytes:
    """An event as the file has it; what is as nobody told it is left out, so that lines stay short."""
    told = EVENT.dump_python(event, mode="json", exclude_defaults=True)
    return (json.dumps({"kind": event.kind, **told}, ensure_ascii=True) + "\n").encode()


def with_line(content: bytes, event: Event) -> bytes:
    """The file's content with one more event, without what was cut short at its end."""
    whole = content.removesuffix(cut_end(content))
    return whole + (b"\n" if whole and not whole.endswith(b"\n") else b"") + line_of(event)


def cut_end(content: bytes) -> bytes:
    """What a crash left of the last line: it has no end and is no event; empty where all is well."""
    last = content.rpartition(b"\n")[2]
    if not last:
        return b""
    try:
        EVENT.validate_json(last)
    except ValidationError:
        return last
    return b""


def parse(content: bytes, path: Path) -> list[Event]:
    """The events of a content, without what was cut short at its end.

    Raises:
        BadFileError: a line is no event, or the number of a request stands twice.
    """
    lines = content.removesuffix(cut_end(content)).split(b"\n")
    events: list[Event] = []
    ids: dict[int, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        event = _event(line, f"{path}:{number}")
        if isinstance(event, Requested):
            if event.id in ids:
                raise BadFileError(
                    f"id: request {event.id} stands twice, first on line {ids[event.id]}",
                    where=f"{path}:{number}",
                    remedy="give the later one the next free number, as after a merge of two branches",
                )
            ids[event.id] = number
        events.append(event)
    return events


def _event(line: bytes, where: str) -> Event:
    try:
        return EVENT.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # The first part of a place is the kind of event, which is no key of the line.
        key = ".".join(str(part) for part in first["loc"] if part not in KINDS) or "the line"
        raise BadFileError(
            escaped(f"{key}: {first['msg']} (seen: {shown(line)})"),
            where=where,
            remedy="mend the line, or put it back as it was committed",
        ) from None


def shown(line: bytes) -> str:
    """The beginning of a line, for a message."""
    return clip(line.decode(errors="replace"), _SHOWN)


class DiaryBusyError(SpyreCiError):
    """Another process holds a track's events."""

    exit_code = EXIT_INCOMPLETE


def _on_stderr(line: str) -> None:
    typer.echo(escaped(line), err=True)


def read_events(folder: Path, *, tell: Callable[[str], object] = _on_stderr) -> list[Event]:
    """What happened to a track, in the order it was told; nothing where there is no file.

    Args:
        folder: of the track.
        tell: takes a sentence about a last line that a crash cut short.

    Raises:
        BadFileError: a line is no event, or the number of a request stands twice.
        DiaryBusyError: another process writes for too long.
    """
    path = folder / FILE
    try:
        with _opened(path, os.O_RDONLY, fcntl.LOCK_SH) as descriptor:
            content = _read(descriptor)
    except FileNotFoundError:
        return []
    events = parse(content, path)
    if cut := cut_end(content):
        tell(
            f"{path}: the last line was cut short and is no event: {shown(cut)}; tell it again, and what is "
            f"left of it goes to {CUT}"
        )
    return events


def append_event(folder: Path, event: Event, *, tell: Callable[[str], object] = _on_stderr) -> None:
    """Add an event; it is on the disk when this returns.

    Args:
        folder: of the track; it is made.
        event: what happened.
        tell: takes a sentence about a last line that was cut short, and is moved out of the way.

    Raises:
        BadFileError: a line of the file is no event: nothing is put behind it.
        DiaryBusyError: another process writes for too long.
    """
    add_event(folder, lambda _: event, tell=tell)


def add_event(
    folder: Path, make: Callable[[list[Event]], Event], *, tell: Callable[[str], object] = _on_stderr
) -> Event:
    """Add an event made of those before it, such as a request with the next number; no other comes between.

    Args:
        folder: of the track; it is made.
        make: the event, of all there are; what it raises leaves everything as it was.
        tell: as in `append_event`.

    Raises:
        BadFileError: a line of the file is no event.
        DiaryBusyError: another process writes for too long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    with _opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, fcntl.LOCK_EX) as descriptor:
        content = _read(descriptor)
        event = make(parse(content, path))
        if cut := cut_end(content):
            _keep(folder / CUT, cut)
            os.ftruncate(descriptor, len(content) - len(cut))
            tell(
                f"{path}: the last line was cut short and was no event; it is in {CUT} now, tell it again: "
                f"{shown(cut)}"
            )
        begin = b"\n" if content and not cut and not content.endswith(b"\n") else b""
        try:
            _write(descriptor, begin + line_of(event))
        except OSError as error:
            os.ftruncate(descriptor, len(content) - len(cut))
            error.filename = str(path)  # a disk that is full does not say where
            raise
    return event


@contextmanager
def _opened(path: Path, flags: int, kind: int) -> Iterator[int]:
    """Open and hold the file; the kernel lets go of it when the process ends, however that ends."""
    end = time.monotonic() + PATIENCE_S
    while True:
        descriptor = os.open(path, flags, 0o644)
        held = take(descriptor, kind)
        # A checkout of another branch puts another file there: what is written to this one is gone.
        if held and _is(descriptor, path):
            break
        os.close(descriptor)
        if not held and time.monotonic() > end:
            raise DiaryBusyError(
                f"another process has held it for {PATIENCE_S:g} s",
                where=path,
                remedy="wait until it ends, or end it",
            )
        time.sleep(0.02)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        return stream.read()


def _keep(path: Path, cut: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        _write(descriptor, cut + b"\n")
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    os.fsync(descriptor)
