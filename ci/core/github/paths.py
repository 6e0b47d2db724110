"""Addresses and paths of GitHub's API, checked before a token goes anywhere; pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from ci.core.addresses import is_loopback, shown
from ci.core.errors import SettingsError, UsageError

PUBLIC_API = "https://api.github.com"
_REPOSITORY_PARTS = 2
_UPWARDS = {".", ".."}


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


def with_query(path: str, query: Mapping[str, str | int] | None) -> str:
    """The path with a query behind it, where there is one."""
    return f"{path}?{urlencode(query)}" if query else path


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
