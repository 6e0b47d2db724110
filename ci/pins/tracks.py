"""A track with all that is known of it, and what the protocol decides for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ci.config.load import Settings
from ci.config.pins_model import PinPlace, Track
from ci.core.errors import MissingInputError, UsageError
from ci.core.text import escaped
from ci.core.workflow_commands import defused
from ci.pins.diary import read_events
from ci.pins.events import Event, within_years
from ci.pins.ledger import read_records, track_folder
from ci.pins.place import read_version
from ci.pins.protocol import Decision, Policy, decide
from ci.pins.record import Record
from ci.pins.signatures import Signature, compare
from ci.pins.support import unsupported

Name = Annotated[str, typer.Argument(metavar="TRACK", help="Its name in pins.tracks.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[TRACK]...", help="Names in pins.tracks; none: all.")
]


class ToldAlreadyError(Exception):
    """What was to be added to a track's events stands there already; in words for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A track and all that is known of it.

    Attributes:
        name: in the settings.
        track: its settings.
        folder: of its ledger.
        pin: where its version stands, `file` made absolute; None where it stands nowhere.
        records: its releases.
        events: what happened to it.
    """

    name: str
    track: Track
    folder: Path
    pin: PinPlace | None
    records: Sequence[Record]
    events: Sequence[Event]

    def until(self, moment: datetime) -> Followed:
        """What of it was there at a moment: who asks for a day of the past is not told what came later."""
        return replace(
            self,
            records=[one for one in self.records if one.at <= moment],
            events=[one for one in self.events if one.at <= moment],
        )

    def standing(self) -> str | None:
        """The version at the pin's place, as the checkout has it; None where there is no place.

        Raises:
            MissingInputError: there is no such file.
            SettingsError: there is no version at the key.
        """
        if self.pin is None:
            return None
        try:
            content = self.pin.file.read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise MissingInputError(
                "there is no such file of a pin",
                where=self.pin.file,
                remedy=f"check pins.tracks.{self.name}.pin.file",
            ) from error
        return read_version(self.pin.file, content, self.pin.key)


def followed(settings: Settings, name: str) -> Followed:
    """A track by its name.

    Raises:
        UsageError: there is none of that name.
        BadFileError: a file of its ledger cannot be taken.
    """
    folder = track_folder(settings, name)
    track = settings.model.pins.tracks[name]
    pin = track.pin
    return Followed(
        name=name,
        track=track,
        folder=folder,
        pin=pin and pin.model_copy(update={"file": settings.resolve(pin.file)}),
        records=read_records(folder),
        events=read_events(folder),
    )


def chosen(settings: Settings, names: Sequence[str] | None) -> list[str]:
    """The tracks a command names, all where it names none.

    Raises:
        UsageError: there are none.
    """
    found = list(dict.fromkeys(names or settings.model.pins.tracks))
    if not found:
        raise UsageError(
            "there are no tracks",
            where="pins.tracks",
            remedy="set one, with `image` or `package`, and `direct`",
        )
    return found


def decided(settings: Settings, one: Followed, *, now: datetime) -> Decision:
    """What the protocol decides for a track.

    Args:
        settings: of the protocol.
        one: the track.
        now: the moment.

    Raises:
        BadFileError: two requests have one id.
    """
    pins = settings.model.pins
    policy = Policy(cycle_days=pins.cycle_days, closer_days=pins.closer_days)
    supports = partial(unsupported, one.track.suites, breaks=breaks)
    return decide(policy, one.records, one.events, now=now, supports=supports)


def clock() -> datetime:
    """Now."""
    return datetime.now(UTC)


def moment_of(text: str, flag: str) -> datetime:
    """A day, or a moment, as people give it, in UTC; without a time zone it is UTC already.

    Raises:
        UsageError: it is none, or none that the protocol can count with.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{escaped(text)[:80]!r} is no day", where=flag, remedy="give one such as 2026-12-31"
        ) from error
    try:
        return within_years(found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except ValueError as error:
        raise UsageError(f"{escaped(text)} {error}", where=flag, remedy="check the year") from error


def words_of(text: str, flag: str, *, most: int) -> str:
    """What people tell, on one line.

    Raises:
        UsageError: it is empty or too long, or the shell handed over what is no UTF-8.
    """
    found = " ".join(text.split())
    if not found or len(found) > most:
        raise UsageError(f"has {len(found):,} characters", where=flag, remedy=f"give 1 to {most:,}")
    try:
        found.encode()
    except UnicodeEncodeError as error:
        raise UsageError("is no UTF-8", where=flag, remedy="check the terminal's encoding") from error
    return found


def say(line: str) -> None:
    """Print a line, whatever it holds."""
    typer.echo(defused(escaped(line)))


def breaks(before: Signature, after: Signature) -> list[str]:
    """What of a call that the first signature takes the second does not."""
    return [one.text for one in compare(before, after) if one.breaks]
