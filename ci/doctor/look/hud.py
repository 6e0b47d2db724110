"""Facts of the endpoint that reports go to; it is asked without a token."""

from __future__ import annotations

from urllib.parse import urlsplit

from ci.core.addresses import shown
from ci.core.errors import SpyreCiError
from ci.core.http import is_private
from ci.doctor.fetch import FetchError, Way, fetch
from ci.doctor.finding import Finding
from ci.doctor.judge.hud import HudFacts, judge_hud, skew_of
from ci.doctor.world import World
from ci.hud.client import callback_url
from ci.hud.endpoint import EMBEDDED, NONE
from ci.hud.opening import STORE_FILE
from ci.hud.token import check_recipient, has_token

LIMIT_S = 12.0


def look_hud(world: World) -> list[Finding]:
    """Whether the endpoint answers, and what time it has."""
    return judge_hud(facts_of(world))


def facts_of(world: World) -> HudFacts:
    """What there is to be known of it."""
    endpoint = world.settings.model.report.endpoint
    if endpoint == NONE:
        return HudFacts(kind="none")
    if endpoint == EMBEDDED:
        return HudFacts(kind="embedded", shown=str(world.settings.state_dir / STORE_FILE))
    about = shown(endpoint)
    try:
        url = callback_url(endpoint)
        sends = _sends_token(world)
        if sends:
            check_recipient(world.settings, "report.endpoint", shown=about)
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
    """Whether a token itself would be sent, and no signature or minted one."""
    report = world.settings.model.report
    file = None if report.token_file is None else world.settings.resolve(report.token_file)
    return not report.hmac.name and has_token(world.environ, file)
