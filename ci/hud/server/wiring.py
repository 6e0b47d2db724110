"""From the settings to what the server takes: secrets are read from their files, once, at the start."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ci.config import Settings
from ci.core.errors import SettingsError
from ci.core.secrets import read_secret
from ci.hud.server.allow_list import AllowList, OnlyRepository
from ci.hud.server.gate import Gate, Levels
from ci.hud.server.issuers import Issuers
from ci.hud.server.rate_limit import RateLimit

# What can be tried a thousand times a second for years and is not found.
SECRET_CHARACTERS = 32
READ_CHARACTERS = 16


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
