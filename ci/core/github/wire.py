"""One request to GitHub's API, by PyGithub's requester, and what its failure is.

PyGithub signs, builds addresses and keeps the connection.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

import requests
from github import Auth, Github

from ci.core.addresses import is_loopback, without_secrets
from ci.core.github.answers import Reply, error_of, is_limited
from ci.core.github.errors import GitHubAwayError, GitHubError
from ci.core.github.paths import host_of
from ci.core.http import never_connected

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
        return GitHubAwayError(
            f"GitHub's limit is reached, for {wait_s:.0f} s more: {what}",
            remedy="do it again after that",
            retry_s=wait_s,
        )
    return error_of(reply, what=what)
