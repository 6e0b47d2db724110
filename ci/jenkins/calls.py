"""One HTTP exchange with a user's name and token: no redirect, no proxy to this machine, no endless wait."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from ci.core.addresses import is_loopback, without_secrets
from ci.jenkins.errors import JenkinsAwayError

CONNECT_TIMEOUT_S = 10.0
ANSWER_BYTES = 4 << 20
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return 200 <= self.status < 300  # noqa: PLR2004  # HTTP's own numbers


class Caller:
    """Makes requests below an address, with the cookies that its answers set.

    Args:
        address: of the server, without a slash at its end.
        user: its name.
        token: its password.
        timeout_s: of a whole exchange.
    """

    def __init__(self, address: str, *, user: str, token: str, timeout_s: float = 30) -> None:
        self._address, self._token, self._timeout_s = address, token, timeout_s
        self._session = requests.Session()
        # A proxy of the environment cannot reach this machine's own loopback.
        self._session.trust_env = not is_loopback(urlsplit(address).hostname or "")
        # Given as `auth`, because requests lets a ~/.netrc entry win over a header.
        self._session.auth = (user, token)

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def call(
        self,
        method: Literal["GET", "POST"],
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Make one request and read its answer, of whatever status.

        Args:
            method: GET or POST.
            path: below the address.
            query: added to it.
            form: sent as a page's form is.
            headers: besides the usual ones.

        Raises:
            JenkinsAwayError: no whole answer came.
        """
        shown = {"Accept": "application/json", **(headers or {})}
        request = requests.Request(method, self._address + path, params=query, data=form, headers=shown)
        deadline = time.monotonic() + self._timeout_s
        with self._sent(request) as response:
            return Answer(
                status=response.status_code, headers=_told(response), text=_text(response, deadline)
            )

    @contextmanager
    def _sent(self, request: requests.Request) -> Iterator[requests.Response]:
        prepared = self._session.prepare_request(request)
        settings = self._session.merge_environment_settings(prepared.url, {}, True, None, None)
        try:
            with self._session.send(
                prepared,
                timeout=(min(CONNECT_TIMEOUT_S, self._timeout_s), self._timeout_s),
                allow_redirects=False,
                **settings,
            ) as response:
                yield response
        except (requests.RequestException, HTTPError, OSError) as error:
            if getattr(error, "filename", None) is not None:  # of a file here
                raise
            said = without_secrets(str(error)).replace(self._token, "***")[:300]
            what = f"{request.method} {request.url.removeprefix(self._address)}"
            raise JenkinsAwayError(
                f"Jenkins gives no whole answer to {what}: {said}",
                remedy="see whether it is up, and its address; another time may do",
            ) from error


def _told(response: requests.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _text(response: requests.Response, deadline: float) -> str:
    if response.is_redirect:  # requests has read it, to see where it leads
        return response.content[:ANSWER_BYTES].decode("utf-8", "replace")
    return b"".join(_pieces(response, deadline, ANSWER_BYTES)).decode("utf-8", "replace")


def _pieces(response: requests.Response, deadline: float, most_bytes: int) -> Iterator[bytes]:
    """An answer as it comes, until a little beyond `most_bytes`.

    Raises:
        HTTPError: it takes too long, or breaks off; no OSError, which would be taken for one of the file.
    """
    # A time-out of requests is between two bytes; only read1 gives what has come so far.
    size = 0
    while size <= most_bytes:
        chunk = response.raw.read1(CHUNK, decode_content=True)
        if not chunk:
            break
        size += len(chunk)
        yield chunk
        if time.monotonic() > deadline:
            raise HTTPError("the answer takes too long")
    promised = response.headers.get("Content-Length", "")
    # What is packed is longer or shorter than what was promised.
    whole = promised.isdecimal() and "Content-Encoding" not in response.headers
    if whole and size < min(int(promised), most_bytes):
        raise HTTPError(f"the answer breaks off after {size} bytes")
