"""A track whose day 0 is 1 September 2026: releases and events by the day, and decisions on it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from ci.config.pins_model import Pins, Suite
from ci.pins.decide import Decision, decide
from ci.pins.events import (
    CampaignEnded,
    CampaignStarted,
    Event,
    Flagged,
    Reason,
    Requested,
    Scheduled,
    TakenBack,
    Upgraded,
    Withdrawn,
)
from ci.pins.record import Flag, Record, Signature

PINS = Pins(cycle_days=56, closer_days=14)


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
    signatures: dict[str, Signature | None] | None = None,
) -> Record:
    found = {"torch": version} if packages is None else packages
    return Record(
        track="torch", version=version, sha=sha(version, build), source="registry.example/torch",
        released_at=on(day), recorded_at=on(day), flags=flags, packages=found,
        direct={"torch": found.get("torch"), "numpy": found.get("numpy")}, signatures=signatures or {},
    )  # fmt: skip


def pinned(version: str, day: float, build: int = 0, answers: tuple[int, ...] = (), mend: str = "") -> Event:
    built = mend or sha(version, build)
    return Upgraded(at=on(day), version=version, sha=built, reasons=("as decided",), answers=answers)


def asked(
    number: int, reason: Reason, day: float, version: str | None = None, *, mend: str = "", text: str = "why"
) -> Event:
    return Requested(at=on(day), id=number, reason=reason, text=text, version=version, sha=mend)


def withdrawn(number: int, day: float) -> Event:
    return Withdrawn(at=on(day), id=number)


def scheduled(version: str, day: float | None, told: float = 0) -> Event:
    return Scheduled(at=on(told), version=version, on=None if day is None else on(day))


def campaign(name: str, starts: float, ends: float | None, told: float = 0) -> Event:
    return CampaignStarted(at=on(told), name=name, starts=on(starts), ends=None if ends is None else on(ends))


def ended(name: str, day: float) -> Event:
    return CampaignEnded(at=on(day), name=name)


def taken_back(day: float, record: Record, text: str | None = "it is broken") -> Event:
    return TakenBack(at=on(day), version=record.version, sha=record.sha, text=text)


def flagged(day: float, record: Record, flag: Flag = "major") -> Event:
    return Flagged(at=on(day), version=record.version, sha=record.sha, flags=(flag,))


def decided(
    records: Sequence[Record],
    events: Sequence[Event],
    day: float,
    pins: Pins = PINS,
    suites: Sequence[Suite] = (),
) -> Decision:
    return decide(pins, records, events, now=on(day), suites=suites)


def went(decision: Decision) -> str:
    """Where an upgrade goes, such as `2.13.0` or `2.12.0 rebuild`; else the action."""
    if decision.target is None:
        return decision.action
    return decision.target.version + (" rebuild" if decision.target.rebuild else "")


OLD, NEW = release("2.12.0", -10), release("2.13.0", 20)
BOTH = [OLD, NEW]
PIN = pinned("2.12.0", 0)
MEND = "abcdef0123456789"
# A campaign from day 20 to day 60.
WINDOW = campaign("cards", 20, 60)
