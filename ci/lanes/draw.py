"""Chance that is the same for whoever draws again: a hash of a seed and of what is drawn for."""

from __future__ import annotations

import hashlib
import json

_BITS = 64


def drawn(seed: int, *about: str | int) -> int:
    """A whole number below 2**64, always the same for the same seed and words.

    Args:
        seed: of the settings.
        about: what it is drawn for.
    """
    text = json.dumps([seed, *about])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[: _BITS // 8], "big")


def share(seed: int, *about: str | int) -> float:
    """The same as a number of at least 0 and below 1."""
    # A float holds 53 bits: with all 64 the largest would round to 1.
    return (drawn(seed, *about) >> 11) / 2**53
