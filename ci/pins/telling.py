"""What people tell of a track, checked and made an event of; told again, the event that is there; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from ci.core.errors import UsageError
from ci.core.text import escaped, one_line
from ci.pins.events import (
    MAX_NAME,
    MAX_TEXT,
    CampaignEnded,
    CampaignStarted,
    Event,
    Reason,
    Requested,
    Scheduled,  # fmt: skip
    Upgraded,
    Withdrawn,
    next_id,
    within_years,
)
from ci.pins.place import VERSION
from ci.pins.state import fold
from ci.pins.words import day, moment


def moment_of(text: str, flag: str) -> datetime:
    """A day or a moment in ISO 8601; without a time zone it is UTC.

    Raises:
        UsageError: it is none, or none that the protocol can count with.
    """
    try:
        found = datetime.fromisoformat(text)
        return within_years(found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except ValueError as error:
        said = f"{escaped(text)[:80]!r} is not a day of the years 1970 to 9000"
        raise UsageError(said, where=flag, remedy="give one such as 2026-12-31") from error


def version_of(text: str, flag: str) -> str:
    """A version, as releases are called.

    Raises:
        UsageError: it is none.
    """
    if not VERSION.fullmatch(text):
        remedy = "give the name of the release, such as 2.10.0"
        raise UsageError(f"{text!r:.140} is not a version", where=flag, remedy=remedy)
    return text


def requested(
    events: Sequence[Event], now: datetime, *, reason: Reason | None, text: str, version: str | None, sha: str
) -> Requested:
    """A request for an upgrade.

    Raises:
        UsageError: it says no reason, or its SHA is none.
    """
    sha, text = sha.lower().removeprefix("sha256:"), one_line(text, MAX_TEXT)
    if reason is None or not text.strip():
        raise UsageError(
            "a request needs a reason", where="REASON", remedy="give REASON, and an explanation with --text"
        )
    if sha and not re.fullmatch(r"[0-9a-f]{7,64}", sha):
        raise UsageError(f"{sha!r:.90} is not a SHA", where="--sha", remedy="give 7 to 64 hexadecimal digits")
    version = version and version_of(version, "--version")
    made = Requested(at=now, id=next_id(events), reason=reason, text=text, version=version, sha=sha)
    told = fold((), events, now=now).pending
    return next((one for one in told if one.model_copy(update={"at": now, "id": made.id}) == made), made)


def withdrawn(events: Sequence[Event], now: datetime, *, number: int, text: str) -> Withdrawn | Upgraded:
    """A request is taken back; one that was answered already is what answered it.

    Raises:
        UsageError: there is no such request.
    """
    known = [one.id for one in events if isinstance(one, Requested)]
    if number not in known:
        remedy = f"known: {', '.join(map(str, known)) or 'none'}"
        raise UsageError(f"there is no request {number}", where="--withdraw", remedy=remedy)
    for one in events:
        if isinstance(one, Withdrawn) and one.id == number:
            return one
        if isinstance(one, Upgraded) and number in {*one.answers, *one.supersedes}:
            return one
    return Withdrawn(at=now, id=number, text=one_line(text, MAX_TEXT))


def scheduled(events: Sequence[Event], now: datetime, *, version: str, due: str) -> Scheduled:
    """A release is due on a day, or `never`."""
    on = None if due == "never" else moment_of(due, "--due")
    told = [one for one in events if isinstance(one, Scheduled) and one.version == version]
    return told[-1] if told and told[-1].on == on else Scheduled(at=now, version=version, on=on)


def adopted(events: Sequence[Event], now: datetime, *, version: str, sha: str, since: str) -> Upgraded:
    """What is pinned already, as the first upgrade.

    Raises:
        UsageError: the day is in the future, or something else was pinned.
    """
    at = moment_of(since, "--pinned-since")
    last = next((one for one in reversed(events) if isinstance(one, Upgraded)), None)
    wrong = f"{day(at)} is in the future" if at > now else ""
    if last is not None and (last.version, last.at) != (version, at):
        wrong = f"the track has been at {last.version} since {day(last.at)}"
    if wrong:
        remedy = "give the day it was pinned; later upgrades are recorded by `spyre-ci pins apply`"
        raise UsageError(wrong, where="--pinned-since", remedy=remedy)
    return last or Upgraded(
        at=at, version=version, sha=sha, reasons=("it was pinned before the ledger began",)
    )


def campaign(
    events: Sequence[Event], now: datetime, *, name: str, starts: str | None, ends: str | None, over: bool
) -> CampaignStarted | CampaignEnded:
    """A campaign begins, is moved (what is not given stays), or is over.

    Raises:
        UsageError: it has ended already, would end before it begins, or is over and was never told.
    """
    if not name or len(name) > MAX_NAME:
        raise UsageError(f"has {len(name)} characters", where="NAME", remedy=f"give 1 to {MAX_NAME}")
    told = [one for one in events if isinstance(one, CampaignStarted | CampaignEnded) and one.name == name]
    last = told[-1] if told else None
    if over and last is None:
        names = ", ".join(sorted({one.name for one in events if isinstance(one, CampaignStarted)})) or "none"
        raise UsageError(f"there is no campaign {name!r}", where="NAME", remedy=f"known: {names}")
    if isinstance(last, CampaignEnded):
        if over:
            return last
        ended = f"campaign {name!r} ended on {day(last.at)}"
        raise UsageError(ended, where="NAME", remedy="give it another name")
    if over:
        return CampaignEnded(at=now, name=name)
    begin = moment_of(starts, "--starts") if starts else last.starts if last else now
    end = moment_of(ends, "--ends") if ends else last.ends if last else None
    if end is not None and end <= max(begin, now):
        after = "its start" if begin > now else "now"
        raise UsageError(f"{moment(end)} is not after {after}", where="--ends", remedy="give a later day")
    same = last is not None and (last.starts, last.ends) == (begin, end)
    return last if last and same else CampaignStarted(at=now, name=name, starts=begin, ends=end)
