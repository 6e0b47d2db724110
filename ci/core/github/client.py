"""The client: every request to GitHub's API goes through here.

Waiting and trying again is ours: it is bounded, needs no clock to be tested, and never sends twice what may
have been done already. One request by itself is in `ci.core.github.wire`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ci.core.addresses import is_loopback, shown
from ci.core.errors import UsageError
from ci.core.github.answers import Reply, content_of, is_limited, limit_wait_s
from ci.core.github.errors import GitHubAwayError, GitHubDeniedError
from ci.core.github.wire import PUBLIC_API, Method, NoAnswerError, Wire, failure_of, fetch

__all__ = ["PER_PAGE", "PUBLIC_API", "Client", "Effects", "Method", "in_repository"]

# What a job's own token of GitHub Actions is known as; it may not ask who it is.
ACTIONS_LOGIN = "github-actions[bot]"
PER_PAGE = 100
TRIES = 4
FIRST_WAIT_S = 1.0
_REPOSITORY_PARTS = 2
_UPWARDS = {".", ".."}


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
        SettingsError: the address is none, or whoever listens on the way could read the token.
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
        self.api = api.rstrip("/")
        self._wire = Wire(self.api, token, timeout_s=timeout_s)
        self._effects = effects or Effects()
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._login = login

    def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Any:
        """What is there.

        Raises:
            GitHubError: see `ci.core.github.errors`.
        """
        return content_of(self._ask("GET", _with_query(path, query)), what=f"GET {path}")

    def changed(self, path: str, query: Mapping[str, str | int] | None, *, etag: str) -> Reply:
        """What is there, or the answer 304 where that is still what had this ETag; that costs no limit.

        Args:
            path: of what is asked for.
            query: what narrows it.
            etag: of the last answer; empty where there is none.

        Raises:
            GitHubError: see `ci.core.github.errors`.
        """
        return self._ask("GET", _with_query(path, query), etag=etag)

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
            GitHubError: it is not there, is bigger than `most_bytes`, or did not come whole.
        """
        reply = self._ask("GET", path, follows=True)
        where = reply.headers.get("location", "")
        try:
            safe = urlsplit(where).scheme == "https" or is_loopback(urlsplit(where).hostname or "")
        except ValueError:
            safe = False
        if not safe:
            raise GitHubAwayError(
                f"GET {path} leads to no address that can be trusted: {shown(where)!r}", remedy="do it again"
            )
        tries = 0
        while True:
            tries += 1
            try:
                return fetch(
                    where, into, what=f"GET {path}", most_bytes=most_bytes, timeout_s=self._timeout_s
                )
            except GitHubAwayError:
                if tries >= TRIES:
                    raise
            self._effects.sleep(self._pause_s(tries))

    def _ask(
        self,
        method: Method,
        path: str,
        body: Any = None,
        *,
        again: bool = True,
        follows: bool = False,
        etag: str = "",
    ) -> Reply:
        """An answer that is ok, or leads elsewhere (`follows`), or says that nothing changed (`etag`).

        Asked again while that makes sense.
        """
        what = f"{method} {urlsplit(path).path}"
        end = self._effects.monotonic() + self._patience_s
        tries = 0
        while True:
            tries += 1
            reply, failure = None, None
            try:
                reply = self._wire.exchange(method, path, body, etag=etag)
            except NoAnswerError as error:
                failure = error
            good = {302} if follows else {304} if etag else set[int]()
            if reply is not None and (reply.ok or reply.status in good):
                return reply
            wait_s = self._wait_s(reply, failure, tries, again=again)
            if wait_s is None or self._effects.monotonic() + wait_s > end:
                raise failure_of(reply, failure, what, wait_s)
            self._effects.sleep(wait_s)

    def _wait_s(
        self, reply: Reply | None, failure: NoAnswerError | None, tries: int, *, again: bool
    ) -> float | None:
        """Seconds to wait before the next try; None where another makes no sense."""
        if reply is not None and is_limited(reply):
            return limit_wait_s(reply, now_s=self._effects.now())
        bad = failure is not None or (reply is not None and reply.status >= 500)  # noqa: PLR2004  # HTTP's
        untouched = failure is not None and not failure.taken
        if not bad or tries >= TRIES or not (again or untouched):
            return None
        return self._pause_s(tries)

    def _pause_s(self, tries: int) -> float:
        """Longer after each try, and not the same for everybody."""
        return float(FIRST_WAIT_S * 2 ** (tries - 1) * (0.5 + self._effects.rng()))


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
