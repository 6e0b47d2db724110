"""GitHub's API, on github.com and GitHub Enterprise: every request to it goes through here.

PyGithub signs, builds addresses and keeps the connection. Waiting and trying again is ours: it is bounded,
needs no clock to be tested, and never sends twice what may have been done already. Downloads come from a
store of somebody else's, which is shown no token.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import requests
from urllib3.exceptions import HTTPError

from ci.core.addresses import is_loopback, shown, without_secrets
from ci.core.errors import SettingsError, UsageError
from ci.core.extras import wanted
from ci.core.github.answers import content_of, error_of
from ci.core.github.errors import GitHubAwayError, GitHubDeniedError, GitHubRefusedError
from ci.core.http import Answer, as_nobody, is_private, never_connected, pieces
from ci.core.secrets import checked_token
from test_selection.files import atomic_writer

PUBLIC_API = "https://api.github.com"
API_VARIABLE = "GITHUB_API_URL"
# Who writes, for the token of an app, which may not ask; without it such a token counts as Actions' own.
LOGIN_VARIABLE = "SPYRE_CI_GITHUB_LOGIN"
# The first that is set counts: ours is for a token that may do more than a job's own.
TOKEN_VARIABLES = ("SPYRE_CI_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")
# What a job's own token of GitHub Actions is known as; it may not ask who it is.
ACTIONS_LOGIN = "github-actions[bot]"
PER_PAGE = 100
TRIES = 4
FIRST_WAIT_S = 1.0
# A server that drips is waited for no longer, however big a download is.
FETCH_S = 600.0
_REPOSITORY_PARTS = 2
_UPWARDS = {".", ".."}
Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The outside world of a client: time and chance.

    Attributes:
        monotonic: seconds, for how long something takes.
        now: seconds since the epoch, as GitHub tells the end of a limit.
        sleep: waits so many seconds.
        rng: a number from 0 to 1, so that many clients do not come back at the same moment.
    """

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], object] = time.sleep
    rng: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)


