"""From what a source has to the ledger: which releases are new, and what each is written down as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ci.config.pins_model import Track
from ci.core.errors import SpyreCiError
from ci.core.text import one_line
from ci.pins.diary import append_event, read_events
from ci.pins.events import MAX_TEXT, Flagged, TakenBack
from ci.pins.ledger import in_order, read_records, write_record
from ci.pins.packages import changes
from ci.pins.record import Flag, Record, file_name
from ci.pins.situation import as_told
from ci.pins.sources import Release, Seen, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of the releases of a track.

    Attributes:
        written: new records, the oldest first.
        known: how many releases were there already.
        failed: releases that could not be recorded, each with why.
        remarks: for people.
    """

    written: tuple[Record, ...] = ()
    known: int = 0
    failed: tuple[tuple[Release, SpyreCiError], ...] = ()
    remarks: tuple[str, ...] = ()


def new_releases(releases: Iterable[Release], records: Sequence[Record]) -> tuple[list[Release], list[str]]:
    """Releases that the ledger has not, and what is to be said of those that moved; pure.

    Args:
        releases: that the source has.
        records: of the track.
    """
    new, remarks = [], []
    for one in releases:
        if recorded_as(one, records):
            continue
        if there := [record for record in records if record.version == one.version]:
            remarks.append(
                f"{one.version} is another one now: {there[-1].sha[:12]} is recorded, {one.sha[:12]} is there"
            )
        new.append(one)
    return new, remarks


def recorded_as(release: Release, records: Iterable[Record]) -> list[Record]:
    """The records of a release: by any of its SHAs; none where it is new; pure."""
    there = [record for record in records if record.version == release.version]
    if not (release.sha or release.also):
        # An index that shows no hashes never gives a file name twice all the same.
        return there
    return [record for record in there if record.sha == release.sha or record.sha in release.also]


def told_since(
    releases: Iterable[Release], records: Sequence[Record], flags: Sequence[Flag], now: datetime
) -> list[Flagged | TakenBack]:
    """What is said of releases now and was not when they were recorded; pure.

    Args:
        releases: that the source has, or the one that was named.
        records: of the track, with what was told of them since.
        flags: what people say of all of these releases.
        now: when it is told.
    """
    found: list[Flagged | TakenBack] = []
    for one in releases:
        for there in recorded_as(one, records):
            about = {"at": now, "version": there.version, "sha": there.sha}
            if (one.yanked is None) != (there.yanked is None):
                text = None if one.yanked is None else one_line(one.yanked, MAX_TEXT)
                found.append(TakenBack.model_validate(about | {"text": text}))
            if new := [flag for flag in flags if flag not in there.flags]:
                found.append(Flagged.model_validate(about | {"flags": new}))
    return found


def _in_words(event: Flagged | TakenBack) -> str:
    if isinstance(event, Flagged):
        return f"{event.version} is flagged {' and '.join(event.flags)} from now on"
    if event.text is None:
        return f"{event.version} was taken back, and is offered again"
    return f"{event.version} was taken back since it was recorded{f': {event.text}' if event.text else ''}"


def record_of(
    release: Release,
    seen: Seen,
    *,
    track: str,
    wanted: Track,
    source: str,
    flags: Sequence[Flag],
    now: datetime,
) -> Record:
    """A release as it is written down, with nothing yet of the one before it; pure.

    Args:
        release: it.
        seen: what a look at it found.
        track: its name.
        wanted: its settings.
        source: where it was read.
        flags: what people say of it.
        now: when it was read.
    """
    return Record(
        track=track,
        version=release.version,
        sha=seen.sha,
        source=source,
        released_at=seen.released_at,
        recorded_at=now,
        flags=tuple(flags),
        yanked=release.yanked,
        packages=dict(seen.packages),
        origins=dict(seen.origins),
        read_by=seen.read_by,
        direct={name: seen.packages.get(name) for name in wanted.direct},
        signatures=dict(seen.signatures),
    )


def linked(record: Record, records: Iterable[Record]) -> Record:
    """The same, with the release before it and what changed since; pure.

    Args:
        record: a new one.
        records: of the track, in any order.
    """
    earlier = [one for one in records if in_order(one) < in_order(record)]
    if not earlier:
        return record
    before = max(earlier, key=in_order)
    return record.model_copy(
        update={
            "previous": file_name(before.version, before.sha),
            "changes": changes(record.direct, before.packages, record.packages),
        }
    )


def record_releases(
    folder: Path,
    source: Source,
    *,
    track: str,
    wanted: Track,
    only: str | None,
    flags: Sequence[Flag],
    clock: Callable[[], datetime],
    echo: Callable[[str], None],
) -> Recorded:
    """Look at every release that the ledger has not, and write it down; one that fails holds up no other.

    Args:
        folder: of the track.
        source: has its releases.
        track: its name.
        wanted: its settings.
        only: one release; None: all.
        flags: what people say of them, also of those that the ledger has already.
        clock: now, aware.
        echo: takes lines for people.

    Raises:
        SpyreCiError: the source cannot be asked, or the ledger cannot be read or written.
    """
    there = as_told(read_records(folder), read_events(folder))
    releases = source.releases(only)
    new, remarks = new_releases(releases, there)
    for event in told_since(releases, there, flags, clock()):
        append_event(folder, event)
        remarks.append(_in_words(event))
    found: list[Record] = []
    failed: list[tuple[Release, SpyreCiError]] = []
    written: list[Record] = []
    try:
        for release in new:
            echo(f"{track} {release.version}: looking at it")
            try:
                seen = source.look(release)
            except SpyreCiError as error:
                failed.append((release, error))
                continue
            remarks += [f"{release.version}: names no package: {line}" for line in seen.unread]
            found.append(
                record_of(
                    release, seen, track=track, wanted=wanted, source=source.name, flags=flags, now=clock()
                )
            )
    finally:
        # Each is compared with the one before it, so the oldest is written first; and what was looked at is
        # kept, also where somebody interrupts.
        for record in sorted(found, key=in_order):
            written.append(linked(record, [*there, *written]))
            write_record(folder, written[-1])
    return Recorded(
        written=tuple(written), known=len(releases) - len(new), failed=tuple(failed), remarks=tuple(remarks)
    )
