"""Posting one report to a HUD-compatible endpoint, and reading what its answer means."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError, NewConnectionError

from ci.addresses import without_secrets
from ci.errors import SettingsError, SpyreCiError
from ci.hud.answers import Answer, Outcome, classify, one_line
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.payload import encode

CALLBACK_PATH = "/github/callback"
CONNECT_TIMEOUT_S = 10
ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where reports go.

    Attributes:
        url: of the callback.
        repository: owner/name the results are reported for.
        token: gives the bearer token just before each post, so that it may be short-lived.
        timeout_s: of one request, its answer included.
    """

    url: str
    repository: str
    token: Callable[[], str] = field(repr=False)
    timeout_s: float = 60


class _Bearer(AuthBase):
    # Given as `auth`, because requests lets a ~/.netrc entry overwrite a plain Authorization header.
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def callback_url(endpoint: str) -> str:
    """The URL reports are posted to: `endpoint`, with the relay's path where it has none.

    The relay answers 404 to a trailing slash, so there is never one.

    Raises:
        SettingsError: it is no http(s) URL with a host, or holds a user name or password.
    """
    remedy = "set it to `embedded`, `none` or a URL such as https://hud.example.org"
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"{endpoint!r} is no http(s) URL", where="report.endpoint", remedy=remedy)
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "the URL holds a user name or password",
            where="report.endpoint",
            remedy="give the token in SPYRE_CI_HUD_TOKEN or report.token_file instead",
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or CALLBACK_PATH, parts.query, ""))


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def sends_token_in_clear(url: str) -> bool:
    """Whether whoever listens on the way can read the token: plain http to another machine."""
    return urlsplit(url).scheme == "http" and not is_loopback(url)


def post(payload: Mapping[str, Any], target: Target, *, doubtful: bool = False) -> Answer:
    """Send one report once. Delivery problems are answers, never exceptions.

    Args:
        payload: the callback's body.
        target: where it goes.
        doubtful: whether an earlier attempt may have been taken although no 200 came.
    """
    try:
        token = target.token()
    except SpyreCiError as error:
        return Answer(outcome=Outcome.UNAUTHORIZED, status=None, detail=one_line(str(error)))
    try:
        status, body, retry_after = _exchange(encode(payload), target, token)
    except requests.exceptions.SSLError as error:
        detail = f"the server's certificate cannot be trusted: {error}"
        return _failed(Outcome.REFUSED, detail, token)
    except (requests.Timeout, requests.ConnectionError, TimeoutError, HTTPError, OSError) as error:
        never_there = _never_connected(error)
        detail = f"{'no connection' if never_there else 'no whole answer'}: {error}"
        return _failed(Outcome.RETRY, detail, token, doubtful=not never_there)
    except (requests.RequestException, ValueError) as error:
        return _failed(Outcome.REFUSED, f"cannot be sent: {error}", token)
    nightly = payload.get("event_type") in NIGHTLY_EVENTS
    hidden = body.replace(token, "***")
    return classify(status, hidden, retry_after=retry_after, nightly=nightly, doubtful=doubtful)


def _exchange(data: bytes, target: Target, token: str) -> tuple[int, str, str | None]:
    # The real clock, because the sockets below wait in real time, whatever clock the caller has.
    deadline = time.monotonic() + target.timeout_s
    with requests.Session() as session:
        # A proxy of the environment cannot reach this machine's own loopback.
        session.trust_env = not is_loopback(target.url)
        response = session.post(
            target.url,
            data=data,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            auth=_Bearer(token),
            timeout=(min(CONNECT_TIMEOUT_S, target.timeout_s), target.timeout_s),
            allow_redirects=False,
            stream=True,
        )
        with response:
            body = _read(response, deadline)
            return response.status_code, body, response.headers.get("Retry-After")


def _read(response: requests.Response, deadline: float) -> str:
    # requests' time-out is between two bytes; a server that drips must not hold the run for ever. Only
    # read1 gives what has come so far, iter_content waits until its piece is full.
    body = b""
    while len(body) < ANSWER_BYTES:
        chunk = response.raw.read1(ANSWER_BYTES, decode_content=True)
        if not chunk:
            break
        body += chunk
        if time.monotonic() > deadline:
            raise TimeoutError("the answer takes too long")
    return body.decode("utf-8", "replace")


def _never_connected(error: Exception) -> bool:
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ProxyError):
        return True
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", cause), NewConnectionError)


def _failed(outcome: Outcome, detail: str, token: str, *, doubtful: bool = False) -> Answer:
    return Answer(
        outcome=outcome,
        status=None,
        detail=one_line(without_secrets(detail.replace(token, "***"))),
        doubtful=doubtful,
    )
