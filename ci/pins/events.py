"""The event log of a track: `pins/<track>/events.jsonl`, append-only, an event a line, in the order told.

Nothing is taken back: a later event says otherwise. The file itself is locked while it is written: it is
committed, and a lock beside it would be as well.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from pydantic import AfterValidator, AwareDatetime, Field, TypeAdapter, ValidationError

from ci.core.errors import EXIT_INCOMPLETE, BadFileError, SpyreCiError
from ci.core.locks import take
from ci.core.text import clip, escaped
from ci.pins.record import Flag, Table

FILE = "events.jsonl"
PATIENCE_S = 30.0
# A request's reason. A bug or regression needs no new release, and is not delayed by a campaign.
Reason = Literal["major", "performance", "bug", "regression"]
URGENT: frozenset[str] = frozenset({"bug", "regression"})
# Characters of what people say at length, and of a campaign's name.
MAX_TEXT, MAX_NAME = 2000, 200
# Far enough from the ends of the calendar that days can be added and taken away, in any time zone.
_FIRST, _BEHIND = datetime(1970, 1, 1, tzinfo=UTC), datetime(9001, 1, 1, tzinfo=UTC)


def within_years(at: datetime) -> datetime:
    """The moment, where the protocol can count with it.

    Raises:
        ValueError: it cannot.
    """
    if not _FIRST <= at < _BEHIND:
        raise ValueError("is not within the years 1970 to 9000")
    return at


Moment = Annotated[AwareDatetime, AfterValidator(within_years)]


class _Event(Table):
    at: Moment


class Requested(_Event):
    """Somebody asks for an upgrade.

    Attributes:
        id: unique within the track, from 1.
        version: the release that is wanted; None: the newest, or a build of the same version with a fix.
        sha: of that release, or of the commit with the fix; empty where there is none.
        text: why, for people.
    """

    kind: Literal["requested"] = "requested"
    id: int = Field(ge=1)
    reason: Reason
    text: str = Field(min_length=1, max_length=MAX_TEXT)
    version: str | None = None
    sha: str = ""


class Withdrawn(_Event):
    """A request is taken back."""

    kind: Literal["withdrawn"] = "withdrawn"
    id: int = Field(ge=1)
    text: str = ""


class Upgraded(_Event):
    """The pin was moved.

    Attributes:
        before: version and SHA before, as `version@sha`; empty for the first.
        version: now pinned.
        sha: of it.
        reasons: why, as the decision wrote them down.
        answers: ids of requests it answers.
        supersedes: ids of requests that a later one has replaced.
        image_changed: whether what is pinned is another than before.
        deprecated: names of suites that it cannot support.
    """

    kind: Literal["upgraded"] = "upgraded"
    before: str = ""
    version: str
    sha: str
    reasons: tuple[str, ...]
    answers: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()
    image_changed: bool = True
    deprecated: tuple[str, ...] = ()


class Scheduled(_Event):
    """A release is due on a day; told again, it moved; with no day, it comes no more."""

    kind: Literal["scheduled"] = "scheduled"
    version: str
    on: Moment | None


class CampaignStarted(_Event):
    """A hardware test window, from `starts` until it ends; `ends` as planned, None: until it is ended."""

    kind: Literal["campaign-started"] = "campaign-started"
    name: str = Field(min_length=1, max_length=MAX_NAME)
    starts: Moment
    ends: Moment | None = None


class CampaignEnded(_Event):
    """A campaign ended, before, at or after its planned end."""

    kind: Literal["campaign-ended"] = "campaign-ended"
    name: str


class Flagged(_Event):
    """What people say of a release that was recorded before they said it."""

    kind: Literal["flagged"] = "flagged"
    version: str
    sha: str
    flags: tuple[Flag, ...] = Field(min_length=1)


class TakenBack(_Event):
    """An index took a recorded release back, for the reason in `text`; None: it offers it again."""

    kind: Literal["taken-back"] = "taken-back"
    version: str
    sha: str
    text: str | None = Field(max_length=MAX_TEXT)


Event = Annotated[
    Requested | Withdrawn | Upgraded | Scheduled | CampaignStarted | CampaignEnded | Flagged | TakenBack,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
Made = TypeVar("Made", Requested, Withdrawn | Upgraded, Upgraded, Scheduled, CampaignStarted | CampaignEnded,
               Flagged | TakenBack, Event)  # fmt: skip
_KINDS = frozenset(EVENT.json_schema()["discriminator"]["mapping"])


class EventLogBusyError(SpyreCiError):
    """Another process holds a track's events."""

    exit_code = EXIT_INCOMPLETE