class Client:
    """GitHub's API, as one token sees it.

    Args:
        api: its address, such as https://api.github.com or https://github.example.com/api/v3.
        token: what shows who asks.
        effects: time and chance.
        timeout_s: of a request, between two bytes.
        patience_s: how long one call may wait in all, for limits and for GitHub to get well.
        login: who the token is, where that is known; None asks.

    Raises:
        SettingsError: the address is none, or anyone on the network path could read the token.
        CommandError: PyGithub is not installed.
    """

    def __init__(
        self,
        *,
        api: str,
        token: str,
        effects: Effects | None = None,
        timeout_s: int = 30,
        patience_s: float = 90,
        login: str | None = None,
    ) -> None:
        with wanted("GitHub access needs", extra="github"):
            from github import Auth, Github  # noqa: PLC0415  # most verbs ask GitHub nothing

        self.api = api.rstrip("/")
        # GitHub asks for a second between writes; nobody has such a limit on this machine.
        pace = 0.0 if is_loopback(host_of(self.api)) else 1.0
        self._github = Github(
            auth=Auth.Token(token),
            base_url=self.api,
            timeout=timeout_s,
            user_agent="spyre-ci",
            retry=None,
            seconds_between_requests=pace / 4,
            seconds_between_writes=pace,
            lazy=True,
        )
        self._token, self._timeout_s, self._patience_s = token, timeout_s, patience_s
        self._effects = effects or Effects()
        self._login = login

    def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Any:
        """What is there.

        Raises:
            GitHubError: see `ci.core.github.errors`.
        """
        return content_of(self._ask("GET", _with_query(path, query)), what=f"GET {path}")

    def pages(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        *,
        key: str | None = None,
        most: int = 1000,
    ) -> list[dict[str, Any]]:
        """A list, page by page; what in it is no object is left out.

        Args:
            path: of the list.
            query: what narrows it.
            key: under which an answer holds the list; None where it is the list.
            most: after so many the rest is left.

        Raises:
            GitHubError: see `ci.core.github.errors`.
        """
        found: list[dict[str, Any]] = []
        for number in range(1, most // PER_PAGE + 2):
            asked = _with_query(path, {**(query or {}), "per_page": PER_PAGE, "page": number})
            reply = self._ask("GET", asked)
            content = content_of(reply, what=f"GET {path}")
            rows = content.get(key) if key is not None and isinstance(content, dict) else content
            if not isinstance(rows, list):
                raise GitHubAwayError(
                    f"the answer to GET {path} is no list", remedy="check the API's address"
                )
            found += [row for row in rows if isinstance(row, dict)]
            if not reply.has_next or len(found) >= most:
                break
        return found[:most]

    def send(self, method: Method, path: str, body: Any = None, *, again: bool | None = None) -> Any:
        """Change something.

        Args:
            method: POST, PATCH, PUT or DELETE.
            path: of what is changed.
            body: sent as JSON.
            again: whether it may be sent twice, where nobody knows if the first was taken; by default what
                HTTP says: POST may not.

        Raises:
            GitHubError: see `ci.core.github.errors`.
        """
        reply = self._ask(method, path, body, again=method != "POST" if again is None else again)
        return content_of(reply, what=f"{method} {path}")

    def login(self) -> str:
        """Who the token is, as its comments say."""
        if self._login is None:
            try:
                told = self.get("/user")
            except GitHubDeniedError as error:
                if "not accessible by integration" not in error.what:
                    raise
                self._login = ACTIONS_LOGIN
            else:
                self._login = str(told.get("login", "")) if isinstance(told, dict) else ""
        return self._login

    def download(self, path: str, into: Path, *, most_bytes: int) -> int:
        """Write what GitHub leads to from `path` into a file, and return its size.

        The token is not shown to whoever stores it.

        Raises:
            GitHubError: it is not found, is bigger than `most_bytes`, or did not come whole.
        """
        where = self._ask("GET", path, good={302}).headers.get("location", "")
        what = f"GET {path}"
        if not is_private(where):
            raise GitHubAwayError(
                f"{what} leads to no address that can be trusted: {shown(where)!r}", remedy="do it again"
            )
        load = partial(fetch, where, into, what=what, most_bytes=most_bytes, timeout_s=self._timeout_s)
        return self._tried(load, until=math.inf)

    def _ask(
        self,
        method: Method,
        path: str,
        body: Any = None,
        *,
        again: bool = True,
        good: Container[int] = (),
    ) -> Answer:
        """An answer that is ok, or has another status that is good; asked again while that makes sense."""
        ask = partial(self._exchange, method, path, body, good=good)
        return self._tried(ask, until=self._effects.monotonic() + self._patience_s, again=again)

    def _tried(self, call: Callable[[], Done], *, until: float, again: bool = True) -> Done:
        """What a call gives, by another try where GitHub is away and one may be made."""
        for tries in itertools.count(1):
            try:
                return call()
            except GitHubAwayError as error:
                wait_s = error.retry_s
                if wait_s is None:
                    if tries >= TRIES or (error.taken and not again):
                        raise
                    # Longer after each try, and not the same for everybody.
                    wait_s = FIRST_WAIT_S * 2 ** (tries - 1) * (0.5 + self._effects.rng())
                if self._effects.monotonic() + wait_s > until:
                    raise
            self._effects.sleep(wait_s)
        raise AssertionError  # it counts for ever

    def _exchange(self, method: Method, path: str, body: Any, *, good: Container[int]) -> Answer:
        what = f"{method} {urlsplit(path).path}"
        try:
            status, headers, text = self._github.requester.requestJson(method, path, input=body)
        except (requests.RequestException, OSError, RuntimeError, ValueError) as error:
            # PyGithub's own of a redirect it does not follow, and requests' of one that is no address, too.
            said = f"{what}: {self._hidden(without_secrets(str(error)))}"[:500]
            taken = not never_connected(error)
            doubt = " (it may have been done all the same)" if taken and method != "GET" else ""
            raise GitHubAwayError(
                f"GitHub does not answer{doubt}: {said}",
                remedy="check the network and try again",
                taken=taken,
            ) from None
        told = {name.lower(): str(value) for name, value in headers.items()}
        reply = Answer(status=status, headers=told, text=self._hidden(text))
        if reply.ok or status in good:
            return reply
        raise error_of(reply, what=what, now_s=self._effects.now())

    def _hidden(self, text: str) -> str:
        return text.replace(self._token, "***")


def connect(environ: Mapping[str, str]) -> Client:
    """The client of this job's GitHub.

    Which API the token is shown to is said by the environment only: a file of a pull request could name
    somebody else's.

    Raises:
        SettingsError: there is no token, it is none, or the address is none.
    """
    return Client(
        api=environ.get(API_VARIABLE) or PUBLIC_API,
        token=find_token(environ),
        login=environ.get(LOGIN_VARIABLE) or None,
    )


def find_token(environ: Mapping[str, str]) -> str:
    """The token of the environment.

    Raises:
        SettingsError: there is none, or it is none; the message never holds it.
    """
    for name in TOKEN_VARIABLES:
        if environ.get(name, "").strip():
            return checked_token(environ[name], name)
    raise SettingsError(
        "there is no token for GitHub",
        where=TOKEN_VARIABLES[0],
        remedy="set it; in a workflow: GITHUB_TOKEN: ${{ github.token }}",
    )


def in_repository(repository: str, *parts: str | int) -> str:
    """The path of something of a repository, such as `/repos/o/r/issues/7/comments`.

    Raises:
        UsageError: the repository is no owner/name, or a part would lead out of it.
    """
    names = repository.split("/")
    if len(names) != _REPOSITORY_PARTS or not all(names) or _UPWARDS & set(names):
        raise UsageError(f"{repository!r} is no repository", remedy="give owner/name")
    if _UPWARDS & set(map(str, parts)):
        raise UsageError(f"{parts!r} is nothing of a repository", remedy="check the name")
    return "/repos/" + "/".join(quote(str(part), safe="") for part in (*names, *parts))


def _with_query(path: str, query: Mapping[str, str | int] | None) -> str:
    """The path with a query behind it, where there is one."""
    return f"{path}?{urlencode(query)}" if query else path


def host_of(api: str) -> str:
    """The host of an API's address.

    Raises:
        SettingsError: it is no address, or anyone on the network path could read the token.
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
            f"{shown(api)!r} is plain http, and anyone on the network path could read the token",
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
        raise GitHubAwayError(f"{what}: incomplete download: {said}", remedy="do it again") from error
    return size
