"""`spyre-ci pins status|decide`: how tracks stand, and what the protocol decides and why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.config.load import Settings
from ci.core.errors import EXIT_TEST_FAILED
from ci.pins.assumptions import Assumption, assumptions
from ci.pins.change import unmerged
from ci.pins.protocol import Decision
from ci.pins.situation import Situation, situation
from ci.pins.tracks import Followed, Names, chosen, clock, decided, followed, moment_of, say
from ci.pins.words import day, moment
from test_selection.files import document_text


def status(ctx: typer.Context, tracks: Names = None, as_json: Json = False) -> None:
    """Say what each track is pinned at, what was asked for, and what is assumed and no longer holds.

    Example: spyre-ci pins status torch
    """
    settings, now = settings_from_context(ctx), clock()
    found = {name: _Standing(settings, name, now) for name in chosen(settings, tracks)}
    if as_json:
        _print("pin-status", {name: one.content() for name, one in found.items()})
        return
    for name, one in found.items():
        for line in one.lines():
            say(line if line.startswith("  ") else f"{name}: {line}")


def decide(
    ctx: typer.Context,
    tracks: Names = None,
    at: Annotated[
        str | None, typer.Option("--at", help="What would be decided on a day or at a moment; none: now.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="End with 1 where an upgrade is due.")] = False,
    as_json: Json = False,
) -> None:
    """Say for each track whether its pin may change now, to what, and why; nothing is changed.

    Example: spyre-ci pins decide --check
    """
    settings = settings_from_context(ctx)
    now = clock() if at is None else moment_of(at, "--at")
    found = {}
    for name in chosen(settings, tracks):
        track = followed(settings, name)
        found[name] = decided(settings, track if at is None else track.until(now), now=now)
    if as_json:
        _print("pin-decisions", {name: one.model_dump(mode="json") for name, one in found.items()})
    else:
        for name, one in found.items():
            for line in decision_lines(one):
                say(line if line.startswith("  ") else f"{name}: {line}")
    if check and any(one.action == "upgrade" for one in found.values()):
        raise typer.Exit(EXIT_TEST_FAILED)


def decision_lines(decision: Decision) -> Iterator[str]:
    """A decision for people: the action, then why; pure."""
    target = decision.target
    if target is not None:
        anew = ", built again" if target.rebuild else ""
        yield f"upgrade to {target.version}{anew}{f' ({target.sha[:12]})' if target.sha else ''}"
    else:
        until = f", until {moment(decision.wait_until)} at the latest" if decision.wait_until else ""
        yield f"wait{until}" if decision.action == "wait" else "nothing to do"
    for reason in decision.reasons:
        yield f"  {reason.code}: {reason.words}"
    told = {"answers": decision.answers, "supersedes": decision.supersedes, "stays pending": decision.pending}
    for what, ids in told.items():
        if ids:
            yield f"  {what}: {', '.join(f'request {one}' for one in ids)}"
    for one in decision.deprecates:
        yield f"  deprecates {one.suite}: {'; '.join(one.why)}"
    for one in decision.unclear:
        yield f"  perhaps not supported: {one.suite}: {'; '.join(one.why)}"


class _Standing:
    """How a track stands."""

    def __init__(self, settings: Settings, name: str, now: datetime) -> None:
        self._one: Followed = followed(settings, name)
        self._held: Situation = situation(self._one.records, self._one.events, now=now)
        self._decision = decided(settings, self._one, now=now)
        self._place = self._one.standing()
        self._unmerged = unmerged(settings, name)
        self._assumptions: tuple[Assumption, ...] = assumptions(
            self._one.records, self._one.events, cycle_days=settings.model.pins.cycle_days, now=now
        )

    def lines(self) -> Iterator[str]:
        """For people."""
        held, one = self._held, self._one
        pin = "nothing was upgraded yet"
        if held.pin is not None:
            due = ""
            if (at := self._decision.next_due) is not None:
                due = f"; the next {'was' if at < held.now else 'is'} due on {day(at)}"
            pin = f"{held.pin.version} since {day(held.pin.since)}{due}"
        yield pin
        if one.pin is not None:
            yield f"  its place: {self._place} at {one.pin.key} in {one.pin.file}"
        if held.pin is not None and self._place not in {None, held.pin.version}:
            yield (
                f"  NOTE: the last upgrade was to {held.pin.version}, and its place has {self._place}: "
                "an upgrade was not merged, or somebody changed it by hand"
            )
        taken_back = (one for one in self._decision.reasons if one.code == "taken-back")
        yield from (f"  NOTE: {reason.words}" for reason in taken_back)
        yield from [f"  deprecated on it: {', '.join(held.deprecated)}"] if held.deprecated else []
        newest = held.releases.last
        yield f"  releases: {len(one.records)}" + (
            f", the newest {newest.version} of {day(newest.at)}" if newest else ""
        )
        yield from (f"  {line.strip()}" for line in list(decision_lines(self._decision))[:1])
        yield from self._ahead()

    def _ahead(self) -> Iterator[str]:
        """What was asked for, what is on, and what is to come."""
        held = self._held
        for request in held.pending:
            yield f"  request {request.id} ({request.reason}): {request.text}"
        for campaign in held.campaigns:
            yield f"  campaign {campaign.name} is on" + (
                f" until {moment(campaign.planned)}" if campaign.planned else ""
            )
        for branch in self._unmerged:
            yield f"  {branch} holds an upgrade that is not merged"
        for coming in held.coming:
            yield f"  {coming.version} is to come on {day(coming.on)}"
        for assumed in self._assumptions:
            yield f"  {assumed.line}"

    def content(self) -> dict[str, Any]:
        """For programs."""
        held, pin = self._held, self._held.pin
        return {
            "pinned": pin and {"version": pin.version, "sha": pin.sha, "since": _iso(pin.since)},
            "place": self._place,
            "releases": len(self._one.records),
            "deprecated": list(held.deprecated),
            "newest": held.releases.last and held.releases.last.version,
            "requests": [one.model_dump(mode="json", exclude={"kind"}) for one in held.pending],
            "campaigns": [{"name": one.name, "ends": _iso(one.planned)} for one in held.campaigns],
            "scheduled": [{"version": one.version, "on": _iso(one.on)} for one in held.coming],
            "unmerged": self._unmerged,
            "assumptions": [
                {"name": one.name, "holds": one.holds, "seen": one.seen} for one in self._assumptions
            ],
            "decision": self._decision.model_dump(mode="json"),
        }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _print(kind: str, tracks: dict[str, Any]) -> None:
    typer.echo(document_text(kind, {"tracks": tracks}))