def next_id(events: Sequence[Event]) -> int:
    """The id of the next request."""
    return 1 + max((one.id for one in events if isinstance(one, Requested)), default=0)


def line_of(event: Event) -> bytes:
    """An event as a line of the file; defaults are left out."""
    content = EVENT.dump_python(event, mode="json", exclude_defaults=True)
    return (json.dumps({"kind": event.kind, **content}) + "\n").encode()


def with_line(content: bytes, event: Event) -> bytes:
    """The file's content with one more event, without a line that was cut short at its end."""
    whole = content.removesuffix(cut_end(content))
    return whole + (b"\n" if whole and not whole.endswith(b"\n") else b"") + line_of(event)


def cut_end(content: bytes) -> bytes:
    """The part of a last line that a crash left: without a newline, and no event; else empty."""
    last = content.rpartition(b"\n")[2]
    try:
        EVENT.validate_json(last)
    except ValidationError:
        return last
    return b""


def parse(content: bytes, path: Path) -> list[Event]:
    """The events of a content, without a line that was cut short at its end.

    Raises:
        BadFileError: a line is no event, or two requests have one id.
    """
    events: list[Event] = []
    ids: dict[int, int] = {}
    for number, line in enumerate(content.removesuffix(cut_end(content)).split(b"\n"), start=1):
        if not line.strip():
            continue
        event = _event(line, f"{path}:{number}")
        if isinstance(event, Requested) and ids.setdefault(event.id, number) != number:
            said = f"id: request {event.id} is listed twice, first on line {ids[event.id]}"
            remedy = "give the later one the next free number, as after a merge of two branches"
            raise BadFileError(said, where=f"{path}:{number}", remedy=remedy)
        events.append(event)
    return events


def _event(line: bytes, where: str) -> Event:
    try:
        return EVENT.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # The first part of a place is the kind of event, which is no key of the line.
        key = ".".join(str(part) for part in first["loc"] if part not in _KINDS) or "the line"
        said = escaped(f"{key}: {first['msg']} (seen: {_shown(line)})")
        remedy = "correct the line, or restore it from version control"
        raise BadFileError(said, where=where, remedy=remedy) from None


def read_events(folder: Path) -> list[Event]:
    """The events of a track's folder; a last line that was cut short is told on standard error.

    Raises:
        BadFileError: a line is no event, or two requests have one id.
    """
    path = folder / FILE
    content = path.read_bytes() if path.exists() else b""
    if cut := cut_end(content):
        _tell(path, f"and the next event replaces it; enter it again: {_shown(cut)}")
    return parse(content, path)


def add_event(folder: Path, make: Callable[[list[Event]], Made]) -> Made:
    """Append the event that `make` returns for those before it; it is on the disk when this returns.

    One of those before it is not added again. No other process writes in between, and what `make` raises
    leaves the file as it was.

    Raises:
        BadFileError: a line of the file is no event.
        EventLogBusyError: another process writes for too long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    with _locked(path) as descriptor:
        content = path.read_bytes()
        events = parse(content, path)
        event = make(events)
        if any(event is one for one in events):
            return event
        cut = cut_end(content)
        if cut:
            _tell(path, f"and was removed; enter it again: {_shown(cut)}")
        whole = len(content) - len(cut)
        os.ftruncate(descriptor, whole)
        try:
            left = memoryview(with_line(content, event)[whole:])
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, whole)
            error.filename = str(path)  # a full disk does not say where
            raise
    return event


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            # A checkout of another branch puts another file there: a line written to this one would be lost.
            if take(descriptor) and path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        time.sleep(0.02)
    said = f"another process has locked it for {PATIENCE_S:g} s"
    raise EventLogBusyError(said, where=path, remedy="wait until it ends, or stop it")


def _tell(path: Path, what: str) -> None:
    typer.echo(escaped(f"{path}: the last line is truncated {what}"), err=True)


def _shown(line: bytes) -> str:
    return clip(line.decode(errors="replace"), 200)
