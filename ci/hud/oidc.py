"""The token a GitHub job reports with: minted just before each post, since it lives for minutes only.

GitHub gives a job with `permissions: id-token: write` a URL and a token to ask for it with
(docs.github.com, "OpenID Connect reference"). None of the three is ever shown.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ci.core.errors import SettingsError, SpyreCiError
from ci.core.http import is_private
from ci.core.secrets import checked_token
from ci.core.text import one_line
from ci.hud.wire import NoReplyError, Reply, exchange

URL_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_URL"
TOKEN_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105  # the variable's name, not a secret
TIMEOUT_S = 20.0
_PERMISSION = "give the job `permissions: id-token: write`"


class TokenUnavailableError(SpyreCiError):
    """GitHub gave no token now; it may a while later."""


def offered(environ: Mapping[str, str]) -> bool:
    """Whether the job may ask GitHub for a token."""
    return bool(environ.get(URL_VARIABLE)) and bool(environ.get(TOKEN_VARIABLE))


def mint(environ: Mapping[str, str], *, audience: str, repository: str, timeout_s: float = TIMEOUT_S) -> str:
    """A fresh token for an audience.

    Args:
        environ: of the job.
        audience: whom the token is for.
        repository: owner/name that the token has to vouch for.
        timeout_s: of the request.

    Raises:
        SettingsError: the job has no leave to ask, GitHub refuses the request as it is, or the token is of
            another repository.
        TokenUnavailableError: GitHub did not answer as it should. Its answer, which may hold a token, is not
            shown.
    """
    url, asking = environ.get(URL_VARIABLE, ""), environ.get(TOKEN_VARIABLE, "")
    _check(url, asking)
    try:
        reply = exchange("GET", url, token=asking, timeout_s=timeout_s, params={"audience": audience})
    except NoReplyError as error:
        if error.fault in {"untrusted", "unsendable"}:
            raise _refused(f"no request can be made ({error.fault})") from None
        raise _unavailable(f"no answer ({error.fault})") from None
    if reply.status == 200:  # noqa: PLR2004  # HTTP's own numbers
        token = _token_of(reply)
        _check_repository(token, repository)
        return token
    if reply.status < 500 and reply.status not in {408, 429}:  # noqa: PLR2004  # the same
        raise _refused(f"HTTP {reply.status}")
    raise _unavailable(f"HTTP {reply.status}")


def claims_of(token: str) -> Mapping[str, Any]:
    """What a token says of itself, unverified; empty where it is no JSON Web Token (RFC 7519)."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004  # header, claims and signature
        return {}
    part = parts[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _check_repository(token: str, repository: str) -> None:
    vouched = claims_of(token).get("repository", repository)
    if vouched != repository:
        raise SettingsError(
            f"is {repository!r}, but the job's token vouches for {one_line(str(vouched))!r}",
            where="report.repository",
            remedy="set it to the repository that runs the workflow, in its exact letter case",
        )


def _check(url: str, asking: str) -> None:
    if not url or not asking:
        raise SettingsError(
            "the job may not ask GitHub for an OIDC token", where=URL_VARIABLE, remedy=_PERMISSION
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
        raise _unavailable("an answer without one")
    return checked_token(token, "GitHub's OIDC token")


def _unavailable(said: str) -> TokenUnavailableError:
    return TokenUnavailableError(
        f"GitHub gave no OIDC token: {said}", remedy="wait until GitHub answers again"
    )


def _refused(said: str) -> SettingsError:
    return SettingsError(
        f"GitHub gave no OIDC token: {said}",
        where=URL_VARIABLE,
        remedy=f"{_PERMISSION}, and leave GitHub's variables as they are",
    )
