"""`spyre-ci pins campaign start|end`: hardware test windows, while which nothing but bugs changes a pin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.load import Settings
from ci.core.errors import UsageError
from ci.pins.change import unmerged
from ci.pins.diary import add_event, read_events
from ci.pins.events import MAX_NAME, CampaignEnded, CampaignStarted, Event
from ci.pins.ledger import track_folder
from ci.pins.tracks import ToldAlreadyError, chosen, clock, moment_of, say, words_of
from ci.pins.words import moment

app = typer.Typer(help="Hardware test windows: nothing but bugs changes a pin.", no_args_is_help=True)
Campaign = Annotated[str, typer.Argument(metavar="NAME", help="Of the campaign.")]
Tracks = Annotated[
    list[str] | None, typer.Option("--track", help="It holds; may stand several times; none: every track.")
]
HELD = "merge it before the campaign, or after it"


@app.command()
def start(
    ctx: typer.Context,
    name: Campaign,
    track: Tracks = None,
    starts: Annotated[str | None, typer.Option("--starts", help="A day or a moment; none: now.")] = None,
    ends: Annotated[
        str | None, typer.Option("--ends", help="As planned; none: until `campaign end`.")
    ] = None,
) -> None:
    """Begin a campaign, now or on a day; told again with another day, that one moved and the other stays.

    Example: spyre-ci pins campaign start autumn --starts 2026-11-30 --ends 2026-12-11
    """
    settings, now = settings_from_context(ctx), clock()
    name = words_of(name, "NAME", most=MAX_NAME)
    begin = None if starts is None else moment_of(starts, "--starts")
    end = None if ends is None else moment_of(ends, "--ends")

    def make(events: list[Event]) -> CampaignStarted:
        told = _last(events, name)
        if isinstance(told, CampaignEnded):
            raise UsageError(
                f"campaign {name!r} has ended on {told.at:%Y-%m-%d}",
                where="NAME",
                remedy="give it another name",
            )
        made = CampaignStarted(
            at=now,
            name=name,
            starts=begin or (told.starts if told else now),
            ends=end or (told.ends if told else None),
        )
        if made.ends is not None and made.ends <= max(made.starts, now):
            raise UsageError(
                f"{moment(made.ends)} is not after {'its start' if made.starts > now else 'now'}",
                where="--ends",
                remedy="give a later day",
            )
        return made

    tracks = chosen(settings, track)
    # Whatever one of them refuses is refused before any of them is told.
    for one in tracks:
        make(read_events(track_folder(settings, one)))
    for one in tracks:
        _begin(settings, one, make)


@app.command()
def end(ctx: typer.Context, name: Campaign, track: Tracks = None) -> None:
    """End a campaign, before, at or after its planned end; the same again changes nothing.

    Example: spyre-ci pins campaign end autumn
    """
    settings = settings_from_context(ctx)
    name = words_of(name, "NAME", most=MAX_NAME)
    tracks = chosen(settings, track)
    known = {one: read_events(track_folder(settings, one)) for one in tracks}
    there = [one for one in tracks if _last(known[one], name) is not None]
    missing = sorted(set(tracks) - set(there))
    if not there or (track and missing):
        names = {one.name for events in known.values() for one in events if isinstance(one, CampaignStarted)}
        raise UsageError(
            f"there is no campaign {name!r} of {', '.join(missing)}",
            where="NAME",
            remedy=f"known: {', '.join(sorted(names)) or 'none'}",
        )

    def make(events: list[Event]) -> Event:
        if isinstance(_last(events, name), CampaignEnded):
            raise ToldAlreadyError
        return CampaignEnded(at=clock(), name=name)

    for one in there:
        new = _added(settings, one, make)
        after = f"; `spyre-ci pins decide {one}` says what follows" if new else " already"
        say(f"{one}: campaign {name} has ended{after}")


def _begin(settings: Settings, track: str, make: Callable[[list[Event]], CampaignStarted]) -> None:
    made: list[CampaignStarted] = []

    def new(events: list[Event]) -> Event:
        made.append(make(events))
        last = _last(events, made[-1].name)
        if last is not None and last == made[-1].model_copy(update={"at": last.at}):
            raise ToldAlreadyError
        return made[-1]

    again = "" if _added(settings, track, new) else ", as was told"
    one = made[-1]
    on = f"is on from {moment(one.starts)}" if one.starts > one.at else "is on,"
    until = "until it is ended" if one.ends is None else f"until {moment(one.ends)}"
    say(f"{track}: campaign {one.name} {on} {until}{again}")
    for branch in unmerged(settings, track):
        say(f"  NOTE: {branch} holds an upgrade that is not merged: {HELD}")


def _last(events: list[Event], name: str) -> CampaignStarted | CampaignEnded | None:
    """What was told last of a campaign."""
    told = (one for one in reversed(events) if isinstance(one, CampaignStarted | CampaignEnded))
    return next((one for one in told if one.name == name), None)


def _added(settings: Settings, track: str, make: Callable[[list[Event]], Event]) -> bool:
    try:
        add_event(track_folder(settings, track), make)
    except ToldAlreadyError:
        return False
    return True
