"""One request to GitHub's API, by PyGithub's requester, and what its failure is; one download from its store.

PyGithub signs, builds addresses and keeps the connection. GitHub leads to a store of somebody else's, which
is shown no token.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import requests
from github import Auth, Github
from urllib3.exceptions import HTTPError

from ci.core.addresses import is_loopback, shown, without_secrets
from ci.core.errors import SettingsError
from ci.core.github.answers import Reply, error_of, is_limited
from ci.core.github.errors import GitHubAwayError, GitHubError, GitHubRefusedError
from ci.core.http import as_nobody, never_connected, pieces
from test_selection.files import atomic_writer

PUBLIC_API = "https://api.github.com"
# A server that drips is waited for no longer, however big a download is.
FETCH_S = 600.0
Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]


class NoAnswerError(Exception):
    """No whole answer came; `taken` says whether it may have been done all the same."""

    def __init__(self, said: str, *, taken: bool) -> None:
        super().__init__(said)
        self.taken = taken


class Wire:
    """The way to an API, with a token.

    Args:
        api: its address, without a slash at its end.
        token: what shows who asks.
        timeout_s: of a request, between two bytes.

    Raises:
        SettingsError: the address is none, or whoever listens on the way could read the token.
    """

    def __init__(self, api: str, token: str, *, timeout_s: int) -> None:
        self._token = token
        # GitHub asks for a second between writes; nobody has such a limit on this machine.
        pace = 0.0 if is_loopback(host_of(api)) else 1.0
        self._github = Github(
            auth=Auth.Token(token),
            base_url=api,
            timeout=timeout_s,
            user_agent="spyre-ci",
            retry=None,
            seconds_between_requests=pace / 4,
            seconds_between_writes=pace,
            lazy=True,
        )

    def exchange(self, method: Method, path: str, body: Any, *, etag: str = "") -> Reply:
        """Make a request and read its answer, of whatever status.

        Raises:
            NoAnswerError: none came, or not the whole of it.
        """
        known = {"If-None-Match": etag} if etag else None
        try:
            status, headers, text = self._github.requester.requestJson(
                method, path, input=body, headers=known
            )
        except (requests.RequestException, OSError, RuntimeError, ValueError) as error:
            # PyGithub's own of a redirect it does not follow, and requests' of one that is no address, too.
            said = without_secrets(str(error)).replace(self._token, "***")
            what = f"{method} {urlsplit(path).path}"
            raise NoAnswerError(f"{what}: {said}"[:500], taken=not never_connected(error)) from None
        told = {name.lower(): str(value) for name, value in headers.items()}
        return Reply(status=status, headers=told, text=text.replace(self._token, "***"))


def failure_of(
    reply: Reply | None, failure: NoAnswerError | None, what: str, wait_s: float | None
) -> GitHubError:
    """The error that the last try of a request is.

    Args:
        reply: its answer, where one came.
        failure: why none came.
        what: was asked for.
        wait_s: how long another try would have had to wait; None where it makes no sense.
    """
    if reply is None:
        doubt = " (it may have been done all the same)" if failure is not None and failure.taken else ""
        return GitHubAwayError(
            f"GitHub gives no answer{doubt}: {failure}", remedy="check the network and do it again"
        )
    if is_limited(reply) and wait_s is not None:
        limited = GitHubAwayError(
            f"GitHub's limit is reached, for {wait_s:.0f} s more: {what}", remedy="do it again after that"
        )
        limited.retry_s = wait_s
        return limited
    return error_of(reply, what=what)


def host_of(api: str) -> str:
    """The host of an API's address.

    Raises:
        SettingsError: it is no address, or whoever listens on the way could read the token.
    """
    try:
        parts = urlsplit(api)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.username or parts.query or parts.scheme not in {"http", "https"}:
        raise SettingsError(
            f"{shown(api)!r} is no address of GitHub's API", remedy=f"give one such as {PUBLIC_API}"
        )
    if parts.scheme != "https" and not is_loopback(host):
        raise SettingsError(
            f"{shown(api)!r} is plain http, and whoever listens on the way could read the token",
            remedy="give an https address",
        )
    return host


def fetch(url: str, into: Path, *, what: str, most_bytes: int, timeout_s: float) -> int:
    """Write what is at an address into a file, whole or not at all, and return its size.

    Args:
        url: where; nobody is shown a token, a password of ~/.netrc or a redirect.
        into: the file.
        what: named in errors, in place of the address, which may be a secret.
        most_bytes: it may have.
        timeout_s: between two bytes.

    Raises:
        GitHubAwayError: it did not come, or not whole.
        GitHubRefusedError: it is bigger.
    """
    size = 0
    # The real clock, as the socket waits in real time.
    end = time.monotonic() + FETCH_S
    try:
        with (
            requests.get(
                url, stream=True, timeout=timeout_s, allow_redirects=False, auth=as_nobody
            ) as response,
            atomic_writer(into) as file,
        ):
            if response.status_code != 200:  # noqa: PLR2004  # HTTP's own number
                raise GitHubAwayError(
                    f"{what}: its store answers with {response.status_code}", remedy="do it again"
                )
            for chunk in pieces(response, until=end, most_bytes=most_bytes):
                size += len(chunk)
                if size > most_bytes:
                    raise GitHubRefusedError(
                        f"{what}: has more than {most_bytes:,} bytes", remedy="nothing of it is used"
                    )
                file.write(chunk)
    except TimeoutError as error:
        raise GitHubAwayError(f"{what}: takes longer than {FETCH_S:.0f} s", remedy="do it again") from error
    except (requests.RequestException, HTTPError, ConnectionError) as error:
        said = without_secrets(str(error))[:200]
        raise GitHubAwayError(f"{what}: did not come whole: {said}", remedy="do it again") from error
    return size
