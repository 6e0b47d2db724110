"""What makes an upgrade due, and where each cause would take the pin; pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from ci.pins.events import URGENT, Requested
from ci.pins.record import Record, Table
from ci.pins.releases import Pinned, same_sha, same_version
from ci.pins.state import State
from ci.pins.words import day, listed, named

# Why a cause has nowhere to go yet.
NO_RELEASE = "no-release"
NO_SUCH_RELEASE = "no-such-release"
ALREADY_PINNED = "already-pinned"


class Reason(Table):
    """Why something is decided: a code for programs, and words for people that are Markdown as well."""

    code: str
    words: str


def why(code: str, words: str) -> Reason:
    """A reason."""
    return Reason(code=code, words=words)


class Target(Table):
    """Where an upgrade goes.

    Attributes:
        version: of the release, or of the one that is rebuilt.
        sha: of the release, or of the commit with the fix; empty where nobody has told it.
        rebuild: whether it is the same version, rebuilt with a fix.
    """

    version: str
    sha: str
    rebuild: bool = False


class Cause(NamedTuple):
    """What makes an upgrade due.

    Attributes:
        reason: in words.
        since: from when on.
        wants: where it would take the pin; None where there is nothing to go to.
        request: the request it is; None for the cycle and for flagged releases.
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

    @property
    def wish(self) -> bool:
        """Whether it is a request that a campaign holds."""
        return self.request is not None and not self.urgent


def causes(state: State, cycle_days: int) -> list[Cause]:
    """Everything that makes an upgrade due: the cycle, flagged releases, requests in their order."""
    newest = state.newest
    return [
        *_cycle(state, newest, cycle_days),
        *_flagged(state),
        *(_asked(state, one, newest) for one in state.pending),
    ]


def next_due(state: State, cycle_days: int) -> datetime | None:
    """When the cycle is due, or was; None before the first upgrade."""
    return None if state.last is None else state.last + timedelta(days=cycle_days)


def release(record: Record) -> Target:
    """A recorded release as a target."""
    return Target(version=record.version, sha=record.sha)


def _cycle(state: State, newest: Record | None, cycle_days: int) -> Iterator[Cause]:
    due, wants = next_due(state, cycle_days), None if newest is None else release(newest)
    if due is None:
        if wants is not None:
            since = min(one.at for one in state.releases.ordered)
            yield Cause(why("first", "nothing is pinned yet"), since, wants)
    elif state.now >= due:
        age = (state.now - due).days + cycle_days
        words = f"the last upgrade was {age} days ago, and one is due every {cycle_days} days"
        yield Cause(why("cycle", words), due, wants, lacks=None if wants else _no_release(state))


def _flagged(state: State) -> Iterator[Cause]:
    """Flagged releases that were never reached: a pin that was stepped back is not sent there again."""
    newer = state.releases.newer(state.pin)
    for one in newer:
        for flag in one.flags if state.releases.place_of(one) > state.reached else ():
            words = f"release {named(one.version)} is flagged {flag}"
            told = (it.at for it in state.flagged if it.sha == one.sha and flag in it.flags)
            yield Cause(why(f"{flag}-release", words), min(told, default=one.at), release(newer[-1]))


def _asked(state: State, request: Requested, newest: Record | None) -> Cause:
    find = _urgent if request.reason in URGENT else _wish
    wants, lacks = find(state, request, newest)
    wanted = "" if request.version is None else f" asks for {named(request.version)}"
    words = f"request {request.id} ({request.reason}){wanted}, reported on {day(request.at)}"
    return Cause(why(request.reason, words), request.at, wants, request, lacks)


def _wish(state: State, request: Requested, newest: Record | None) -> tuple[Target | None, Reason | None]:
    """Where a request goes that needs a release: to the one it names, else to the newest."""
    found = newest
    if request.version is not None or request.sha:
        found = _meant(state, request)
        if found is None:
            return None, _no_such(state, request)
        if state.pin and state.releases.place_of(found) <= state.releases.place_of(state.pin):
            words = (
                f"request {request.id} is for {named(found.version)}, but {named(state.pin.version)} "
                "is already pinned: withdraw it, or the next upgrade answers it"
            )
            return None, why(ALREADY_PINNED, words)
    return (None, _no_release(state)) if found is None else (release(found), None)


def _urgent(state: State, request: Requested, newest: Record | None) -> tuple[Target | None, Reason | None]:
    """Where a bug goes: the release it names, the newest, or what is pinned, rebuilt with its fix."""
    pin = state.pin
    found = _meant(state, request)
    if found and not (pin and _is_pinned(state, found, pin, request)):
        return release(found), None
    lacks = None
    if request.version is not None and found is None:
        if pin and request.sha and same_version(request.version, pin.version):
            return Target(version=pin.version, sha=request.sha, rebuild=True), None
        lacks = _no_such(state, request)
    if newest is not None:
        return release(newest), lacks
    if pin is not None:
        return Target(version=pin.version, sha=request.sha, rebuild=True), lacks
    return None, _no_release(state)


def _meant(state: State, request: Requested) -> Record | None:
    """The release a request names; one that was taken back only by its SHA, or where it is pinned."""
    found = state.releases.named(request.version, request.sha)
    if found is None or found.yanked is None or request.sha:
        return found
    return found if state.pin and same_sha(found.sha, state.pin.sha) else None


def _is_pinned(state: State, found: Record, pin: Pinned, request: Requested) -> bool:
    """Whether a request means what is pinned; where that was rebuilt since, its version alone does."""
    if not same_version(found.version, pin.version):
        return False
    if request.sha:
        return same_sha(found.sha, pin.sha)
    return state.releases.place_of(found) <= state.releases.place_of(pin)


def _no_release(state: State) -> Reason:
    if state.pin is None:
        return why(NO_RELEASE, "nothing is pinned, and no release is recorded")
    words = f"no release is newer than {named(state.pin.version)}, which is pinned"
    if newer := state.releases.newer(state.pin):
        there = listed(named(one.version) for one in newer)
        words += (
            f" except {there}, which was reverted: a newer release, or a request that names it, is needed"
        )
    return why(NO_RELEASE, words)


def _no_such(state: State, request: Requested) -> Reason:
    wanted = request.version if request.version is not None else request.sha
    known = state.releases.named(request.version, request.sha) is not None
    lacks = "was withdrawn: a request has to give its SHA" if known else "the ledger has no record of"
    return why(NO_SUCH_RELEASE, f"request {request.id} is for {named(wanted)}, which {lacks}")
