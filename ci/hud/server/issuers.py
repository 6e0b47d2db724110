"""OIDC tokens: which issuer made one, whether it holds, and which repository it speaks for.

Claims as documented by GitHub (`repository`), Buildkite (`organization_slug`, `pipeline_slug`) and Jenkins'
plugin oidc-provider (`sub`, by default the URL of the job; its keys are at `<issuer>/jwks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt

from ci.config.hud_model import Issuer
from ci.hud.server.key_set import KeySet, fetch

LEEWAY_S = 30.0
MAX_TOKEN = 32 * 1024
# Year 33658; beyond it, and NaN, is no time anybody means.
LAST_S = 1e12
_UNVERIFIED = {"verify_signature": False}
_SIGNATURE = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["exp", "iss", "aud"]}


class TokenRefusedError(Exception):
    """A token that gives no right to write.

    Args:
        said: why; never holds the token.
        status: 401, or 403 where the token is genuine and its holder not registered.
    """

    def __init__(self, said: str, *, status: int = 401) -> None:
        super().__init__(said)
        self.status = status


class Issuers:
    """The issuers of the settings, each with its keys.

    Args:
        issuers: as the settings have them.
        clock: seconds since the epoch.
        fetch: reads the JSON at a URL.
    """

    def __init__(
        self, issuers: Sequence[Issuer], *, clock: Callable[[], float], fetch: Callable[[str], Any] = fetch
    ) -> None:
        self._clock = clock
        self._known = {one.url: (one, KeySet(one.keys_url, clock=clock, fetch=fetch)) for one in issuers}

    def repository(self, token: str) -> str:
        """The repository a token speaks for.

        Raises:
            TokenRefusedError: it is no token of a known issuer, does not hold, or speaks for nobody we know.
            KeysUnavailableError: the issuer's keys cannot be had.
        """
        issuer, keys = self._issuer_of(token)
        claims = _claims(token, issuer, keys)
        _check_times(claims, self._clock())
        return _repository(claims, issuer)

    def url(self, token: str) -> str:
        """Whose keys a token has to fit, by its own word.

        Raises:
            TokenRefusedError: it is no token of a known issuer.
        """
        return self._issuer_of(token)[0].url

    def _issuer_of(self, token: str) -> tuple[Issuer, KeySet]:
        if not token or len(token) > MAX_TOKEN:
            raise TokenRefusedError("Invalid authorization token")
        # Not yet believed: it only says whose keys have to fit.
        try:
            said = jwt.decode(token, options=_UNVERIFIED).get("iss")  # type: ignore[arg-type]  # a private type of PyJWT's
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefusedError("Invalid authorization token") from error
        found = self._known.get(said) if isinstance(said, str) else None
        if found is None:
            shown = said[:200] if isinstance(said, str) else None
            raise TokenRefusedError(f"Unsupported OIDC issuer: {shown}")
        return found


def _claims(token: str, issuer: Issuer, keys: KeySet) -> Mapping[str, Any]:
    try:
        key_id = jwt.get_unverified_header(token).get("kid")
        key = keys.key(key_id) if isinstance(key_id, str) else None
        if key is None:
            raise TokenRefusedError("Invalid authorization token: the issuer has no such key")
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=["RS256"],
            audience=issuer.audience,
            issuer=issuer.url,
            options=_SIGNATURE,  # type: ignore[arg-type]  # as above
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        # Its own words only: they name the claim that failed, never the token.
        raise TokenRefusedError(f"Invalid authorization token: {type(error).__name__}") from error
    return claims


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    # By our clock and not by PyJWT's, so that tests can set it.
    ends, begins, made = (_moment(claims, name) for name in ("exp", "nbf", "iat"))
    if ends is None or now >= ends + LEEWAY_S:
        raise TokenRefusedError("Invalid authorization token: it has expired")
    if max(begins or 0, made or 0) > now + LEEWAY_S:
        raise TokenRefusedError("Invalid authorization token: it is not valid yet")


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    at = claims.get(name)
    if at is None:
        return None
    if isinstance(at, bool) or not isinstance(at, int | float) or not -LAST_S < at < LAST_S:
        raise TokenRefusedError(f"Invalid authorization token: {name} is no time")
    return at


def _repository(claims: Mapping[str, Any], issuer: Issuer) -> str:
    if issuer.kind == "buildkite":
        names = [claims.get("organization_slug"), claims.get("pipeline_slug")]
    else:
        names = [claims.get(issuer.told_by)]
    if not all(isinstance(name, str) and name for name in names):
        raise TokenRefusedError(f"the {issuer.kind} token does not say who reports")
    # A slash in a slug would make it another pipeline's name.
    said = "/".join(str(name).replace("/", "%2F") if len(names) > 1 else str(name) for name in names)
    repository = issuer.repository_of(said)
    if repository is None:
        raise TokenRefusedError(f"{said[:200]} is not registered here", status=403)
    return repository
