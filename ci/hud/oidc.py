"""The token a GitHub job reports with: minted just before each post, since it lives for minutes only.

GitHub gives a job with `permissions: id-token: write` a URL and a token to ask for it with
(docs.github.com, "OpenID Connect reference"). None of the three is ever shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from ci.core.errors import SettingsError
from ci.core.http import is_private
from ci.core.secrets import checked_token
from ci.core.text import one_line
from ci.hud.answers import Outcome
from ci.hud.client import TokenUnavailableError, UnansweredError, exchange

URL_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_URL"
TOKEN_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105  # the variable's name, not a secret
TIMEOUT_S = 20.0
_PERMISSION = "give the job `permissions: id-token: write`"


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
    url, asking = _request_of(environ)
    try:
        reply = exchange("GET", url, token=asking, timeout_s=timeout_s, params={"audience": audience})
    except UnansweredError as error:
        # Its words may hold the URL.
        raise _no_token(error.answer.outcome, "no response") from None
    if reply.status != HTTPStatus.OK:
        outcome = Outcome.RETRY if reply.outcome.transient else Outcome.REFUSED
        raise _no_token(outcome, f"HTTP {reply.status}")
    token = reply.content.get("value")
    if not isinstance(token, str):
        raise _no_token(Outcome.RETRY, "a response without one")
    token = checked_token(token, "GitHub's OIDC token")
    vouched = claims_of(token).get("repository", repository)
    if vouched != repository:
        raise SettingsError(
            f"is {repository!r}, but the job's OIDC token is for {one_line(str(vouched))!r}",
            where="report.repository",
            remedy="set it to the repository that runs the workflow, in its exact letter case",
        )
    return token


def claims_of(token: str) -> Mapping[str, Any]:
    """What a token says of itself, unverified; empty where it is no JSON Web Token (RFC 7519)."""
    import jwt  # noqa: PLC0415  # it brings cryptography, which every verb would load

    try:
        claims: Mapping[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.InvalidTokenError, RecursionError):
        return {}
    return claims


def _request_of(environ: Mapping[str, str]) -> tuple[str, str]:
    """The URL and the token to ask GitHub with."""
    if not offered(environ):
        raise SettingsError(
            "the job may not request an OIDC token from GitHub", where=URL_VARIABLE, remedy=_PERMISSION
        )
    url = environ[URL_VARIABLE]
    try:
        usable = bool(urlsplit(url).hostname) and is_private(url)
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError("is not an https URL", where=URL_VARIABLE, remedy="leave it as GitHub sets it")
    return url, checked_token(environ[TOKEN_VARIABLE], TOKEN_VARIABLE)


def _no_token(outcome: Outcome, said: str) -> SettingsError | TokenUnavailableError:
    what = f"GitHub returned no OIDC token: {said}"
    if outcome is Outcome.RETRY:
        return TokenUnavailableError(what, remedy="wait until GitHub answers again")
    remedy = f"{_PERMISSION}, and leave GitHub's variables as they are"
    return SettingsError(what, where=URL_VARIABLE, remedy=remedy)
