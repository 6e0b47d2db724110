"""Post one report to a HUD-compatible endpoint: no redirect, no netrc, no proxy to this machine, no hang."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

import requests
from urllib3.exceptions import HTTPError

from ci.core.addresses import safe_line
from ci.core.errors import SettingsError, SpyreCiError
from ci.core.http import never_connected, pieces, session
from ci.core.text import one_line
from ci.hud.answers import REMEDIES, Answer, Outcome, Reply, classify
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.payload import encode

CALLBACK_PATH = "/github/callback"
DISPATCH_PATH = "/api/dispatch"
CONNECT_TIMEOUT_S = 10
ANSWER_BYTES = 64 * 1024


class TokenUnavailableError(SpyreCiError):
    """There is no token now; there may be a while later."""


class UnansweredError(Exception):
    """No whole answer came.

    Attributes:
        answer: what that means; the token is in no word of it.
    """

    def __init__(self, outcome: Outcome, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.answer = Answer(outcome=outcome, detail=detail, **more)


class Send(Protocol):
    """Makes one attempt at one report."""

    def __call__(self, payload: Mapping[str, Any], target: Target, *, doubtful: bool) -> Answer:
        """What became of it; `doubtful`: an earlier attempt may have been taken although no 200 came.

        Raises:
            UnansweredError: no complete response came.
        """


def post(payload: Mapping[str, Any], target: Target, *, doubtful: bool = False) -> Answer:
    """Post a callback once; see `Send`."""
    return classify(
        target.ask(encode(payload)),
        nightly=payload.get("event_type") in NIGHTLY_EVENTS,
        doubtful=doubtful,
        begins=payload["workflow"]["status"] == "in_progress",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where reports go.

    Attributes:
        url: of the callback; empty of the store of results here.
        repository: owner/name the results are reported for.
        shown: its name for people; a query, which may hold a secret, is left out.
        token: gives the token just before each post, so that it may be short-lived.
        timeout_s: of one request, its answer included.
        minted: whether each call of `token` makes a fresh one, so that a refused one is worth another.
        send: makes one attempt.
        remedies: what a user does about an outcome.
    """

    url: str
    repository: str
    shown: str = ""
    token: Callable[[], str] = field(default=str, repr=False)
    timeout_s: float = 60
    minted: bool = False
    send: Send = post
    remedies: Mapping[Outcome, str] = field(default_factory=lambda: REMEDIES, repr=False)

    def ask(self, data: bytes, *, path: str = "", timeout_s: float = 0, **request: Any) -> Reply:
        """Post something and read the answer.

        Args:
            data: the body, JSON where no header says otherwise.
            path: of another route of a server of our own; what stands before the callback's path stays.
            timeout_s: at the least.
            request: what else requests takes.

        Raises:
            UnansweredError: no complete response came, or there is no token.
        """
        try:
            token = self.token()
        except TokenUnavailableError as error:
            raise UnansweredError(Outcome.RETRY, one_line(str(error))) from error
        except SpyreCiError as error:
            told, remedy = one_line(error.placed), error.remedy or ""
            raise UnansweredError(Outcome.UNAUTHORIZED, told, remedy=remedy) from error
        url = self.url
        if path:
            parts = urlsplit(url)
            before, callback, _ = parts.path.partition(CALLBACK_PATH)
            url = urlunsplit((parts.scheme, parts.netloc, (before if callback else "") + path, "", ""))
        headers = {"Content-Type": "application/json", **request.pop("headers", {})}
        timeout_s = max(timeout_s, self.timeout_s)
        return exchange("POST", url, token=token, timeout_s=timeout_s, data=data, headers=headers, **request)

    def note_dispatch(self, delivery_id: str) -> None:
        """Tell a server of our own that a job was dispatched, so that it takes the job's callbacks.

        The relay knows by itself. Where the server does not take it, its answer to the callback says why.

        Args:
            delivery_id: as the relay dispatched it.
        """
        if CALLBACK_PATH in self.url:
            body = json.dumps({"delivery_id": delivery_id, "repository": self.repository}).encode()
            with contextlib.suppress(UnansweredError):
                self.ask(body, path=DISPATCH_PATH)


def callback_url(endpoint: str) -> str:
    """The URL reports are posted to: `endpoint`, with the relay's path where it has none.

    The relay answers 404 to a trailing slash, so there is never one.

    Raises:
        SettingsError: it is no http(s) URL with a host, or holds a user name or password.
    """
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(
            f"{endpoint!r} is not an http(s) URL",
            where="report.endpoint",
            remedy="set it to `embedded`, `none` or a URL such as https://hud.example.org",
        )
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "the URL contains a user name or password",
            where="report.endpoint",
            remedy="give the token in SPYRE_CI_HUD_TOKEN or report.token_file instead",
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or CALLBACK_PATH, parts.query, ""))


def _show(request: requests.PreparedRequest, *, token: str) -> requests.PreparedRequest:
    request.headers["Authorization"] = f"Bearer {token}"
    return request


def exchange(
    method: Literal["GET", "POST"], url: str, *, token: str, timeout_s: float, **request: Any
) -> Reply:
    """Make one request and read its answer.

    Args:
        method: GET or POST.
        url: where to; a redirect is an answer and not followed.
        token: what shows who asks.
        timeout_s: of the whole, the answer included.
        request: what else requests takes.

    Raises:
        UnansweredError: no complete response came.
    """
    # The real clock, because the sockets below wait in real time, whatever clock the caller has.
    deadline = time.monotonic() + timeout_s
    request["headers"] = {"Accept": "application/json", **request.get("headers", {})}
    try:
        with (
            session(url) as asking,
            asking.request(
                method,
                url,
                # A plain header would be overwritten by a ~/.netrc entry.
                auth=partial(_show, token=token),
                timeout=(min(CONNECT_TIMEOUT_S, timeout_s), timeout_s),
                allow_redirects=False,
                stream=True,
                **request,
            ) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            body = _read(response, deadline)
            return Reply(status=response.status_code, body=body, headers=headers, token=token)
    except (OSError, HTTPError, ValueError) as error:  # requests' own errors are OSErrors
        outcome, said = _fault(error)
        detail = safe_line(f"{said}: {error}".replace(token, "***"))
        raise UnansweredError(outcome, detail, doubtful=said == CUT) from error


CUT = "no complete response"


def _fault(error: Exception) -> tuple[Outcome, str]:
    """What an error of a request comes to: only where the line was cut the other side may have taken it."""
    if isinstance(error, requests.exceptions.SSLError):
        return Outcome.REFUSED, "the server's certificate cannot be trusted"
    if isinstance(error, ValueError):  # such as requests' InvalidURL
        return Outcome.REFUSED, "cannot be sent"
    return Outcome.RETRY, "no connection" if never_connected(error) else CUT


def _read(response: requests.Response, deadline: float) -> str:
    body = b"".join(pieces(response, until=deadline, most_bytes=ANSWER_BYTES))
    if _breaks_off(response, body):
        raise ConnectionError(f"the response is truncated after {len(body)} bytes")
    return body.decode("utf-8", "replace")


def _breaks_off(response: requests.Response, body: bytes) -> bool:
    """Whether the line was cut within an answer that does not say how long it is."""
    told = {"Content-Length", "Transfer-Encoding"} & response.headers.keys()
    if response.status_code != requests.codes.ok or told:
        return False
    # Python takes headers that were cut for all there are; a yes without a length has to be whole by itself.
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return True
    return False
