"""Two releases of a track beside each other; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.core.errors import MissingInputError, UsageError
from ci.pins.packages import changes
from ci.pins.record import Change, Record
from ci.pins.signatures import Difference, compare, shown

_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """What is otherwise from one release to another.

    Attributes:
        before: the earlier one.
        after: the later one.
        direct: of the tracked direct dependencies.
        packages: of all others.
        origins: of where packages come from that are from no index.
        entry_points: differences of signatures that both tell of.
    """

    before: Record
    after: Record
    direct: tuple[Change, ...]
    packages: tuple[Change, ...]
    origins: tuple[Change, ...]
    entry_points: dict[str, tuple[Difference, ...]]


def between(before: Record, after: Record) -> Between:
    """Compare two releases."""
    tracked = after.direct.keys() | before.direct.keys()
    every = changes(before.packages.keys() | after.packages.keys(), before.packages, after.packages)
    both = before.signatures.keys() & after.signatures.keys()
    compared = {name: compare(before.signatures[name], after.signatures[name]) for name in sorted(both)}
    return Between(
        before=before,
        after=after,
        direct=tuple(one for one in every if one.name in tracked),
        packages=tuple(one for one in every if one.name not in tracked),
        origins=changes(before.origins.keys() | after.origins.keys(), before.origins, after.origins),
        entry_points={name: found for name, found in compared.items() if found},
    )


def pair(
    records: Sequence[Record], before: str | None, after: str | None, *, track: str
) -> tuple[Record, Record]:
    """Which two are compared: those named, or the newest and the one before it.

    Args:
        records: of the track, the oldest first.
        before: version, or version@sha; None: the one before `after`.
        after: the same; None: the newest.
        track: its name, for errors.

    Raises:
        MissingInputError: one is not recorded.
        UsageError: there are no two to compare.
    """
    if after is not None:
        last = find(records, after, track=track)
    elif records:
        last = records[-1]
    else:
        raise _none(track)
    if before is not None:
        return find(records, before, track=track), last
    place = records.index(last)
    if place == 0:
        raise UsageError(
            f"{track} has no release before {last.version}",
            where="pins diff",
            remedy="name two that are recorded, or record more: spyre-ci pins record",
        )
    return records[place - 1], last


def find(records: Sequence[Record], text: str, *, track: str) -> Record:
    """The release that is meant: of several of one version the newest.

    Args:
        records: of the track, the oldest first.
        text: version, or version@sha with some of its digits.
        track: its name, for errors.

    Raises:
        MissingInputError: there is none.
    """
    version, _, sha = text.partition("@")
    named = [one for one in records if one.version == version and one.sha.startswith(sha)]
    if named:
        return named[-1]
    if not records:
        raise _none(track)
    known = ", ".join(dict.fromkeys(one.version for one in records[-10:]))
    raise MissingInputError(
        f"{track} has no recorded release {text!r}", where="pins diff", remedy=f"the last ones are {known}"
    )


def lines(found: Between) -> list[str]:
    """A comparison for people."""
    told = [f"{found.after.track} {called(found.before)} -> {called(found.after)}"]
    if found.before.sha == found.after.sha:
        told.append("the same bytes")
    for title, rows in (("direct", found.direct), ("packages", found.packages), ("origins", found.origins)):
        told += [f"{title}:", *(f"  {change(one)}" for one in rows)] if rows else []
    if found.entry_points:
        told.append("entry points:")
    for name, differences in found.entry_points.items():
        was, now = shown(found.before.signatures[name]), shown(found.after.signatures[name])
        told.append(f"  {name}{was} -> {now}")
        told += [f"    {one.text}{' (breaks callers)' if one.breaks else ''}" for one in differences]
    return told if len(told) > 1 else [*told, "nothing is otherwise"]


def as_json(found: Between) -> dict[str, object]:
    """A comparison for machines."""
    return {
        "track": found.after.track,
        "before": {"version": found.before.version, "sha": found.before.sha},
        "after": {"version": found.after.version, "sha": found.after.sha},
        "direct": [one.model_dump() for one in found.direct],
        "packages": [one.model_dump() for one in found.packages],
        "origins": [one.model_dump() for one in found.origins],
        "entry_points": {
            name: [{"text": one.text, "breaks": one.breaks} for one in differences]
            for name, differences in found.entry_points.items()
        },
    }


def change(one: Change) -> str:
    """What became of a package, for people."""
    if one.before is None:
        return f"{one.name} {one.after} is new"
    if one.after is None:
        return f"{one.name} {one.before} is gone"
    return f"{one.name} {one.before} -> {one.after}"


def called(record: Record) -> str:
    """A release as people call it."""
    return f"{record.version} ({record.sha[:_DIGITS]})"


def _none(track: str) -> MissingInputError:
    return MissingInputError(
        f"{track} has no recorded release", where="pins diff", remedy="record them: spyre-ci pins record"
    )
