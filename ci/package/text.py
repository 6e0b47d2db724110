"""What a project's files, linters and tests say, made harmless for terminals and GitHub's runner; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from ci.core.addresses import without_secrets
from ci.core.text import clip, one_line, plain
from ci.core.workflow_commands import defused

_INDEXES = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
)
_CREDENTIALS = re.compile(r"://(\S*)@")
# Shorter ones are parts of words.
_LEAST = 3
_MOST = 500
_MOST_OF_A_LINE = 4000


def harmless(text: str) -> str:
    """A message on one line that says what it says, and does nothing."""
    return defused(one_line(text, _MOST))


def harmless_line(text: str) -> str:
    """A line of somebody's output, with its blanks, that says what it says, and does nothing."""
    return defused(clip(plain(text), _MOST_OF_A_LINE))


def without_index_secrets(text: str, environ: Mapping[str, str]) -> str:
    """What pip said, without credentials of the indexes that its environment names, nor parts of them.

    Of an address whose password is not escaped, pip takes a part for the host or the port, and says it.

    Args:
        text: what it said.
        environ: what it saw.
    """
    found: set[str] = set()
    for credentials in (one for name in _INDEXES for one in _CREDENTIALS.findall(environ.get(name, ""))):
        found |= {credentials, unquote(credentials)}
        found |= {unquote(part) for part in re.split(r"[/?#@:]", credentials)}
        found |= set(re.split(r"[/?#@:]", unquote(credentials)))
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, "***") if len(secret) >= _LEAST else text
    return without_secrets(text)
