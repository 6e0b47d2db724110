"""Where the one upgrade goes that several causes make, and what becomes of each request by it; pure.

After a campaign it goes to the newest release, or waits for the next scheduled one where that is closer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ci.pins.causes import ALREADY_PINNED, NO_RELEASE, Cause, Reason, Target, release
from ci.pins.events import Requested
from ci.pins.record import Record
from ci.pins.releases import number
from ci.pins.situation import Coming, Situation
from ci.pins.words import day, listed, moment, named


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


class Settled(NamedTuple):
    """One upgrade.

    Attributes:
        target: where it goes.
        answers: ids of requests that are answered by it.
        supersedes: ids of requests that a later one replaces.
        reasons: what else there is to say.
    """

    target: Target
    answers: tuple[int, ...]
    supersedes: tuple[int, ...]
    reasons: tuple[Reason, ...]


def settled(held: Situation, found: Sequence[Cause], acting: Sequence[Cause], *, to_newest: bool) -> Settled:
    """Put one upgrade together.

    It goes to the newest of what is wanted, since that holds the mends of what came before it.

    Args:
        held: what holds now.
        found: every cause, with requests that wait.
        acting: causes that make it, each of which wants something.
        to_newest: whether it is the one upgrade after a campaign, which goes to the newest release.
    """
    wanted = [one.wants for one in acting if one.wants is not None]
    if to_newest:
        wanted += [release(held.newest)] if held.newest is not None else []
    # Of builds with a mend the last one that says which; the later commit is to hold the earlier mends.
    target = max(reversed(wanted), key=lambda one: (_place(held, one), bool(one.sha)))
    wishes = [one for one in found if one.request is not None and not one.urgent]
    served = [one for one in wishes if _served(held, one, target, acting)]
    back = held.pin is not None and _place(held, target) < held.releases.place_of(held.pin)
    # Who asked for what is pinned already has it with whatever is newer, and replaces nobody.
    last = None if back else next((one for one in reversed(served) if one.wants is not None), None)
    earlier = [one for one in served if back or (one.wants is not None and one is not last)]
    answered = [one for one in found if one.urgent or (one in served and one not in earlier)]
    said = _said(target, _ids(earlier), None if last is None else last.request)
    return Settled(target, _ids(answered), _ids(earlier), tuple(said))


def _ids(found: Sequence[Cause]) -> tuple[int, ...]:
    return tuple(sorted(one.request.id for one in found if one.request is not None))


def _place(held: Situation, target: Target) -> int:
    if target.rebuild and held.pin is not None:
        return held.releases.place_of(held.pin)
    return held.releases.place(target.version, target.sha, held.now)


def _served(held: Situation, cause: Cause, target: Target, acting: Sequence[Cause]) -> bool:
    """Whether nothing is left of a wish after this upgrade.

    A release serves who wants it or an older one, and replaces an earlier wish where a later one made it.
    Going back ends every wish for what there is: else it would lead straight forward again.
    """
    if held.pin is not None and _place(held, target) == held.releases.place_of(held.pin):
        return False
    if cause.lacks is not None:
        return cause.lacks.code in {ALREADY_PINNED, NO_RELEASE}
    if cause.wants is None:
        return False
    replaced = any(one.request is not None and not one.urgent for one in acting)
    return replaced or _place(held, cause.wants) <= _place(held, target)


def _said(target: Target, earlier: Sequence[int], last: Requested | None) -> list[Reason]:
    reasons = []
    if target.rebuild:
        mend = f"with the mend {named(target.sha)}" if target.sha else "with a mend that is still to be named"
        reasons.append(Reason(code="rebuild", words=f"{named(target.version)} is built anew {mend}"))
    if earlier:
        numbers = listed(map(str, earlier))
        many = f"request {numbers} is" if len(earlier) == 1 else f"requests {numbers} are"
        by = "this step back" if last is None else f"request {last.id}"
        reasons.append(Reason(code="superseded", words=f"{many} superseded by {by}"))
    return reasons
