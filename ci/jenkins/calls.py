"""One HTTP exchange with a user's name and token: no redirect, no proxy to this machine, no endless wait."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import requests
from urllib3.exceptions import HTTPError

from ci.core.addresses import without_secrets
from ci.core.http import pieces, session
from ci.jenkins.errors import JenkinsAwayError

CONNECT_TIMEOUT_S = 10.0
ANSWER_BYTES = 4 << 20


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
        self._session = session(address)
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
            body = b"".join(pieces(response, until=deadline, most_bytes=ANSWER_BYTES))
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(status=response.status_code, headers=headers, text=body.decode("utf-8", "replace"))

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
