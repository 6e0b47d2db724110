"""Check the endpoint that reports go to: that it answers, takes a token, and has our time.

No token is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from ci.config.recipient import check_address
from ci.core.addresses import shown
from ci.core.errors import SpyreCiError
from ci.core.http import is_private
from ci.core.text import span
from ci.doctor.fetch import FetchError, Way, fetch
from ci.doctor.finding import Finding, Level, fault, ok, warning
from ci.doctor.world import World
from ci.hud.client import callback_url
from ci.hud.endpoint import EMBEDDED, NONE
from ci.hud.token import has_token

HUD, CLOCK = "hud", "clock"
# A second is what the header Date tells; tokens are good for minutes.
WARN_S, FAULT_S = 30.0, 300.0
# RFC 9111 has caches count to 2^31.
_MAX_AGE_S = 2.0**31 + 1
_MEND = (
    "check report.endpoint and the network; what is not sent waits in each run's outbox: spyre-ci hud send"
)
_REDIRECTS, _BAD, _MISSING, _BUSY = range(300, 400), 500, 404, 429
LIMIT_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HudFacts:
    """What the endpoint answered to a question without a token.

    Attributes:
        kind: embedded, none, or a server's URL.
        shown: its address without what may be secret; for the embedded one its store.
        status: of HTTP; 0: there was no answer.
        why: there was none, or why no report would be sent there.
        remedy: for that; empty: none is known.
        skew_s: how far its clock is before ours, in seconds; None where it did not say.
        trip_s: seconds from the question to the answer.
        in_clear: whether a token could be read on the way.
    """

    kind: Literal["embedded", "none", "server"]
    shown: str = ""
    status: int = 0
    why: str = ""
    remedy: str = ""
    skew_s: float | None = None
    trip_s: float = 0
    in_clear: bool = False


def skew_of(headers: Mapping[str, str], *, sent: float, came: float) -> float | None:
    """How far a server's clock is before ours, in seconds; None where its Date says nothing.

    Date has whole seconds, so half a one is added; an answer of a cache is as old as Age says (RFC 9110,
    RFC 9111). The server is taken to have looked at its clock half way.

    Args:
        headers: of the answer, by names in lower case.
        sent: seconds since the epoch when it was asked.
        came: when the answer came.
    """
    try:
        age = float(headers.get("age", 0))
        if not 0 <= age < _MAX_AGE_S:
            return None
        told = parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return told + age + 0.5 - (sent + came) / 2


def judge_hud(facts: HudFacts) -> list[Finding]:
    """Whether reports arrive."""
    if facts.kind == "none":
        return [ok(HUD, "not used: report.endpoint is none")]
    if facts.kind == "embedded":
        return [ok(HUD, f"embedded, kept in {facts.shown}")]
    if facts.why:
        return [fault(HUD, f"{facts.why} ({facts.shown})", facts.remedy or _MEND)]
    found = [_of_status(facts), *judge_clock(facts)]
    if facts.in_clear:
        remedy = "give report.endpoint an https:// address"
        found.append(warning(HUD, f"{facts.shown}: whoever listens on the way reads the token", remedy))
    return found


def judge_clock(facts: HudFacts) -> list[Finding]:
    """How far apart the two clocks are at the least, given how long the answer took."""
    if facts.skew_s is None:
        return [ok(CLOCK, "not compared: the endpoint does not say what time it has")]
    # On either side of half way: half a round trip, and half a second that Date does not tell.
    doubt = facts.trip_s / 2 + 0.5
    sure = abs(facts.skew_s) - doubt
    about = f"round trip {span(facts.trip_s)}"
    if sure <= WARN_S:
        return [ok(CLOCK, f"as the endpoint's, within {span(abs(facts.skew_s) + doubt)} ({about})")]
    which = "behind" if facts.skew_s > 0 else "ahead of"
    said = f"this machine's clock is {span(abs(facts.skew_s))} {which} the endpoint's ({about})"
    level = Level.FAULT if sure > FAULT_S else Level.WARNING
    return [
        Finding(
            look=CLOCK,
            level=level,
            said=said,
            remedy="set it: sudo timedatectl set-ntp true, or chronyc makestep",
        )
    ]


def _of_status(facts: HudFacts) -> Finding:
    said = f"{facts.shown} answers {facts.status}"
    if facts.status in _REDIRECTS:
        return fault(
            HUD, f"{said}, a redirect, which no report follows", "set report.endpoint to where it leads"
        )
    if facts.status >= _BAD:
        return fault(
            HUD, f"{said}: it is there and out of order", "see to the server, or wait until it is well"
        )
    if facts.status == _MISSING:
        return fault(
            HUD, f"{said}: there is no such path", "set report.endpoint to the server's address alone"
        )
    if facts.status == _BUSY:
        return warning(HUD, f"{said}: it is too busy now", "wait, or report less often")
    return ok(HUD, f"{facts.shown} answers in {span(facts.trip_s)}")


def look_hud(world: World) -> list[Finding]:
    """Whether the endpoint answers, and what time it has."""
    return judge_hud(facts_of(world))


def facts_of(world: World) -> HudFacts:
    """What there is to be known of it."""
    endpoint = world.settings.model.report.endpoint
    if endpoint == NONE:
        return HudFacts(kind="none")
    if endpoint == EMBEDDED:
        return HudFacts(kind="embedded", shown=str(world.settings.store_path))
    about = shown(endpoint)
    try:
        url = callback_url(endpoint)
        sends = _sends_token(world)
        if sends:
            check_address(world.settings, "report.endpoint", shown=about)
        page = fetch(url, Way(), limit_s=LIMIT_S, clock=world.clock)
    except SpyreCiError as error:
        # Our own words may quote the address as it is.
        why = error.what.replace(endpoint, about)
        return HudFacts(kind="server", shown=about, why=why, remedy=error.remedy or "")
    except FetchError as error:
        return HudFacts(kind="server", shown=about, why=str(error))
    return HudFacts(
        kind="server",
        shown=about,
        status=page.status,
        skew_s=skew_of(page.headers, sent=page.sent, came=page.came),
        trip_s=max(page.came - page.sent, 0),
        in_clear=sends and bool(urlsplit(url).scheme) and not is_private(url),
    )


def _sends_token(world: World) -> bool:
    """Whether a token that was given would be sent, and no minted one."""
    report = world.settings.model.report
    file = None if report.token_file is None else world.settings.resolve(report.token_file)
    return has_token(world.environ, file)
