"""A track with all that is known of it, how it stands, and what is decided for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.config import pins_model
from ci.config.load import Settings
from ci.core.errors import MissingInputError, UsageError
from ci.pins.decide import Decision, decide
from ci.pins.events import Event, read_events
from ci.pins.place import read_version
from ci.pins.record import Record, read_records
from ci.pins.state import fold
from ci.pins.words import day, moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A track and all that is known of it; the file of the pin's place is absolute."""

    name: str
    pins: pins_model.Pins
    folder: Path
    pin: pins_model.PinPlace | None
    records: Sequence[Record]
    events: Sequence[Event]

    def decided(self, now: datetime, *, past: bool = False) -> Decision:
        """What the protocol decides at a moment; of a past one by what was known then."""
        records = [one for one in self.records if not past or one.at <= now]
        events = [one for one in self.events if not past or one.at <= now]
        return decide(self.pins, records, events, now=now, suites=self.pins.tracks[self.name].suites)

    def standing(self) -> str | None:
        """The version at the pin's place in the checkout; None where there is no place.

        Raises:
            MissingInputError: there is no such file.
            SettingsError: there is no version at the key.
        """
        if self.pin is None:
            return None
        if not self.pin.file.is_file():
            remedy = f"check pins.tracks.{self.name}.pin.file"
            raise MissingInputError("the file of the pin does not exist", where=self.pin.file, remedy=remedy)
        return read_version(self.pin.file, self.pin.file.read_bytes(), self.pin.key)


def track_of(settings: Settings, name: str) -> Track:
    """A track by its name, which `chosen` has looked for.

    Raises:
        BadFileError: a file of its ledger cannot be read.
    """
    pins = settings.model.pins
    folder = settings.resolve(pins.ledger) / name
    pin = pins.tracks[name].pin
    return Track(
        name=name,
        pins=pins,
        folder=folder,
        pin=pin and pin.model_copy(update={"file": settings.resolve(pin.file)}),
        records=read_records(folder),
        events=read_events(folder),
    )


def chosen(settings: Settings, names: Sequence[str] | None) -> list[str]:
    """The tracks a command names; all where it names none.

    Raises:
        UsageError: there are none, or there is none of that name.
    """
    known = settings.model.pins.tracks
    found = list(dict.fromkeys(names or known))
    unknown = [f"there is no track {one!r}" for one in found if one not in known]
    if unknown or not found:
        remedy = f"known: {', '.join(sorted(known))}" if known else "set one, with `image` or `package`"
        raise UsageError((unknown or ["there are no tracks"])[0], where="pins.tracks", remedy=remedy)
    return found


def decision_lines(decision: Decision) -> Iterator[str]:
    """A decision for people: the action, then why."""
    target = decision.target
    if target is not None:
        anew = ", rebuilt" if target.rebuild else ""
        yield f"upgrade to {target.version}{anew}{f' ({target.sha[:12]})' if target.sha else ''}"
    else:
        until = f", until {moment(decision.wait_until)} at the latest" if decision.wait_until else ""
        yield f"wait{until}" if decision.action == "wait" else "nothing to do"
    yield from (f"  {reason.code}: {reason.words}" for reason in decision.reasons)
    told = {"answers": decision.answers, "supersedes": decision.supersedes, "stays pending": decision.pending}
    for what, ids in told.items():
        yield from [f"  {what}: {', '.join(f'request {one}' for one in ids)}"] if ids else []
    for one in (*decision.deprecates, *decision.unclear):
        what = "deprecates" if one.certain else "perhaps not supported:"
        yield f"  {what} {one.suite}: {'; '.join(one.why)}"


def status_of(track: Track, now: datetime) -> tuple[dict[str, Any], list[str]]:
    """How a track stands, for programs and as lines for people.

    Raises:
        SpyreCiError: there is no version at the pin's place.
    """
    state, decision, place = fold(track.records, track.events, now=now), track.decided(now), track.standing()
    pin, newest, due = state.pin, state.releases.last, decision.next_due
    lines = ["nothing was upgraded yet"]
    if pin is not None and due is not None:
        lines = [
            f"{pin.version} since {day(pin.since)}; the next {'was' if due < now else 'is'} due on {day(due)}"
        ]
    if track.pin is not None:
        lines.append(f"  in the checkout: {place} at {track.pin.key} in {track.pin.file}")
    if pin is not None and place not in {None, pin.version}:
        lines.append(
            f"  NOTE: the last upgrade was to {pin.version}, but the checkout has {place}: an upgrade was "
            "not merged, or the pin was changed by hand"
        )
    lines += [f"  deprecated: {', '.join(state.deprecated)}"] if state.deprecated else []
    lines.append(f"  releases: {len(track.records)}{f', the newest {newest.label}' if newest else ''}")
    lines += [f"  {line.strip()}" for line in decision_lines(decision)]
    lines += [f"  request {one.id} ({one.reason}): {one.text}" for one in state.pending]
    lines += [f"  {version} is due on {day(on)}" for on, version in state.coming]
    found = {
        "pinned": pin and {"version": pin.version, "sha": pin.sha, "since": pin.since},
        "place": place,
        "releases": len(track.records),
        "newest": newest and newest.version,
        "deprecated": state.deprecated,
        "requests": state.pending,
        "campaigns": [{"name": one.name, "ends": one.planned} for one in state.campaigns],
        "scheduled": [{"version": version, "on": on} for on, version in state.coming],
        "decision": decision,
    }
    return found, lines
