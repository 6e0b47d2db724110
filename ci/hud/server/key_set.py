"""The public keys of an issuer (JWKS, RFC 7517): fetched within bounds, kept, and fetched again when due."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import jwt
import requests
from urllib3.exceptions import HTTPError

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
