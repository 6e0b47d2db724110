"""Who may write, for whom and how often: by a token, an OIDC issuer or a signature, never without one.

Secrets are read from their files once, at the start. Requests of one repository are counted as the relay
counts them: refused ones too. In memory, on purpose: one server process takes the requests of a store, a note
a request in the store would make a refused request cost as much as one that is taken, and after a restart a
minute is soon over.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from ci.config import Settings
from ci.core.errors import SettingsError
from ci.core.secrets import read_secret
from ci.hud.hmac_auth import SCHEME, check_header, signature_of
from ci.hud.server.allow_list import HEARD, AllowList, OnlyRepository
from ci.hud.server.issuers import FAILED_S, Issuers, KeysUnavailableError, TokenRefusedError

WINDOW_S = 60.0


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

    def wait(self, repository: str) -> int:
        """Count a request; 0 where it is taken, else whole seconds until one would be.

        Only the last `limit` requests need to be known: one more within the window is too many.

        Args:
            repository: one of the allow-list, so there are not any number of them.
        """
        now = self._clock()
        with self._lock:
            seen = self._seen.setdefault(repository, deque(maxlen=self._limit))
            full = len(seen) == self._limit and now - seen[0] < WINDOW_S
            seen.append(now)
            return max(1, math.ceil(seen[0] + WINDOW_S - now)) if full else 0


# Of the 40 threads all requests share.
AT_ONCE = 4
# What can be tried a thousand times a second for years and is not found.
SECRET_CHARACTERS = 32
READ_CHARACTERS = 16


class Levels(Protocol):
    """The allow-list."""

    def level(self, repository: str) -> str | None:
        """L1 to L4, or empty where there are no levels; None where the repository is not in it."""

    def heard(self) -> list[str]:
        """The repositories whose reports are taken."""

    def meant(self, repository: str) -> str | None:
        """The one that differs in letter case alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """What a request's credentials say.

    Attributes:
        repository: owner/name it speaks for; the body's word is never taken for it.
        by: `token` (the server's own), `oidc` or `hmac`.
        digest: SHA-256 the body must have, as hex; empty where only the header was signed.
        signature: of the request, by which it is known again; empty where there is none.
    """

    repository: str
    by: str
    digest: str = ""
    signature: str = ""

    def check(self, digest: str) -> None:
        """Refuse a body that is not the one that was signed.

        Args:
            digest: SHA-256 of the body, in hex.

        Raises:
            HTTPException: 401.
        """
        if self.digest and not secrets.compare_digest(self.digest, digest):
            raise unauthorized("the body is not the one that was signed")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What the server takes, and from whom.

    Attributes:
        token: the server's own write token.
        repository: owner/name that token speaks for.
        levels: the allow-list.
        limit: how often a repository may write.
        clock: seconds since the epoch.
        issuers: whose OIDC tokens are taken.
        shared: shared secrets and the repository each speaks for, by name.
        strict: whether every refusal is upstream's.
        read_token: what reading takes; empty: nothing.
        ingest_token: of the relay in front; empty: there is none.
        webhook_secret: of the GitHub webhook; empty: there is none.
        turns: of the requests at an issuer's keys, by its URL.
    """

    token: str = field(repr=False)
    repository: str
    levels: Levels
    limit: RateLimit
    clock: Callable[[], float]
    issuers: Issuers | None = None
    shared: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    strict: bool = False
    read_token: str = field(default="", repr=False)
    ingest_token: str = field(default="", repr=False)
    webhook_secret: str = field(default="", repr=False)
    turns: dict[str, asyncio.Semaphore] = field(default_factory=dict, repr=False)

    async def vouch(self, request: Request) -> Vouched:
        """What a request's Authorization header says, which may ask an issuer for its keys.

        Raises:
            HTTPException: 401; 403 for a genuine token of somebody unknown; 503, the issuer's keys cannot be
                had now.
        """
        value = request.headers.get("authorization", "")
        scheme, _, rest = value.partition(" ")
        if scheme.lower() == SCHEME.lower():
            return self._signed(request, value)
        token = rest.strip() if scheme.lower() == "bearer" else value.strip() if self.strict else ""
        if not token:
            raise unauthorized(
                "Missing authorization token" if self.strict else "missing or wrong bearer token"
            )
        if same_secret(token, self.token):
            return Vouched(repository=self.repository, by="token")
        if self.issuers is None or (not self.strict and token.count(".") != 2):  # noqa: PLR2004  # RFC 7519
            raise unauthorized(
                "Invalid authorization token" if self.strict else "missing or wrong bearer token"
            )
        async with self._turn(self.issuers, token):
            return await run_in_threadpool(self._by_issuer, self.issuers, token)

    async def admit(self, request: Request) -> Vouched:
        """Who writes, where the answer to a repository that is not heard is a refusal; for uploads.

        Raises:
            HTTPException: as `vouch`, 403 below L2, 429 too often.
        """
        vouched = await self.vouch(request)
        if self.level(vouched.repository) is None:
            raise HTTPException(403, f"{vouched.repository} is not at level L2 or above in the allow-list")
        self.count(vouched.repository)
        return vouched

    def level(self, repository: str) -> str | None:
        """The level of a repository whose reports are taken; None where they are ignored."""
        level = self.levels.level(repository)
        return level if level == "" or level in HEARD else None

    def count(self, repository: str) -> None:
        """Count a request.

        Raises:
            HTTPException: 429, there were too many; with Retry-After but in strict mode.
        """
        wait = self.limit.wait(repository)
        if wait:
            headers = None if self.strict else {"Retry-After": str(wait)}
            raise HTTPException(429, f"rate limit exceeded for {repository}", headers)

    def _signed(self, request: Request, value: str) -> Vouched:
        query = request.scope["query_string"].decode("latin-1")
        target = request.scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        keys = {name: secret for name, (secret, _) in self.shared.items()}
        found = check_header(value, keys, at=self.clock(), method=request.method, target=target)
        if found is None:
            raise unauthorized(
                "the signature does not hold, or its time is not within 5 minutes of the server's"
            )
        name, digest = found
        return Vouched(
            repository=self.shared[name][1], by="hmac", digest=digest, signature=signature_of(value)
        )

    def _turn(self, issuers: Issuers, token: str) -> asyncio.Semaphore:
        """What lets few requests of an issuer at its keys: one that answers slowly takes no more threads."""
        try:
            url = issuers.url(token)
        except TokenRefusedError as error:
            raise _refused(error) from error
        return self.turns.setdefault(url, asyncio.Semaphore(AT_ONCE))

    def _by_issuer(self, issuers: Issuers, token: str) -> Vouched:
        try:
            return Vouched(repository=issuers.repository(token), by="oidc")
        except TokenRefusedError as error:
            raise _refused(error) from error
        except KeysUnavailableError as error:
            if self.strict:
                raise unauthorized("Invalid authorization token") from error
            retry = {"Retry-After": str(int(FAILED_S) + 1)}
            raise HTTPException(503, f"the issuer's keys cannot be had: {error}", retry) from error


def same_secret(given: str, secret: str) -> bool:
    """Whether a client gave the secret, without telling by the time how much of it was right."""
    return bool(secret) and secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def unauthorized(said: str) -> HTTPException:
    """401 with the challenge HTTP wants beside it."""
    return HTTPException(401, said, _challenge(401))


def _refused(error: TokenRefusedError) -> HTTPException:
    return HTTPException(error.status, str(error), _challenge(error.status))


def _challenge(status: int) -> dict[str, str] | None:
    return {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004  # HTTP


def gate_of(
    settings: Settings, *, token: str, clock: Callable[[], float], warn: Callable[[str], None], strict: bool
) -> Gate:
    """What the server of these settings takes, and from whom.

    Args:
        settings: of the checkout.
        token: the server's own write token.
        clock: seconds since the epoch.
        warn: takes lines for people.
        strict: whether it answers as upstream does.

    Raises:
        SpyreCiError: a file of secrets or the allow-list cannot be used.
    """
    hud, repository = settings.model.hud, settings.model.report.repository
    levels = _levels(settings, repository, warn)
    gate = Gate(
        token=token,
        repository=repository,
        levels=levels,
        limit=RateLimit(hud.rate_limit, clock),
        clock=clock,
        issuers=Issuers(hud.issuers, clock=clock) if hud.issuers else None,
        shared={
            one.name: (_secret(settings, one.secret, f"hud.hmac.{one.name}"), one.repository)
            for one in hud.hmac
        },
        strict=strict,
        read_token=_secret(settings, hud.read_token, "hud.read_token", READ_CHARACTERS),
        ingest_token=_secret(settings, hud.ingest_token, "hud.ingest_token"),
        webhook_secret=_secret(settings, hud.webhook_secret, "hud.webhook_secret"),
    )
    if gate.level(repository) is None:
        warn(
            f"{settings.resolve(hud.allow_list or Path())}: {repository}, whose results are reported here, "
            "is not at L2 or above in it, in this letter case: its reports are ignored"
        )
    return gate


def _levels(settings: Settings, repository: str, warn: Callable[[str], None]) -> Levels:
    file = settings.model.hud.allow_list
    return OnlyRepository(repository) if file is None else AllowList(settings.resolve(file), warn=warn)


def _secret(settings: Settings, file: Path | None, key: str, least: int = SECRET_CHARACTERS) -> str:
    if file is None:
        return ""
    path = settings.resolve(file)
    secret = read_secret(path, key).strip()
    if not re.fullmatch(rf"[\x21-\x7e]{{{least},8192}}", secret):
        raise SettingsError(
            f"holds no secret of {least} or more characters without blanks",
            where=f"{path} ({key})",
            remedy="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return secret
