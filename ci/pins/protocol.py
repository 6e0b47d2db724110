"""Whether a pin may change now, to what, and why; pure. docs/pins.md has it in plain words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from ci.pins.causes import Cause, Reason, Target, causes, next_due
from ci.pins.events import Event, Upgraded
from ci.pins.record import Record, Table
from ci.pins.releases import same_sha
from ci.pins.resolution import after_campaign, settled
from ci.pins.situation import Situation, situation
from ci.pins.support import Unsupported
from ci.pins.words import listed, moment, named

# What a release cannot support, coming from what is pinned now.
Supports = Callable[[Record | None, Record], Sequence[Unsupported]]


MAX_WHY = 300
UNCHANGED = Reason(
    code="unchanged", words="the image is the one that is pinned already: nothing is deprecated"
)


class Policy(Table):
    """The settings of the protocol.

    Attributes:
        cycle_days: days after the last upgrade on which the next is due.
        closer_days: days after the end of a campaign within which a scheduled release may be waited for,
            and days after its own day for which it is.
    """

    cycle_days: int = Field(default=56, ge=1)
    closer_days: int = Field(default=14, ge=0)


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
        campaign: that is on; of several the first, the reasons name each; None: no campaign is on.
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
    policy: Policy, records: Sequence[Record], events: Sequence[Event], *, now: datetime, supports: Supports
) -> Decision:
    """Decide for a track.

    Args:
        policy: its settings.
        records: every release of the track's ledger.
        events: of the track, in the order they were told.
        now: the moment, aware of its time zone.
        supports: what a release cannot support; asked for the target only.

    Raises:
        BadFileError: two requests have one id.
    """
    held = situation(records, events, now=now)
    found = causes(held, policy.cycle_days)
    acting = _acting(held, found)
    if not acting:
        return _not_now(policy, held, found)
    reasons = [one.reason for one in acting] + [one.lacks for one in acting if one.lacks is not None]
    waiting = after_campaign(held, acting, policy.closer_days)
    if waiting is not None:
        reasons.append(waiting.reason)
    if waiting is not None and waiting.until is not None:
        return Decision(action="wait", wait_until=waiting.until, **_common(policy, held, reasons))
    result = settled(held, found, acting, to_newest=waiting is not None)
    changed = held.pin is None or not same_sha(held.pin.sha, result.target.sha)
    lost = _lost(held, result.target, supports) if changed else ()
    return Decision(
        action="upgrade",
        target=result.target,
        answers=result.answers,
        supersedes=result.supersedes,
        image_changed=changed,
        deprecates=tuple(one for one in lost if one.certain),
        unclear=tuple(one for one in lost if not one.certain),
        **_common(
            policy,
            held,
            [*reasons, *result.reasons, *([] if changed else [UNCHANGED])],
            done={*result.answers, *result.supersedes},
        ),
    )


def as_event(decision: Decision, at: datetime) -> Upgraded:
    """What the diary is told once a decision is carried out.

    Args:
        decision: to upgrade.
        at: when it is carried out.

    Raises:
        ValueError: it is to do anything else.
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


def _acting(held: Situation, found: Sequence[Cause]) -> list[Cause]:
    """The causes that make an upgrade now: of requests that no campaign spares only the last one counts."""
    able = [one for one in found if one.wants is not None and (one.urgent or not held.campaigns)]
    wishes = [one for one in able if one.request is not None and not one.urgent]
    return [one for one in able if one not in wishes[:-1]]


def _not_now(policy: Policy, held: Situation, found: Sequence[Cause]) -> Decision:
    """Nothing can be made now: something waits, or there is nothing to do."""
    if found:
        reasons = [one.reason for one in found]
        for one in found:
            if one.lacks is not None and one.lacks not in reasons:
                reasons.append(one.lacks)
        ends = [one.planned for one in held.campaigns if one.planned is not None]
        until = max(ends) if ends and len(ends) == len(held.campaigns) else None
        return Decision(action="wait", wait_until=until, **_common(policy, held, reasons))
    due = next_due(held, policy.cycle_days)
    words = "no release is recorded" if due is None else f"the next upgrade is due on {moment(due)}"
    return Decision(action="none", **_common(policy, held, [Reason(code="not-due", words=words)]))


def _lost(held: Situation, target: Target, supports: Supports) -> tuple[Unsupported, ...]:
    """What the target cannot support, or perhaps cannot; a build that nobody has recorded tells nothing."""
    record = None if target.rebuild else held.releases.named(target.version, target.sha)
    # Nobody has recorded a build with a mend: calls are those of the version it was built of.
    pin = held.pin
    before = held.releases.named(pin.version, pin.sha) or held.releases.named(pin.version) if pin else None
    return () if record is None else tuple(supports(before, record))


def _common(
    policy: Policy, held: Situation, reasons: Sequence[Reason], done: AbstractSet[int] = frozenset()
) -> dict[str, Any]:
    """What every decision says."""
    return {
        "at": held.now,
        "before": held.pin.label if held.pin else "",
        "reasons": (*reasons, *_taken_back(held), *_campaign(held), *_clock(held)),
        "pending": tuple(one.id for one in held.pending if one.id not in done),
        "campaign": held.campaigns[0].name if held.campaigns else None,
        "next_due": next_due(held, policy.cycle_days),
    }


def _taken_back(held: Situation) -> list[Reason]:
    """It is for people to say whether that is a bug for them: they ask for an upgrade, or do not."""
    pinned = held.releases.named(held.pin.version, held.pin.sha) if held.pin else None
    if pinned is None or pinned.yanked is None:
        return []
    why = f" ({named(pinned.yanked, MAX_WHY)})" if pinned.yanked else ""
    words = (
        f"{named(pinned.version)}, which is pinned, was taken back{why}: if that is a bug here, request one"
    )
    return [Reason(code="taken-back", words=words)]


def _campaign(held: Situation) -> list[Reason]:
    if not held.campaigns:
        return []
    names = listed(named(one.name) for one in held.campaigns)
    on = f"campaign {names} is on" if len(held.campaigns) == 1 else f"campaigns {names} are on"
    return [Reason(code="campaign", words=f"{on}: nothing but bugs and regressions changes the pin")]


def _clock(held: Situation) -> list[Reason]:
    """A clock that went backwards is said: by it nothing is made twice, but what is due may come late."""
    if held.ahead is None:
        return []
    there = f"something was told at {moment(held.ahead.at)}"
    if held.last is not None and held.last > held.now:
        there = f"the last upgrade was at {moment(held.last)}, from when the cycle counts"
    return [Reason(code="clock", words=f"it is {moment(held.now)} here, and {there}: check the clock")]
