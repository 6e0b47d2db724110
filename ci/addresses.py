"""Addresses fit to be shown: without what may be a secret in them (law 9)."""

from __future__ import annotations

import re

# The user name of an ssh address (`git@`) is no secret, and the address does not work without it.
_CREDENTIALS = re.compile(r"(?<!ssh)(://)[^/@\s]+@")
# Errors quote addresses without their beginning as well, as in `url: /callback?token=…`.
_QUERY = re.compile(r"(/[^\s?#]*\?)[^\s)'\"]+")


def without_credentials(text: str) -> str:
    """The text with user name and password taken out of every address in it."""
    return _CREDENTIALS.sub(r"\1", text)


def without_secrets(text: str) -> str:
    """The text with credentials taken out of every address in it, and queries, which may be a token."""
    return _QUERY.sub(r"\1***", without_credentials(text))
