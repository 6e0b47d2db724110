"""One HTTP exchange with a token: no redirect, no netrc, no proxy to this machine, no endless wait."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

from ci.core.http import never_connected, pieces, session

CONNECT_TIMEOUT_S = 10
ANSWER_BYTES = 64 * 1024

Fault = Literal["untrusted", "unreachable", "cut", "unsendable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP answer, its text cut at ANSWER_BYTES; header names are in lower case."""

    status: int
    body: str
    headers: Mapping[str, str]


class NoReplyError(Exception):
    """No whole answer came.

    Attributes:
        fault: `untrusted` (the certificate), `unreachable` (nobody was there, so nothing was taken), `cut`
            (the other side may have taken it), `unsendable` (no such request can be made).
    """

    def __init__(self, said: str, fault: Fault) -> None:
        super().__init__(said)
        self.fault: Fault = fault


class Bearer(AuthBase):
    """Shows a token."""

    # Given as `auth`, because requests lets a ~/.netrc entry overwrite a plain Authorization header.
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the token into a request's header."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def exchange(
    method: Literal["GET", "POST"],
    url: str,
    *,
    token: str,
    timeout_s: float,
    data: bytes | None = None,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Make one request and read its answer.

    Args:
        method: GET or POST.
        url: where to; a redirect is an answer and not followed.
        token: what shows who asks.
        timeout_s: of the whole, the answer included.
        data: the body.
        params: added to the URL's query.
        headers: besides the token's.

    Raises:
        NoReplyError: no whole answer came; its text may hold the URL.
    """
    # The real clock, because the sockets below wait in real time, whatever clock the caller has.
    deadline = time.monotonic() + timeout_s
    try:
        with session(url) as asking:
            response = asking.request(
                method,
                url,
                data=data,
                params=params,
                headers={"Accept": "application/json", **(headers or {})},
                auth=Bearer(token),
                timeout=(min(CONNECT_TIMEOUT_S, timeout_s), timeout_s),
                allow_redirects=False,
                stream=True,
            )
            with response:
                told = {name.lower(): value for name, value in response.headers.items()}
                return Reply(status=response.status_code, body=_read(response, deadline), headers=told)
    except requests.exceptions.SSLError as error:
        raise NoReplyError(str(error), "untrusted") from error
    except (requests.Timeout, requests.ConnectionError, TimeoutError, HTTPError, OSError) as error:
        # requests' own errors of a request that cannot be made are OSErrors too.
        if isinstance(error, requests.RequestException) and isinstance(error, ValueError):
            raise NoReplyError(str(error), "unsendable") from error
        raise NoReplyError(str(error), "unreachable" if never_connected(error) else "cut") from error
    except ValueError as error:
        raise NoReplyError(str(error), "unsendable") from error


def _read(response: requests.Response, deadline: float) -> str:
    body = b"".join(pieces(response, until=deadline, most_bytes=ANSWER_BYTES))
    if _breaks_off(response, body):
        raise ConnectionError(f"the answer breaks off after {len(body)} bytes")
    return body.decode("utf-8", "replace")


def _breaks_off(response: requests.Response, body: bytes) -> bool:
    """Whether the line was cut within an answer that does not say how long it is."""
    told = {"Content-Length", "Transfer-Encoding"} & response.headers.keys()
    if response.status_code != 200 or told:  # noqa: PLR2004  # HTTP's own number
        return False
    # Python takes headers that were cut for all there are; a yes without a length has to be whole by itself.
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return True
    return False
