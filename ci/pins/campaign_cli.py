"""`spyre-ci pins campaign start|end`: hardware test windows, while which nothing but bugs changes a pin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.errors import UsageError
from ci.pins.diary import add_event, read_events
from ci.pins.events import CampaignEnded, CampaignStarted, Event
from ci.pins.ledger import track_folder
from ci.pins.tracks import ToldAlreadyError, chosen, clock, moment_of, say, words_of

app = typer.Typer(help="Hardware test windows: nothing but bugs changes a pin.", no_args_is_help=True)
Campaign = Annotated[str, typer.Argument(metavar="NAME", help="Of the campaign.")]
Tracks = Annotated[
    list[str] | None, typer.Option("--track", help="It holds; may stand several times; none: every track.")
]
MAX_NAME = 200


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
    """Begin a campaign, now or on a day; told again with other days, it moved.

    Example: spyre-ci pins campaign start autumn --starts 2026-11-30 --ends 2026-12-11
    """
    now = clock()
    name = words_of(name, "NAME", most=MAX_NAME)
    begin = now if starts is None else moment_of(starts, "--starts")
    end = None if ends is None else moment_of(ends, "--ends")
    if end is not None and end <= max(begin, now):
        raise UsageError(
            f"{ends} is not after {'its start' if begin > now else 'now'}",
            where="--ends",
            remedy="give a later day, or none",
        )

    def make(events: list[Event]) -> Event:
        told = _last(events, name)
        if isinstance(told, CampaignEnded):
            raise UsageError(
                f"campaign {name!r} has ended on {told.at:%Y-%m-%d}",
                where="NAME",
                remedy="give it another name",
            )
        # Without a day it is on from now; one that is on already began before.
        same = (
            told is not None
            and told.ends == end
            and (told.starts == begin or (starts is None and told.starts <= now))
        )
        if same:
            raise ToldAlreadyError
        return CampaignStarted(at=now, name=name, starts=begin, ends=end)

    until = "until it is ended" if end is None else f"until {end:%Y-%m-%d %H:%M %Z}"
    for one in chosen(settings_from_context(ctx), track):
        new = _added(ctx, one, make)
        say(f"{one}: campaign {name} {_begins(begin, now)} {until}{'' if new else ', as was told'}")


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
        new = _added(ctx, one, make)
        after = f"; `spyre-ci pins decide {one}` says what follows" if new else " already"
        say(f"{one}: campaign {name} has ended{after}")


def _begins(begin: datetime, now: datetime) -> str:
    return f"is on from {begin:%Y-%m-%d %H:%M %Z}" if begin > now else "is on,"


def _last(events: list[Event], name: str) -> CampaignStarted | CampaignEnded | None:
    """What was told last of a campaign."""
    told = (one for one in reversed(events) if isinstance(one, CampaignStarted | CampaignEnded))
    return next((one for one in told if one.name == name), None)


def _added(ctx: typer.Context, track: str, make: Callable[[list[Event]], Event]) -> bool:
    try:
        add_event(track_folder(settings_from_context(ctx), track), make)
    except ToldAlreadyError:
        return False
    return True
