"""The token a GitHub job reports with: minted just before each post, since it lives for minutes only.

GitHub gives a job with `permissions: id-token: write` a URL and a token to ask for it with
(docs.github.com, "OpenID Connect reference"). None of the three is ever shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from ci.core.errors import SettingsError, SpyreCiError
from ci.core.http import is_private
from ci.core.secrets import checked_token
from ci.hud.wire import NoReplyError, Reply, exchange

URL_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_URL"
TOKEN_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105  # the variable's name, not a secret
TIMEOUT_S = 20.0
ATTEMPTS = 4
PAUSE_S = 1.0


class TokenUnavailableError(SpyreCiError):
    """GitHub gave no token now; it may a while later."""


def offered(environ: Mapping[str, str]) -> bool:
    """Whether the job may ask GitHub for a token."""
    return bool(environ.get(URL_VARIABLE)) and bool(environ.get(TOKEN_VARIABLE))


def mint(
    environ: Mapping[str, str],
    *,
    audience: str,
    sleep: Callable[[float], None],
    rng: Callable[[], float],
    timeout_s: float = TIMEOUT_S,
) -> str:
    """A fresh token for an audience; a fault of GitHub's is tried again a few times.

    Raises:
        SettingsError: the job has no leave to ask, or GitHub refuses the request as it is.
        TokenUnavailableError: GitHub did not answer as it should. Its answer, which may hold a token, is not
            shown.
    """
    url, asking = environ.get(URL_VARIABLE, ""), environ.get(TOKEN_VARIABLE, "")
    _check(url, asking)
    said = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            sleep(PAUSE_S * 2.0 ** (attempt - 1) * (0.5 + rng() / 2))
        try:
            reply = exchange("GET", url, token=asking, timeout_s=timeout_s, params={"audience": audience})
        except NoReplyError as error:
            if error.fault in {"untrusted", "unsendable"}:
                raise _refused(f"no request can be made ({error.fault})") from None
            said = f"no answer ({error.fault})"
            continue
        if reply.status == 200:  # noqa: PLR2004  # HTTP's own numbers
            return _token_of(reply)
        said = f"HTTP {reply.status}"
        if reply.status < 500 and reply.status not in {408, 429}:  # noqa: PLR2004  # the same
            raise _refused(said)
    raise TokenUnavailableError(
        f"GitHub gave no OIDC token: {said}, {ATTEMPTS} times", remedy="wait until GitHub answers again"
    )


def _check(url: str, asking: str) -> None:
    if not url or not asking:
        raise SettingsError(
            "the job may not ask GitHub for an OIDC token",
            where=URL_VARIABLE,
            remedy="give the job `permissions: id-token: write`",
        )
    try:
        usable = bool(urlsplit(url).hostname) and is_private(url)
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError("is no https URL", where=URL_VARIABLE, remedy="leave it as GitHub sets it")
    checked_token(asking, TOKEN_VARIABLE)


def _token_of(reply: Reply) -> str:
    try:
        token = json.loads(reply.body)["value"]
    except (ValueError, KeyError, TypeError, RecursionError):
        token = None
    if not isinstance(token, str):
        raise TokenUnavailableError(
            "GitHub answered without an OIDC token", remedy="wait until GitHub answers again"
        )
    return checked_token(token, "GitHub's OIDC token")


def _refused(said: str) -> SettingsError:
    return SettingsError(
        f"GitHub gave no OIDC token: {said}",
        where=URL_VARIABLE,
        remedy="give the job `permissions: id-token: write`, and leave GitHub's variables as they are",
    )
