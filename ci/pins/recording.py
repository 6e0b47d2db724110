"""Recording releases: which of a source's releases are new, and what each is written down as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ci.config.pins_model import Track
from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError
from ci.core.text import one_line
from ci.pins.events import MAX_TEXT, Flagged, TakenBack, add_event, read_events
from ci.pins.pull_request import Sent
from ci.pins.record import Flag, Record, changes, file_name, in_order, read_records, write_record
from ci.pins.state import fold


class UntoldError(SpyreCiError):
    """A release whose packages cannot be told."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release that a source has.

    Attributes:
        version: tag or version.
        sha: exactly what it is, hexadecimal; empty where only a look at it tells.
        also: SHAs of the same release any of which may be recorded, such as its other wheels.
        yanked: why its index has taken it back, perhaps empty; None: it has not.
    """

    version: str
    sha: str
    also: frozenset[str] = frozenset()
    yanked: str | None = None


class Source(Protocol):
    """Where releases of a track come from."""

    @property
    def name(self) -> str:
        """Image or index, without credentials."""

    def releases(self, only: str | None) -> Sequence[Release]:
        """The releases there are, or the one named.

        Raises:
            SpyreCiError: the source cannot be asked, or has no such release.
        """

    def look(self, release: Release) -> dict[str, Any]:
        """What is in a release, as fields of a record.

        Raises:
            SpyreCiError: it cannot be looked at, or is not what it should be.
        """


@dataclass(slots=True, kw_only=True)
class Recorded:
    """What became of the releases of a track.

    Attributes:
        written: new records, oldest first.
        known: how many releases were there already.
        failed: why a release could not be recorded, by version.
        remarks: for people.
        kept: the branch that has them; None where none was asked for.
    """

    written: list[Record] = field(default_factory=list)
    known: int = 0
    failed: dict[str, SpyreCiError] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    kept: Sent | None = None


def recorded_as(release: Release, records: Iterable[Record]) -> list[Record]:
    """The records of a release, by any of its SHAs; none where it is new; pure."""
    shas = {release.sha, *release.also} - {""}
    # An index that shows no hashes never gives a file name twice all the same.
    return [one for one in records if one.version == release.version and (not shas or one.sha in shas)]


def told_since(
    releases: Iterable[Release], records: Sequence[Record], flags: Sequence[Flag], now: datetime
) -> Iterator[Flagged | TakenBack]:
    """Events of what is said of releases now and was not when they were recorded; pure."""
    for release in releases:
        for there in recorded_as(release, records):
            if (release.yanked is None) != (there.yanked is None):
                text = None if release.yanked is None else one_line(release.yanked, MAX_TEXT)
                yield TakenBack(at=now, version=there.version, sha=there.sha, text=text)
            if new := tuple(flag for flag in flags if flag not in there.flags):
                yield Flagged(at=now, version=there.version, sha=there.sha, flags=new)


def _remark(event: Flagged | TakenBack) -> str:
    if isinstance(event, Flagged):
        return f"{event.version} is now flagged {' and '.join(event.flags)}"
    if event.text is None:
        return f"{event.version} was withdrawn, and is available again"
    return f"{event.version} was withdrawn after it was recorded{f': {event.text}' if event.text else ''}"


def linked(record: Record, records: Iterable[Record]) -> Record:
    """A new record with the release before it, and what changed since; pure."""
    before = max((one for one in records if in_order(one) < in_order(record)), key=in_order, default=None)
    if before is None:
        return record
    changed = changes(record.direct, before.packages, record.packages)
    previous = file_name(before.version, before.sha)
    return record.model_copy(update={"previous": previous, "changes": changed})


def record_releases(
    folder: Path,
    source: Source,
    wanted: Track,
    only: str | None,
    flags: Sequence[Flag],
    *,
    clock: Callable[[], datetime],
    echo: Callable[[str], None],
) -> Recorded:
    """Record every release that the ledger does not have; one that fails holds up no other.

    Args:
        folder: of the track, by whose name it is called.
        source: has its releases.
        wanted: its settings.
        only: one release; None: all.
        flags: what people say of them, also of those that are recorded already.
        clock: now, aware.
        echo: takes lines for people.

    Raises:
        SpyreCiError: the source cannot be asked, or the ledger cannot be read or written.
    """
    now, done = clock(), Recorded()
    there = list(fold(read_records(folder), read_events(folder), now=now).records.values())
    releases = source.releases(only)
    for event in told_since(releases, there, flags, now):
        add_event(folder, partial(lambda one, _: one, event))
        done.remarks.append(_remark(event))
    new = [one for one in releases if not recorded_as(one, there)]
    done.known = len(releases) - len(new)
    found: list[Record] = []
    try:
        for release in new:
            if was := [one for one in there if one.version == release.version]:
                moved = f"{was[-1].sha[:12]} is recorded, and the source has {release.sha[:12]}"
                done.remarks.append(f"{release.version} has changed: {moved}")
            echo(f"{folder.name} {release.version}: reading its packages")
            try:
                content = source.look(release)
            except SpyreCiError as error:
                done.failed[release.version] = error
                continue
            about = {"track": folder.name, "version": release.version, "source": source.name}
            direct = {name: content["packages"].get(name) for name in wanted.direct}
            said = {"flags": flags, "yanked": release.yanked, "recorded_at": clock()}
            found.append(Record.model_validate({**about, **said, **content, "direct": direct}))
    finally:
        # Each is compared with the one before it, so the oldest is written first; what was looked at is kept,
        # also where somebody interrupts.
        for record in sorted(found, key=in_order):
            done.written.append(linked(record, [*there, *done.written]))
            write_record(folder, done.written[-1])
    return done
