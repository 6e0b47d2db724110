"""What makes an upgrade due, and where each cause would take it; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ci.pins.events import URGENT, Requested
from ci.pins.record import Record, Table
from ci.pins.releases import Pinned, same_sha, same_version
from ci.pins.situation import Situation
from ci.pins.words import day, listed, named

# Why a cause has nowhere to go yet.
NO_RELEASE = "no-release"
NO_SUCH_RELEASE = "no-such-release"
ALREADY_PINNED = "already-pinned"


class Reason(Table):
    """Why something is decided: a word for programs, and words for people, which are Markdown as well."""

    code: str
    words: str


class Target(Table):
    """Where an upgrade goes.

    Attributes:
        version: of the release, or of the one that is built anew.
        sha: of the release, or of the commit with the mend; empty where nobody has told it.
        rebuild: whether it is the same version, built anew with a mend.
    """

    version: str
    sha: str
    rebuild: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What makes an upgrade due.

    Attributes:
        reason: in words.
        since: from when on.
        wants: where it would take the pin; None where there is nothing to go to.
        request: that it is; None for the cycle, and for what a release says itself.
        lacks: why it wants nothing.
    """

    reason: Reason
    since: datetime
    wants: Target | None
    request: Requested | None = None
    lacks: Reason | None = None

    @property
    def urgent(self) -> bool:
        """Whether no campaign holds it."""
        return self.request is not None and self.request.reason in URGENT


def causes(held: Situation, cycle_days: int) -> list[Cause]:
    """Everything that makes an upgrade due: the cycle, what releases say, requests in their order."""
    newest = held.newest
    return [
        *_cycle(held, newest, cycle_days),
        *_flagged(held),
        *(_asked(held, one, newest) for one in held.pending),
    ]


def next_due(held: Situation, cycle_days: int) -> datetime | None:
    """When the cycle is due, or was; None before the first upgrade."""
    return None if held.last is None else held.last + timedelta(days=cycle_days)


def release(record: Record) -> Target:
    """A recorded release as a target."""
    return Target(version=record.version, sha=record.sha)


def _cycle(held: Situation, newest: Record | None, cycle_days: int) -> Iterator[Cause]:
    due = next_due(held, cycle_days)
    if due is None:
        if newest is not None:
            words = "nothing is pinned yet"
            since = min(one.at for one in held.releases.ordered)
            yield Cause(reason=Reason(code="first", words=words), since=since, wants=release(newest))
        return
    if held.now < due:
        return
    age = (held.now - due).days + cycle_days
    words = f"the last upgrade is {age} days old, and {cycle_days} make the next one due"
    yield Cause(
        reason=Reason(code="cycle", words=words),
        since=due,
        wants=None if newest is None else release(newest),
        lacks=None if newest is not None else _no_release(held),
    )


def _flagged(held: Situation) -> Iterator[Cause]:
    """Flagged releases that were never reached: whoever went back from one is not sent there again."""
    newer = held.releases.newer(held.pin)
    for one in newer:
        if held.releases.place_of_record(one) > held.reached:
            for flag in one.flags:
                words = f"release {named(one.version)} is flagged {flag}"
                reason = Reason(code=f"{flag}-release", words=words)
                told = (it.at for it in held.flagged if it.sha == one.sha and flag in it.flags)
                yield Cause(reason=reason, since=min(told, default=one.at), wants=release(newer[-1]))


def _asked(held: Situation, request: Requested, newest: Record | None) -> Cause:
    find = _urgent if request.reason in URGENT else _wish
    wants, lacks = find(held, request, newest)
    wanted = "" if request.version is None else f" asks for {named(request.version)}"
    words = f"request {request.id} ({request.reason}){wanted}, told on {day(request.at)}"
    return Cause(
        reason=Reason(code=request.reason, words=words),
        since=request.at,
        wants=wants,
        request=request,
        lacks=lacks,
    )


def _wish(held: Situation, request: Requested, newest: Record | None) -> tuple[Target | None, Reason | None]:
    """Where a request goes that needs a release: to the one it names, else to the newest."""
    found = newest
    if request.version is not None or request.sha:
        found = _meant(held, request)
        if found is None:
            return None, _no_such(held, request)
        if held.pin and held.releases.place_of_record(found) <= held.releases.place_of(held.pin):
            words = (
                f"request {request.id} is for {named(found.version)}, and {named(held.pin.version)} "
                "is pinned already: withdraw it, or it is answered with the next upgrade"
            )
            return None, Reason(code=ALREADY_PINNED, words=words)
    return (None, _no_release(held)) if found is None else (release(found), None)


def _urgent(
    held: Situation, request: Requested, newest: Record | None
) -> tuple[Target | None, Reason | None]:
    """Where a bug goes: the release it names, the newest, or what is pinned, built anew with its mend."""
    pin = held.pin
    found = _meant(held, request)
    if found and not (pin and _is_pinned(held, found, pin, request)):
        return release(found), None
    lacks = None
    if request.version is not None and found is None:
        if pin and request.sha and same_version(request.version, pin.version):
            return Target(version=pin.version, sha=request.sha, rebuild=True), None
        lacks = _no_such(held, request)
    if newest is not None:
        return release(newest), lacks
    if pin is not None:
        return Target(version=pin.version, sha=request.sha, rebuild=True), lacks
    return None, _no_release(held)


def _meant(held: Situation, request: Requested) -> Record | None:
    """The release a request names; one that was taken back only by its SHA, or where it is pinned."""
    found = held.releases.named(request.version, request.sha)
    if found is None or found.yanked is None or request.sha:
        return found
    return found if held.pin and same_sha(found.sha, held.pin.sha) else None


def _is_pinned(held: Situation, found: Record, pin: Pinned, request: Requested) -> bool:
    """Whether a request means what is pinned; its version alone does, where that was built anew since."""
    if not same_version(found.version, pin.version):
        return False
    if request.sha:
        return same_sha(found.sha, pin.sha)
    return held.releases.place_of_record(found) <= held.releases.place_of(pin)


def _no_release(held: Situation) -> Reason:
    if held.pin is None:
        return Reason(code=NO_RELEASE, words="nothing is pinned, and no release is recorded")
    words = f"no release is newer than {named(held.pin.version)}, which is pinned"
    if newer := held.releases.newer(held.pin):
        there = listed(named(one.version) for one in newer)
        words += (
            f", but for {there}: that was gone back from, and a newer one or a request that names it leads on"
        )
    return Reason(code=NO_RELEASE, words=words)


def _no_such(held: Situation, request: Requested) -> Reason:
    wanted = request.version if request.version is not None else request.sha
    why = "which the ledger has no record of"
    if held.releases.named(request.version, request.sha):
        why = "which was taken back: it is taken only where its SHA is named"
    return Reason(code=NO_SUCH_RELEASE, words=f"request {request.id} is for {named(wanted)}, {why}")
