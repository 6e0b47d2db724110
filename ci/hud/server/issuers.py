"""OIDC tokens: which issuer made one, whether it holds, and which repository it speaks for.

Claims as documented by GitHub (`repository`), Buildkite (`organization_slug`, `pipeline_slug`) and Jenkins'
plugin oidc-provider (`sub`, by default the URL of the job; its keys are at `<issuer>/jwks`). PyJWT checks the
token and keeps an issuer's keys; reading them within bounds is ours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jwt
import requests
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from starlette.exceptions import HTTPException
from urllib3.exceptions import HTTPError

from ci.config.hud_model import Issuer
from ci.core.http import pieces, session
from ci.hud.server.http import CHALLENGE

LEEWAY_S = 30.0
MAX_TOKEN = 32 * 1024
FRESH_S = 3600.0
# Whoever sends tokens with made-up key ids must not make us ask the issuer for each.
UNKNOWN_KEY_S = 60.0
FAILED_S = 10.0
TIMEOUT_S = (3.05, 5.0)
# Of the whole answer; the others wait for what came of it.
TOTAL_S = 8.0
MAX_BYTES = 256 * 1024
# What PyJWT and its parsers raise of hostile text.
UNUSABLE = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


class Keys(jwt.PyJWKClient):
    """The keys at one URL, read within bounds, without redirects, and not again just after that failed."""

    def __init__(self, url: str) -> None:
        super().__init__(url, lifespan=FRESH_S, cooldown_duration=UNKNOWN_KEY_S)
        self._failed: tuple[float, str] | None = None

    def fetch_data(self) -> Any:
        """The JWKS as its issuer tells it.

        Raises:
            HTTPException: 503, no answer in time, another status than 200, too large, or no JWKS.
        """
        if self._failed is None or time.monotonic() - self._failed[0] >= FAILED_S:
            try:
                content = jwt.PyJWKSet.from_dict(json.loads(self._read()))
            except (requests.RequestException, HTTPError, OSError, AttributeError, *UNUSABLE) as error:
                self._failed = (time.monotonic(), f"{self.uri} returns no keys: {type(error).__name__}")
            else:
                self._failed, self._last_successful_fetch = None, time.monotonic()
                return content
        retry = {"Retry-After": str(int(FAILED_S) + 1)}
        raise HTTPException(503, f"the issuer's keys cannot be fetched: {self._failed[1]}", retry)

    def _read(self) -> bytes:
        deadline = time.monotonic() + TOTAL_S
        with (
            session(self.uri) as asking,
            asking.get(self.uri, timeout=TIMEOUT_S, allow_redirects=False, stream=True) as response,
        ):
            if response.status_code != requests.codes.ok:
                raise OSError(f"HTTP {response.status_code}")
            body = b"".join(pieces(response, until=deadline, most_bytes=MAX_BYTES))
        if len(body) > MAX_BYTES:
            raise OSError(f"more than {MAX_BYTES} bytes")
        return body


class Issuers:
    """The issuers of the settings, each with its keys.

    Args:
        issuers: as the settings have them.
    """

    def __init__(self, issuers: Sequence[Issuer]) -> None:
        self._known = {one.url: (one, Keys(one.keys_url)) for one in issuers}

    def repository(self, token: str) -> str:
        """The repository a token speaks for.

        Raises:
            HTTPException: 401, it is no token of a known issuer, or does not hold; 403, it speaks for nobody
                we know; 503, the issuer's keys cannot be had. No text holds the token.
        """
        try:
            issuer, keys = self._issuer_of(token)
            key = keys.get_signing_key_from_jwt(token).key
            # A symmetric key in the set would make a signature of everybody's own.
            if not isinstance(key, RSAPublicKey):
                raise _refused("Invalid authorization token: its key is not for RS256")
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=issuer.audience,
                issuer=issuer.url,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
            )
        except UNUSABLE as error:
            # Its own words only: they name the claim that failed, never the token.
            raise _refused(f"Invalid authorization token: {type(error).__name__}") from error
        return _repository(claims, issuer)

    def _issuer_of(self, token: str) -> tuple[Issuer, Keys]:
        if len(token) > MAX_TOKEN:
            raise _refused("Invalid authorization token: it is too long")
        # Not yet believed: it only says whose keys have to fit.
        said = jwt.decode(token, options={"verify_signature": False}).get("iss")
        found = self._known.get(said) if isinstance(said, str) else None
        if found is None:
            raise _refused(f"Unsupported OIDC issuer: {str(said)[:200]}")
        return found


def _repository(claims: Mapping[str, Any], issuer: Issuer) -> str:
    names = [claims.get(name) for name in issuer.told_by]
    if not all(isinstance(name, str) and name for name in names):
        raise _refused(f"the {issuer.kind} token does not identify its repository")
    # A slash in a slug would make it another pipeline's name.
    said = "/".join(str(name).replace("/", "%2F") for name in names) if len(names) > 1 else str(names[0])
    repository = issuer.repository_of(said)
    if repository is None:
        raise HTTPException(403, f"{said[:200]} is not registered here")
    return repository


def _refused(said: str) -> HTTPException:
    return HTTPException(401, said, CHALLENGE)
