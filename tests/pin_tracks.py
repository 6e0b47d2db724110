"""A track whose day 0 is 1 September 2026: releases and events by the day, and decisions on it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from ci.pins.events import (
    CampaignEnded,
    CampaignStarted,
    Event,
    Reason,
    Requested,
    Scheduled,
    Upgraded,
    Withdrawn,
)
from ci.pins.protocol import Decision, Policy, decide
from ci.pins.record import Flag, Parameter, Record
from ci.pins.support import Unsupported

POLICY = Policy(cycle_days=56, closer_days=14)


def on(days: float) -> datetime:
    return datetime(2026, 9, 1, tzinfo=UTC) + timedelta(days=days)


def sha(version: str, build: int = 0) -> str:
    return hashlib.sha256(f"{version}/{build}".encode()).hexdigest()


def release(
    version: str,
    day: float,
    *flags: Flag,
    build: int = 0,
    packages: dict[str, str] | None = None,
    signatures: dict[str, tuple[Parameter, ...] | None] | None = None,
) -> Record:
    found = {"torch": version} if packages is None else packages
    return Record(
        track="torch", version=version, sha=sha(version, build), source="registry.example/torch",
        released_at=on(day), recorded_at=on(day), flags=flags, packages=found,
        direct={"torch": found.get("torch"), "numpy": found.get("numpy")}, signatures=signatures or {},
    )  # fmt: skip


def pinned(version: str, day: float, build: int = 0, answers: tuple[int, ...] = ()) -> Upgraded:
    return Upgraded(
        at=on(day), version=version, sha=sha(version, build), reasons=("as decided",), answers=answers
    )


def asked(
    number: int, reason: Reason, day: float, version: str | None = None, *, mend: str = "", text: str = "why"
) -> Requested:
    return Requested(at=on(day), id=number, reason=reason, text=text, version=version, sha=mend)


def withdrawn(number: int, day: float) -> Withdrawn:
    return Withdrawn(at=on(day), id=number)


def scheduled(version: str, day: float | None, told: float = 0) -> Scheduled:
    return Scheduled(at=on(told), version=version, on=None if day is None else on(day))


def campaign(name: str, starts: float, ends: float | None, told: float = 0) -> CampaignStarted:
    return CampaignStarted(at=on(told), name=name, starts=on(starts), ends=None if ends is None else on(ends))


def ended(name: str, day: float) -> CampaignEnded:
    return CampaignEnded(at=on(day), name=name)


def everything(_: Record | None, __: Record) -> tuple[Unsupported, ...]:
    return ()


def decided(
    records: Sequence[Record], events: Sequence[Event], day: float, policy: Policy = POLICY
) -> Decision:
    return decide(policy, records, events, now=on(day), supports=everything)


def codes(decision: Decision) -> list[str]:
    return [one.code for one in decision.reasons]


def words(decision: Decision) -> str:
    return "; ".join(one.words for one in decision.reasons)


def went(decision: Decision) -> str | None:
    """Action and version in one word, such as `upgrade 2.13.0`."""
    if decision.target is None:
        return decision.action
    return f"{decision.action} {decision.target.version}" + (" rebuild" if decision.target.rebuild else "")


OLD, NEW = release("2.12.0", -10), release("2.13.0", 20)
BOTH = [OLD, NEW]
PIN = pinned("2.12.0", 0)
MEND = "abcdef0123456789"
# A campaign from day 20 to day 60.
WINDOW = campaign("cards", 20, 60)
