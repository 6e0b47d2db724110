"""URLs of hooks: by what two of them are the same, however they are spelled and whatever their token is."""

from __future__ import annotations

import re
import string
from urllib.parse import quote, urlsplit, urlunsplit

from ci.webhooks.model import Hook

_PORTS = {"http": 80, "https": 443}
# What a URL may say with or without an escape, to the same effect (RFC 3986, 6.2.2).
_UNRESERVED = string.ascii_letters + string.digits + "-._~"


def identity(url: str) -> str:
    """What two spellings of a URL have in common: host in small letters, no default port, no last slash.

    Nobody's name and password, no escape that is not needed. A URL that nobody can read is its own identity.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return url
    scheme = parts.scheme.lower()
    netloc = host if port in {None, _PORTS.get(scheme)} else f"{host}:{port}"
    path, query = (re.sub("%[0-9A-Fa-f]{2}", _unescaped, one) for one in (parts.path, parts.query))
    return urlunsplit((scheme, netloc, path.rstrip("/"), query, ""))


def _unescaped(match: re.Match[str]) -> str:
    sign = chr(int(match[0][1:], 16))
    return sign if sign in _UNRESERVED else match[0].upper()


def with_token(hook: Hook, token: str) -> Hook:
    """A hook with a token in its URL, by which Jenkins finds a job; GitHub can send it no other way."""
    return hook.model_copy(update={"url": f"{hook.url}?token={quote(token, safe='')}"})


def without_token(url: str) -> tuple[str, str]:
    """A URL without its token, and the token; empty where it has none."""
    where, _, query = url.partition("?")
    parts = [one for one in query.split("&") if one]
    rest = "&".join(one for one in parts if not one.startswith("token="))
    token = "&".join(one for one in parts if one.startswith("token="))
    return f"{where}?{rest}" if rest else where, token


def target(url: str) -> str:
    """What a hook is known by: its URL however that is spelled and whatever its token is.

    A token that was renewed leaves no second hook behind.
    """
    return without_token(identity(url))[0]
