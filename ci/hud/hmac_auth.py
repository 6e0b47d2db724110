"""Signing a request with a shared secret, and checking such a signature; for networks that have no OIDC.

The header is `Authorization: Spyre-HMAC name:time:digest:signature`: the secret's name, seconds since the
epoch, the SHA-256 of the body, and HMAC-SHA256 with the secret over time, method, path with query, and
digest, a line each. So neither the body nor where it goes can be changed on the way; whoever repeats a
request that was taken, while its signature holds, is answered as it was, and nothing is changed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping

import requests
from requests.auth import AuthBase

SCHEME = "Spyre-HMAC"
WINDOW_S = 300
_HEADER = re.compile(
    rf"{SCHEME} ([A-Za-z0-9_.-]{{1,64}}):([0-9]{{1,12}}):([0-9a-f]{{64}}):([0-9a-f]{{64}})", re.IGNORECASE
)


class HmacAuth(AuthBase):
    """Signs each request.

    Args:
        name: by which the server knows the secret.
        secret: gives it.
        clock: seconds since the epoch.
    """

    def __init__(self, name: str, secret: Callable[[], str], *, clock: Callable[[], float]) -> None:
        self._name = name
        self._secret = secret
        self._clock = clock

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the signature of a request's method, path and body into its header.

        Raises:
            TypeError: the body is a stream, which cannot be signed before it is read.
        """
        body = request.body or b""
        if not isinstance(body, str | bytes):
            raise TypeError("a stream cannot be signed; give the body as bytes")
        data = body.encode() if isinstance(body, str) else body
        request.headers["Authorization"] = header(
            self._name,
            self._secret(),
            at=self._clock(),
            method=request.method or "",
            target=request.path_url,
            body=data,
        )
        return request


def header(name: str, secret: str, *, at: float, method: str, target: str, body: bytes) -> str:
    """The value of the Authorization header.

    Args:
        name: by which the server knows the secret.
        secret: the secret.
        at: seconds since the epoch.
        method: of the request.
        target: path and query of the request, as they are sent.
        body: of the request.
    """
    time, digest = str(int(at)), hashlib.sha256(body).hexdigest()
    return f"{SCHEME} {name}:{time}:{digest}:{_signature(secret, time, method, target, digest)}"


def check_header(
    value: str, secrets: Mapping[str, str], *, at: float, method: str, target: str
) -> tuple[str, str] | None:
    """Whose signature a header holds, and the digest its body must have; None where it does not hold.

    Args:
        value: of the Authorization header.
        secrets: by name.
        at: seconds since the epoch; a signature's time may be 300 s from it.
        method: of the request.
        target: path and query of the request, as they are sent.
    """
    found = _HEADER.fullmatch(value)
    if found is None:
        return None
    name, time, digest, given = found.groups()
    # An unknown name takes the same time as a wrong signature.
    wanted = _signature(secrets.get(name, ""), time, method, target, digest)
    genuine = hmac.compare_digest(given.lower(), wanted) and name in secrets
    return (name, digest.lower()) if genuine and abs(at - int(time)) <= WINDOW_S else None


def signature_of(value: str) -> str:
    """The signature of a header that holds, in the one form every spelling of it has."""
    return value.rpartition(":")[2].lower()


def _signature(secret: str, time: str, method: str, target: str, digest: str) -> str:
    said = f"{time}\n{method.upper()}\n{target}\n{digest.lower()}"
    return hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()
