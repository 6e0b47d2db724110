"""`spyre-ci pins request|withdraw|schedule|adopt`: what people tell of a track, noted in its events."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, get_args

import typer

from ci.config.context import settings_from_context
from ci.core.errors import UsageError
from ci.pins.diary import add_event, next_id
from ci.pins.events import MAX_TEXT, Event, Reason, Requested, Scheduled, Upgraded, Withdrawn
from ci.pins.ledger import track_folder
from ci.pins.place import VERSION
from ci.pins.releases import Releases
from ci.pins.situation import situation
from ci.pins.tracks import Name, ToldAlreadyError, clock, followed, moment_of, say, words_of


def request(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    track: Name,
    reason: Annotated[
        str,
        typer.Argument(metavar="REASON", help="major, performance, bug or regression: what speaks for it."),
    ],
    text: Annotated[str, typer.Option("--text", help="Why, for people.")],
    version: Annotated[
        str | None, typer.Option("--version", help="The release that is wanted; none: the newest.")
    ] = None,
    sha: Annotated[str, typer.Option("--sha", help="Of that release, or of the commit with a mend.")] = "",
) -> None:
    """Ask for an upgrade out of the cycle; the same again changes nothing.

    A bug and a regression need no release, and no campaign holds them.

    Example: spyre-ci pins request torch regression --text "conv2d is 3 times slower" --sha 4f0d3e2a91bc
    """
    if reason not in get_args(Reason):
        raise UsageError(
            f"{reason!r:.80} is no reason",
            where="REASON",
            remedy=f"give one of {', '.join(get_args(Reason))}",
        )
    text = words_of(text, "--text", most=MAX_TEXT)
    if version is not None:
        check_version(version, "--version")
    sha = sha.lower().removeprefix("sha256:")
    if sha and not re.fullmatch(r"[0-9a-f]{7,64}", sha):
        raise UsageError(f"{sha!r:.90} is no SHA", where="--sha", remedy="give 7 to 64 hexadecimal digits")
    now = clock()

    def make(events: list[Event]) -> Event:
        wanted: dict[str, Any] = {"reason": reason, "text": text, "version": version, "sha": sha}
        for one in situation((), events, now=now).pending:
            if one.model_dump(include=set(wanted)) == wanted:
                raise ToldAlreadyError(f"request {one.id} is there already, told on {one.at:%Y-%m-%d}")
        return Requested(at=now, id=next_id(events), **wanted)

    event = _add(ctx, track, make)
    if isinstance(event, Requested):
        follows = f"`spyre-ci pins decide {track}` says what follows"
        say(f"{track}: request {event.id} ({reason}) is noted; {follows}")


def withdraw(
    ctx: typer.Context,
    track: Name,
    number: Annotated[int, typer.Argument(metavar="ID", min=1, help="Of the request.")],
    text: Annotated[str, typer.Option("--text", help="Why, for people.")] = "",
) -> None:
    """Take a request back; the same again changes nothing.

    Example: spyre-ci pins withdraw torch 3 --text "it was the driver"
    """
    now = clock()
    text = text and words_of(text, "--text", most=MAX_TEXT)

    def make(events: list[Event]) -> Event:
        known = [one.id for one in events if isinstance(one, Requested)]
        if number not in known:
            listed = ", ".join(map(str, known)) or "none"
            raise UsageError(f"{track} has no request {number}", where="ID", remedy=f"known ones: {listed}")
        if all(one.id != number for one in situation((), events, now=now).pending):
            raise ToldAlreadyError(f"request {number} is pending no more")
        return Withdrawn(at=now, id=number, text=text)

    if _add(ctx, track, make):
        say(f"{track}: request {number} is withdrawn")


def schedule(
    ctx: typer.Context,
    track: Name,
    version: Annotated[str, typer.Argument(help="Of the release that is to come.")],
    on: Annotated[str | None, typer.Option("--on", help="The day, or the moment.")] = None,
    off: Annotated[bool, typer.Option("--off", help="It is to come no more.")] = False,
) -> None:
    """Note when a release is to come; told again with another day, it moved.

    Example: spyre-ci pins schedule torch 2.13 --on 2026-12-14
    """
    check_version(version, "VERSION")
    if (on is None) != off:
        raise UsageError("give exactly one of --on and --off", where="--on")
    day = None if on is None else moment_of(on, "--on")

    def make(events: list[Event]) -> Event:
        told = [one for one in events if isinstance(one, Scheduled) and one.version == version]
        if off and not told:
            raise UsageError(
                f"{version} is not scheduled", where="VERSION", remedy="see `spyre-ci pins status`"
            )
        if told and told[-1].on == day:
            raise ToldAlreadyError(f"{version} {_when(day)} already")
        return Scheduled(at=clock(), version=version, on=day)

    if _add(ctx, track, make):
        say(f"{track}: {version} {_when(day)}")


def adopt(
    ctx: typer.Context,
    track: Name,
    on: Annotated[str, typer.Option("--on", help="The day it was pinned, from which the cycle counts.")],
    version: Annotated[
        str | None, typer.Option("--version", help="That is pinned; none: what stands at its place.")
    ] = None,
) -> None:
    """Note what is pinned already as the first upgrade; only a track without one takes it.

    The same again changes nothing.

    Example: spyre-ci pins adopt torch --on 2026-10-05
    """
    one = followed(settings_from_context(ctx), track)
    pinned = version or one.standing()
    if pinned is None:
        raise UsageError("the track has no place of a pin", where="--version", remedy="give what is pinned")
    check_version(pinned, "--version")
    at = moment_of(on, "--on")
    if at > clock():
        raise UsageError(f"{on} is still to come", where="--on", remedy="give the day it was pinned")
    known = Releases.of(one.records).named(pinned)

    def make(events: list[Event]) -> Event:
        last = next((event for event in reversed(events) if isinstance(event, Upgraded)), None)
        if last is not None and (last.version, last.at) == (pinned, at):
            raise ToldAlreadyError(f"{pinned} is pinned since {at:%Y-%m-%d} already")
        if last is not None:
            raise UsageError(
                f"{track} is at {last.version} since {last.at:%Y-%m-%d} already",
                remedy="upgrades are noted by `spyre-ci pins apply`",
            )
        sha = known.sha if known else ""
        return Upgraded(at=at, version=pinned, sha=sha, reasons=("it was pinned before it was followed",))

    try:
        add_event(one.folder, make)
    except ToldAlreadyError as there:
        say(f"{track}: {there}")
        return
    unknown = "" if known else "; the ledger has no such release yet"
    say(f"{track}: {pinned} is pinned since {at:%Y-%m-%d}{unknown}")


def check_version(version: str, where: str) -> None:
    """Refuse what no release is called.

    Raises:
        UsageError: it is no version.
    """
    if not VERSION.fullmatch(version):
        raise UsageError(
            f"{version!r:.140} is no version",
            where=where,
            remedy="give it as the release is called, such as 2.10.0",
        )


def _when(day: datetime | None) -> str:
    return "is to come no more" if day is None else f"is to come on {day:%Y-%m-%d}"


def _add(ctx: typer.Context, track: str, make: Callable[[list[Event]], Event]) -> Event | None:
    """Add an event to a track's; None where it is there already, which is said."""
    folder = track_folder(settings_from_context(ctx), track)
    try:
        return add_event(folder, make)
    except ToldAlreadyError as there:
        say(f"{track}: {there}")
        return None
