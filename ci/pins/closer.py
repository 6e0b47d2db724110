"""After a campaign: the newest release, or the next scheduled one where that is closer; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ci.pins.causes import Cause, Reason
from ci.pins.record import Record
from ci.pins.releases import number
from ci.pins.situation import Coming, Situation
from ci.pins.words import day, moment, named


class Waiting(NamedTuple):
    """What becomes of the one upgrade after a campaign.

    Attributes:
        until: when it is made at the latest; None: now, to the newest release.
        reason: in words.
    """

    until: datetime | None
    reason: Reason


def after_campaign(held: Situation, acting: Sequence[Cause], closer_days: int) -> Waiting | None:
    """Whether it is made now; None where the upgrade is none that a campaign has held.

    A campaign has held what was there at its end, unless an upgrade was made since.

    Args:
        held: what holds now.
        acting: the causes that make an upgrade.
        closer_days: within which a scheduled release may be waited for.
    """
    end = held.ended
    if end is None or (held.last is not None and held.last >= end):
        return None
    if not any(one.since < end and not one.urgent for one in acting):
        return None
    newest = held.newest
    if newest is None:
        return None
    # What is awaited no longer gives way to no other that comes still later.
    coming = next((one for one in held.coming if _days(end, one.on) >= 0 and _follows(one, newest)), None)
    if any(one.urgent for one in acting) or coming is None or not _closer(end, newest, coming, closer_days):
        words = f"the campaign ended on {day(end)}: one upgrade, to the newest release"
        return Waiting(None, Reason(code="campaign-ended", words=words))
    until = coming.on.astimezone(UTC) + timedelta(days=closer_days)
    if held.now >= until:
        words = (
            f"{named(coming.version)} was to come on {day(coming.on)} and has not: it is waited for no longer"
        )
        return Waiting(None, Reason(code="not-released", words=words))
    than = f"{named(newest.version)} of {day(newest.at)}"
    words = (
        f"{named(coming.version)} is scheduled for {day(coming.on)}, closer to the campaign's end on "
        f"{day(end)} than {than}: it is waited for until {moment(until)}"
    )
    return Waiting(until, Reason(code="scheduled", words=words))


def _follows(coming: Coming, newest: Record) -> bool:
    """Whether it would be the newest: a mend of an old line that is to come is none."""
    one, other = number(coming.version), number(newest.version)
    return one is None or other is None or one > other


def _closer(end: datetime, newest: Record, coming: Coming, closer_days: int) -> bool:
    after = _days(end, coming.on)
    return after <= closer_days and after < abs(_days(end, newest.at))


def _days(one: datetime, other: datetime) -> int:
    """From one day to another, in UTC."""
    return (other.astimezone(UTC).date() - one.astimezone(UTC).date()).days
