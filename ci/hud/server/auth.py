"""Who may write, for whom and how often, by the server's own token or an OIDC issuer's; and who may read.

Secrets are read from their files once, at the start. Requests of one repository are counted as the relay
counts them: refused ones too. In memory, on purpose: one server process takes the requests of a store, and
after a restart a minute is soon over.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ci.config import Settings
from ci.core.errors import SettingsError
from ci.core.secrets import read_secret
from ci.hud.server.allow_list import AllowList
from ci.hud.server.http import CHALLENGE
from ci.hud.server.issuers import Issuers

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]
COOKIE = "spyre_ci_hud"
WINDOW_S = 60.0
# What can be tried a thousand times a second for years and is not found.
SECRET_CHARACTERS = 32
READ_CHARACTERS = 16
# Of the 40 threads all requests share, for tokens whose issuer may be slow to give its keys.
AT_ONCE = 4


class RateLimit:
    """A sliding window of 60 s for each repository.

    Args:
        limit: requests a window.
        clock: seconds since the epoch.
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, deque[float]] = {}

    def takes(self, repository: str) -> bool:
        """Count a request, and return whether it is within the limit.

        Only the last `limit` requests need to be known: one more within the window is too many.

        Args:
            repository: one of the allow-list, so there are not any number of them.
        """
        now = self._clock()
        with self._lock:
            seen = self._seen.setdefault(repository, deque(maxlen=self._limit))
            # Requests of a clock that was ahead are of no window.
            full = len(seen) == self._limit and 0 <= now - seen[0] < WINDOW_S
            seen.append(now)
            return not full


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Whoever a request's credentials vouch for.

    Attributes:
        repository: owner/name it speaks for; the body's word is never taken for it.
        level: of the repository, L2 to L4; empty where there are no levels; None where it is not heard.
        own: whether it has the server's own token.
    """

    repository: str
    level: str | None
    own: bool


@dataclass(frozen=True, kw_only=True)
class Auth:
    """Whose requests the server takes.

    Attributes:
        token: the server's own write token.
        repository: owner/name that token speaks for.
        allow_list: who is heard.
        limit: how often a repository may write.
        issuers: whose OIDC tokens are taken.
        read_token: what reading takes; empty: nothing.
        ingest_token: of the relay in front; empty: there is none.
        webhook_secret: of the GitHub webhook; empty: there is none.
    """

    token: str = field(repr=False)
    repository: str
    allow_list: AllowList
    limit: RateLimit
    issuers: Issuers = field(default_factory=lambda: Issuers([]))
    read_token: str = field(default="", repr=False)
    ingest_token: str = field(default="", repr=False)
    webhook_secret: str = field(default="", repr=False)
    _threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(AT_ONCE))

    async def writer(self, bearer: HTTPAuthorizationCredentials | None) -> Writer:
        """Whoever a bearer token vouches for, which may ask an issuer for its keys.

        Raises:
            HTTPException: 401, 403 or 503, as `Issuers.repository` says.
        """
        if bearer is None:
            raise HTTPException(401, "Missing authorization token", CHALLENGE)
        token, repository = bearer.credentials, self.repository
        own = same_secret(token, self.token)
        if not own:
            repository = await anyio.to_thread.run_sync(self.issuers.repository, token, limiter=self._threads)
        return Writer(repository=repository, level=self.allow_list.level(repository), own=own)

    async def admit(self, bearer: HTTPAuthorizationCredentials | None) -> Writer:
        """Who writes, where the answer to a repository that is not heard is a refusal.

        Raises:
            HTTPException: as `writer`, 403 below L2, 429 too often.
        """
        writer = await self.writer(bearer)
        if writer.level is None:
            raise HTTPException(403, f"{writer.repository} is not at level L2 or above in the allow-list")
        self.count(writer.repository)
        return writer

    def count(self, repository: str) -> None:
        """Count a request.

        Raises:
            HTTPException: 429, there were too many.
        """
        if not self.limit.takes(repository):
            raise HTTPException(429, f"rate limit exceeded for {repository}")

    def may_read(self, request: Request) -> bool:
        """Whether a request shows one of the two tokens, or the cookie, where reading takes one."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        bearer = given.strip() if scheme.lower() == "bearer" else ""
        known = same_secret(bearer, self.read_token) or same_secret(bearer, self.token)
        return known or same_secret(request.cookies.get(COOKIE, ""), self.cookie)

    @property
    def cookie(self) -> str:
        """The cookie of the read token's holder: who sees it has not the token, and a new token ends it."""
        return hmac.new(self.read_token.encode(), b"spyre-ci-hud reads", hashlib.sha256).hexdigest()


def same_secret(given: str, secret: str) -> bool:
    """Whether a client gave the secret, without telling by the time how much of it was right."""
    return bool(secret) and secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def auth_of(
    settings: Settings, *, token: str, clock: Callable[[], float], warn: Callable[[str], None]
) -> Auth:
    """Whose requests the server of these settings takes.

    Args:
        settings: of the checkout.
        token: the server's own write token.
        clock: seconds since the epoch.
        warn: takes lines for people.

    Raises:
        SpyreCiError: a file of secrets or the allow-list cannot be used.
    """
    hud, repository = settings.model.hud, settings.model.report.repository
    file = None if hud.allow_list is None else settings.resolve(hud.allow_list)
    auth = Auth(
        token=token,
        repository=repository,
        allow_list=AllowList(file, only=repository, warn=warn),
        limit=RateLimit(hud.rate_limit, clock),
        issuers=Issuers(hud.issuers),
        read_token=_secret(settings, hud.read_token, "hud.read_token", READ_CHARACTERS),
        ingest_token=_secret(settings, hud.ingest_token, "hud.ingest_token"),
        webhook_secret=_secret(settings, hud.webhook_secret, "hud.webhook_secret"),
    )
    if auth.allow_list.level(repository) is None:
        warn(
            f"{file}: {repository} (report.repository) is not listed at L2 or above in this letter case, so "
            "its reports are ignored"
        )
    return auth


def _secret(settings: Settings, file: Path | None, key: str, least: int = SECRET_CHARACTERS) -> str:
    if file is None:
        return ""
    path = settings.resolve(file)
    secret = read_secret(path, key).strip()
    if not re.fullmatch(rf"[\x21-\x7e]{{{least},8192}}", secret):
        raise SettingsError(
            f"must contain a secret of at least {least} characters without blanks",
            where=f"{path} ({key})",
            remedy="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return secret
