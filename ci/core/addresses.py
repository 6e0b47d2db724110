"""Addresses fit to be shown: without what may be a secret in them (law 9); and which are this machine's.

A password is to be escaped in an address, and people paste it as it is, with `/`, `@`, `?` or `#` in it.
Where nobody can tell where it ends, too much is taken out rather than too little.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import parse_qsl, unquote, urlsplit

from ci.core.text import one_line

# The user name of an ssh address (`git@`) is no secret, and the address does not work without it.
_CREDENTIALS = re.compile(r"(?<!ssh)(://)[^/\s]*@")
_SSH_PASSWORD = re.compile(r"(ssh://[^/@\s:]*):[^/\s]*@")
# `user:pass/word@`, which is not `host:8443/path@ref`; nothing is this long, and a search has to end.
_SLASHED = re.compile(r"(://)[^/@\s:]*:(?!\d{1,5}/)[^\s]{0,1000}@")
# `user:pass word@`: only a password that nobody escaped has blanks, and it ends before the next address.
_BLANK = r":(?!\d{1,5}(?:[/\s]|$))[^@\s]{0,200}[^\S\n](?:(?!://)[^\n]){0,200}@"
_BLANK_SSH = re.compile(r"(ssh://[^/@\s:]*)" + _BLANK)
_BLANK_ELSE = re.compile(r"(?<!ssh)(://)[^/@\s:]*" + _BLANK)
# In the address of a Redis no `@` follows its host; that of a socket is a path, which may have one.
_REDIS = re.compile(r"((?:rediss?|unix)://)([^\s]{0,1000})@", re.IGNORECASE)
_PARAMETER = re.compile(r"([?&;])([^=&;\s'\"]{1,200})=[^&;\s'\")]+")
_SAYS_SECRET = re.compile(r"pass|pwd|secret|token|credential|auth", re.IGNORECASE)
# Errors quote addresses without their beginning as well, as in `url: /callback?token=…`.
_QUERY = re.compile(r"(/[^\s?#/]*\?)[^\s)'\"]+")

_PORTS = {"http": 80, "https": 443}


def without_credentials(text: str) -> str:
    """The text with user name and password taken out of every address in it, and out of their queries."""
    text = _REDIS.sub(lambda found: found[1] if ":" in found[2] else found[0], text)
    text = _BLANK_ELSE.sub(r"\1", _BLANK_SSH.sub(r"\1@", text))
    text = _SSH_PASSWORD.sub(r"\1@", text)
    text = _SLASHED.sub(r"\1", _CREDENTIALS.sub(r"\1", text))
    return _PARAMETER.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}=***" if _SAYS_SECRET.search(unquote(found[2])) else found[0]


def without_secrets(text: str) -> str:
    """The text with credentials taken out of every address in it, and queries, which may be a token."""
    return _QUERY.sub(r"\1***", without_credentials(text))


def safe_line(text: str, limit: int = 300) -> str:
    """A stranger's text on one short line, without what may be secret or steer a terminal."""
    return one_line(without_secrets(text), limit)


def shown(address: str) -> str:
    """One address, with nothing in it that may be secret; blanks in it do not end it."""
    scheme, found, rest = address.partition("://")
    if not found:
        return address
    rest = rest.rpartition("@")[2]
    path, query, _ = rest.partition("?")
    return f"{scheme}://{path}{query and '?***'}"


def says_password(address: str) -> bool:
    """Whether an address holds a password, before its host or in its query."""
    _, found, rest = address.partition("://")
    if not found:
        return False
    user, _, _ = rest.rpartition("@")
    _, _, query = rest.partition("?")
    keys = [key for key, _ in parse_qsl(query.replace(";", "&"), keep_blank_values=True)]
    return ":" in user or any(map(_SAYS_SECRET.search, keys))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(address: str) -> str:
    """The host an address leads to, with a port that is not its scheme's own; empty: it leads nowhere."""
    try:
        parts = urlsplit(address.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    return host if port in {None, _PORTS.get(parts.scheme.lower())} else f"{host}:{port}"
