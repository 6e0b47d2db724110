"""OIDC tokens: which issuer made one, whether it holds, and which repository it speaks for.

Claims as documented by GitHub (`repository`), Buildkite (`organization_slug`, `pipeline_slug`) and Jenkins'
plugin oidc-provider (`sub`, by default the URL of the job; its keys are at `<issuer>/jwks`). An issuer's keys
(JWKS, RFC 7517) are fetched within bounds, kept, and fetched again when due.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt
import requests
from urllib3.exceptions import HTTPError

from ci.config.hud_model import Issuer
from ci.core.http import pieces, session

FRESH_S = 3600.0
# An issuer that cannot be reached is believed for a day by the keys it had.
STALE_S = 24 * 3600.0
# Whoever sends tokens with made-up key ids must not make us ask the issuer for each.
UNKNOWN_KEY_S = 60.0
FAILED_S = 10.0
TIMEOUT_S = (3.05, 5.0)
# Of the whole answer; the others wait for what came of it.
TOTAL_S = 8.0
MAX_BYTES = 256 * 1024
MAX_KEYS = 64
MIN_BITS = 2048


class KeysUnavailableError(Exception):
    """The issuer's keys cannot be had now; the client comes again."""


def fetch(url: str) -> Any:
    """The JSON at a URL, without following redirects.

    Raises:
        KeysUnavailableError: no answer in time, another status than 200, or too large.
    """
    # The real clock, because the socket below waits in real time.
    deadline = time.monotonic() + TOTAL_S
    try:
        with (
            session(url) as asking,
            asking.get(url, timeout=TIMEOUT_S, allow_redirects=False, stream=True) as response,
        ):
            if response.status_code != requests.codes.ok:
                raise KeysUnavailableError(f"{url} answers HTTP {response.status_code}")
            body = b"".join(pieces(response, until=deadline, most_bytes=MAX_BYTES))
    except (requests.RequestException, HTTPError, OSError) as error:
        raise KeysUnavailableError(f"{url} cannot be read: {type(error).__name__}") from error
    if len(body) > MAX_BYTES:
        raise KeysUnavailableError(f"{url} holds more than {MAX_BYTES} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise KeysUnavailableError(f"{url} holds no JSON") from error


class KeySet:
    """The keys at one URL, by key id.

    Args:
        url: of the JWKS.
        clock: seconds since the epoch.
        fetch: reads the JSON at a URL.
    """

    def __init__(self, url: str, *, clock: Callable[[], float], fetch: Callable[[str], Any] = fetch) -> None:
        self._url = url
        self._clock = clock
        self._fetch = fetch
        self._lock = threading.Lock()
        self._keys: Mapping[str, Any] = {}
        self._read_at = self._tried_at = float("-inf")
        self._failed = ""

    def key(self, key_id: str) -> Any | None:
        """The RSA public key of an id; None where the issuer has none.

        Raises:
            KeysUnavailableError: the keys cannot be had, and the ones we had are too old.
        """
        now = self._clock()
        if self._due(key_id, now):
            self._read_alone(key_id, now)
        if now - self._read_at > STALE_S:
            raise KeysUnavailableError(self._failed)
        return self._keys.get(key_id)

    def _read_alone(self, key_id: str, now: float) -> None:
        """Ask the issuer; whoever has the key of before does not wait while another one asks."""
        if key_id in self._keys and now - self._read_at <= STALE_S:
            if not self._lock.acquire(blocking=False):
                return
        elif not self._lock.acquire(timeout=TOTAL_S):
            raise KeysUnavailableError(f"{self._url} does not answer")
        try:
            if self._due(key_id, now):
                self._read(now)
        finally:
            self._lock.release()

    def _due(self, key_id: str, now: float) -> bool:
        age, tried = now - self._read_at, now - self._tried_at
        if self._failed and tried < FAILED_S:
            return False
        return age >= FRESH_S or (key_id not in self._keys and tried >= UNKNOWN_KEY_S)

    def _read(self, now: float) -> None:
        self._tried_at = now
        try:
            self._keys = public_keys(self._fetch(self._url))
        except KeysUnavailableError as error:
            self._failed = str(error)
        else:
            self._read_at, self._failed = now, ""


def public_keys(content: Any) -> dict[str, Any]:
    """The keys of a JWKS that can check RS256, by id; others, and what is broken, are passed over.

    A symmetric key among them would make a signature of everybody's own, so only RSA counts.

    Raises:
        KeysUnavailableError: it is no JWKS.
    """
    rows = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise KeysUnavailableError("the issuer's answer is no JWKS")
    found = {}
    for row in rows[:MAX_KEYS]:
        if not isinstance(row, dict) or not isinstance(row.get("kid"), str):
            continue
        if row.get("kty") != "RSA" or row.get("use", "sig") != "sig" or row.get("alg", "RS256") != "RS256":
            continue
        try:
            key = jwt.algorithms.RSAAlgorithm.from_jwk({name: row.get(name) for name in ("kty", "n", "e")})
        except (jwt.InvalidKeyError, ValueError, TypeError, ArithmeticError):
            continue
        if key.key_size >= MIN_BITS:
            found[row["kid"]] = key
    return found


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
