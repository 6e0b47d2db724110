"""Whether a pin may change now, to what, and why; pure. docs/pins.md has it in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import AwareDatetime

from ci.config.pins_model import Pins, Suite
from ci.pins.causes import ALREADY_PINNED, NO_RELEASE, Cause, Reason, Target, causes, next_due, release, why
from ci.pins.compatibility import Unsupported, unsupported
from ci.pins.events import Event, Requested, Upgraded
from ci.pins.record import Record, Table
from ci.pins.releases import number, same_sha
from ci.pins.state import State, fold
from ci.pins.words import day, listed, moment, named

MAX_WHY = 300
UNCHANGED = why("unchanged", "the image is already pinned: nothing is deprecated")


class Decision(Table):
    """What is decided, and everything it was decided by.

    Attributes:
        action: `upgrade` now; `wait`, since something is due or asked for and cannot be yet; `none`.
        at: the moment it is decided for, in UTC.
        before: what is pinned, as `version@sha`; empty where nothing is.
        target: where an upgrade goes; None where there is none.
        reasons: of the action, the causes first.
        answers: ids of requests that this upgrade answers.
        supersedes: ids of requests that a later one replaces in it.
        pending: ids of requests that stay.
        campaign: the first that is on; None where none is.
        next_due: when the cycle is due, or was; None before the first upgrade.
        wait_until: when to decide again at the latest; None where nobody knows, or nothing is waited for.
        image_changed: whether the target is another image than what is pinned.
        deprecates: suites that the target cannot support.
        unclear: suites of which the record of the target does not tell.
    """

    action: Literal["upgrade", "wait", "none"]
    at: AwareDatetime
    before: str = ""
    target: Target | None = None
    reasons: tuple[Reason, ...]
    answers: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    campaign: str | None = None
    next_due: AwareDatetime | None = None
    wait_until: AwareDatetime | None = None
    image_changed: bool = False
    deprecates: tuple[Unsupported, ...] = ()
    unclear: tuple[Unsupported, ...] = ()


def decide(
    pins: Pins, records: Sequence[Record], events: Sequence[Event], *, now: datetime, suites: Sequence[Suite]
) -> Decision:
    """Decide for a track.

    Args:
        pins: the settings of the protocol.
        records: every release of the track.
        events: of the track, in the order they were told.
        now: the moment, aware of its time zone.
        suites: of the track.

    Raises:
        BadFileError: two different requests have one id.
    """
    state = fold(records, events, now=now)
    found = causes(state, pins.cycle_days)
    acting = _acting(state, found)
    if not acting:
        return _not_now(pins, state, found)
    reasons = [one.reason for one in acting] + [one.lacks for one in acting if one.lacks is not None]
    waiting = _after_campaign(state, acting, pins.closer_days)
    if waiting is not None:
        until, reason = waiting
        reasons.append(reason)
        if until is not None:
            return Decision(action="wait", wait_until=until, **_common(pins, state, reasons))
    target = _target(state, acting, to_newest=waiting is not None)
    answers, supersedes, last = _requests(state, found, acting, target)
    changed = state.pin is None or not same_sha(state.pin.sha, target.sha)
    lost = _lost(state, target, suites) if changed else ()
    reasons += [*_said(target, supersedes, last), *([] if changed else [UNCHANGED])]
    return Decision(
        action="upgrade",
        target=target,
        answers=answers,
        supersedes=supersedes,
        image_changed=changed,
        deprecates=tuple(one for one in lost if one.certain),
        unclear=tuple(one for one in lost if not one.certain),
        **_common(pins, state, reasons, done={*answers, *supersedes}),
    )


def as_event(decision: Decision, at: datetime) -> Upgraded:
    """The event of a decision that is carried out.

    Raises:
        ValueError: it is not to upgrade.
    """
    if decision.target is None:
        raise ValueError("there is no upgrade in this decision")
    return Upgraded(
        at=at,
        before=decision.before,
        version=decision.target.version,
        sha=decision.target.sha,
        reasons=tuple(one.words for one in decision.reasons),
        answers=decision.answers,
        supersedes=decision.supersedes,
        image_changed=decision.image_changed,
        deprecated=tuple(one.suite for one in decision.deprecates),
    )


def _acting(state: State, found: Sequence[Cause]) -> list[Cause]:
    """The causes that make an upgrade now: of requests that a campaign holds only the last one counts."""
    able = [one for one in found if one.wants is not None and (one.urgent or not state.campaigns)]
    wishes = [one for one in able if one.wish]
    return [one for one in able if one not in wishes[:-1]]


def _not_now(pins: Pins, state: State, found: Sequence[Cause]) -> Decision:
    """Nothing can be done now: something waits, or there is nothing to do."""
    if not found:
        due = next_due(state, pins.cycle_days)
        words = "no release is recorded" if due is None else f"the next upgrade is due on {moment(due)}"
        return Decision(action="none", **_common(pins, state, [why("not-due", words)]))
    lacks = dict.fromkeys(one.lacks for one in found if one.lacks is not None)
    ends = [one.planned for one in state.campaigns if one.planned is not None]
    until = max(ends) if ends and len(ends) == len(state.campaigns) else None
    reasons = [*(one.reason for one in found), *lacks]
    return Decision(action="wait", wait_until=until, **_common(pins, state, reasons))


def _after_campaign(
    state: State, acting: Sequence[Cause], closer_days: int
) -> tuple[datetime | None, Reason] | None:
    """What a campaign held goes to the newest release, or waits for a scheduled one closer to its end.

    Until when it waits (None: it is made now), and why; None where no campaign held it. A campaign held what
    was there at its end, unless an upgrade was made since.
    """
    end, newest = state.ended, state.newest
    if end is None or newest is None or (state.last is not None and state.last >= end):
        return None
    if not any(one.since < end and not one.urgent for one in acting):
        return None
    # What is awaited no longer gives way to no other that comes still later.
    later = (
        (on, version) for on, version in state.coming if _days(end, on) >= 0 and _follows(version, newest)
    )
    on, version = next(later, (None, ""))
    after = closer_days + 1 if on is None else _days(end, on)
    closer = after <= closer_days and after < abs(_days(end, newest.at))
    if on is None or not closer or any(one.urgent for one in acting):
        words = f"the campaign ended on {day(end)}: one upgrade, to the newest release"
        return None, why("campaign-ended", words)
    until = on.astimezone(UTC) + timedelta(days=closer_days)
    if state.now >= until:
        words = f"{named(version)} was due on {day(on)} but was not released: it is no longer waited for"
        return None, why("not-released", words)
    words = (
        f"{named(version)} is scheduled for {day(on)}, closer to the campaign's end on {day(end)} than "
        f"{named(newest.version)} of {day(newest.at)}: the upgrade waits for it until {moment(until)}"
    )
    return until, why("scheduled", words)


def _follows(version: str, newest: Record) -> bool:
    """Whether a scheduled version would be the newest: a fix of an old line is not."""
    one, other = number(version), number(newest.version)
    return one is None or other is None or one > other


def _days(one: datetime, other: datetime) -> int:
    """From one day to another, in UTC."""
    return (other.astimezone(UTC).date() - one.astimezone(UTC).date()).days


def _target(state: State, acting: Sequence[Cause], *, to_newest: bool) -> Target:
    """The newest of what is wanted, since that holds the fixes of what came before it."""
    wanted = [one.wants for one in acting if one.wants is not None]
    if to_newest and state.newest is not None:
        wanted.append(release(state.newest))
    # Of rebuilds the last one that names its fix; the later commit is to hold the earlier fixes.
    return max(reversed(wanted), key=lambda one: (_place(state, one), bool(one.sha)))


def _requests(
    state: State, found: Sequence[Cause], acting: Sequence[Cause], target: Target
) -> tuple[tuple[int, ...], tuple[int, ...], Requested | None]:
    """The requests that an upgrade answers, those it supersedes, and the one that replaces them."""
    served = [one for one in found if one.wish and _served(state, one, target, acting)]
    back = state.pin is not None and _place(state, target) < state.releases.place_of(state.pin)
    # A request for what is pinned already is met by whatever is newer, and replaces nothing.
    last = None if back else next((one for one in reversed(served) if one.wants is not None), None)
    earlier = [one for one in served if back or (one.wants is not None and one is not last)]
    answered = [one for one in found if one.urgent or (one in served and one not in earlier)]
    return _ids(answered), _ids(earlier), None if last is None else last.request


def _ids(found: Sequence[Cause]) -> tuple[int, ...]:
    return tuple(sorted(one.request.id for one in found if one.request is not None))


def _place(state: State, target: Target) -> int:
    if target.rebuild and state.pin is not None:
        return state.releases.place_of(state.pin)
    return state.releases.place(target.version, target.sha, state.now)


def _served(state: State, cause: Cause, target: Target, acting: Sequence[Cause]) -> bool:
    """Whether nothing is left of a wish after this upgrade.

    A release serves whoever wants it or an older one, and replaces an earlier wish where a later one made it.
    A step back ends every wish for what there is: else it would lead straight forward again.
    """
    if state.pin is not None and _place(state, target) == state.releases.place_of(state.pin):
        return False
    if cause.lacks is not None:
        return cause.lacks.code in {ALREADY_PINNED, NO_RELEASE}
    if cause.wants is None:
        return False
    return any(one.wish for one in acting) or _place(state, cause.wants) <= _place(state, target)


def _said(target: Target, earlier: Sequence[int], last: Requested | None) -> Iterator[Reason]:
    if target.rebuild:
        mend = f"with the fix {named(target.sha)}" if target.sha else "with a fix that is still to be named"
        yield why("rebuild", f"{named(target.version)} is rebuilt {mend}")
    if earlier:
        numbers = listed(map(str, earlier))
        many = f"request {numbers} is" if len(earlier) == 1 else f"requests {numbers} are"
        by = "this downgrade" if last is None else f"request {last.id}"
        yield why("superseded", f"{many} superseded by {by}")


def _lost(state: State, target: Target, suites: Sequence[Suite]) -> tuple[Unsupported, ...]:
    """What the target does not support, or perhaps not; a build without a record tells nothing."""
    record = None if target.rebuild else state.releases.named(target.version, target.sha)
    pin = state.pin
    # A rebuild has no record: its calls are those of the version it was built of.
    before = state.releases.record_of(pin) or state.releases.named(pin.version) if pin else None
    return () if record is None else unsupported(suites, before, record)


def _common(
    pins: Pins, state: State, reasons: Sequence[Reason], done: AbstractSet[int] = frozenset()
) -> dict[str, Any]:
    """What every decision says."""
    return {
        "at": state.now,
        "before": state.pin.label if state.pin else "",
        "reasons": (*reasons, *_notes(state)),
        "pending": tuple(one.id for one in state.pending if one.id not in done),
        "campaign": state.campaigns[0].name if state.campaigns else None,
        "next_due": next_due(state, pins.cycle_days),
    }


def _notes(state: State) -> Iterator[Reason]:
    """What is said beside every decision: a pin that was taken back, a campaign, a clock that went back."""
    pinned = state.releases.record_of(state.pin)
    if pinned is not None and pinned.yanked is not None:
        # Whether that is a bug is for people to say: they ask for an upgrade, or do not.
        said = f" ({named(pinned.yanked, MAX_WHY)})" if pinned.yanked else ""
        back = f"{named(pinned.version)}, which is pinned, was withdrawn{said}"
        yield why("taken-back", f"{back}: if that is a bug for you, request an upgrade")
    if state.campaigns:
        names = listed(named(one.name) for one in state.campaigns)
        on = f"campaign {names} is active" if len(state.campaigns) == 1 else f"campaigns {names} are active"
        yield why("campaign", f"{on}: only bugs and regressions change the pin")
    if state.ahead is not None:
        there = f"the ledger has an event of {moment(state.ahead.at)}"
        if state.last is not None and state.last > state.now:
            there = f"the last upgrade, from which the cycle counts, was at {moment(state.last)}"
        yield why("clock", f"it is {moment(state.now)} on this machine, but {there}: check the clock")
