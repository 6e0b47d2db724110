"""Patterns that no text can keep busy: what Python's engine may back-track over is RE2's to match. Pure.

Patterns and the names they meet come from pull requests. Python's engine tries every way to share a text
among repetitions, of which `(a|aa)+$` or a glob of ten stars has more than anybody can wait for. RE2 takes
time linear in the text (R. Cox, Regular Expression Matching: the Virtual Machine Approach, 2009), and knows
no look-around and no back references.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from typing import Any, Protocol

import re2  # type: ignore[import-untyped]  # it has no types

_REPEATS = re.compile(r"[*+{]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
# Where blanks and comments are passed over, what is repeated need not stand beside its sign.
_APART = re.compile(r"\(\?(?:#|[a-zA-Z]*x)")
# But not the `?` that opens a group's flags; each doubles the ways at most.
_OPTIONAL = re.compile(r"(?<!\()\?")
_MOST_OPTIONAL = 4
# At most the cube of a text's length, for what RE2 does not know.
_MOST_REPEATS = 2
_END = re.compile(r"\\(.)", re.DOTALL)


class Pattern(Protocol):
    """A compiled pattern; what is found is true, and None is not."""

    @property
    def pattern(self) -> str:
        """The regular expression."""

    def search(self, string: str, /) -> object | None:
        """Something where it matches a part of a text."""

    def fullmatch(self, string: str, /) -> object | None:
        """Something where it matches the whole of a text."""


class Linear:
    r"""A regular expression that RE2 matches; `\w`, `\d`, `\s` and `\b` are of ASCII."""

    __slots__ = ("_fullmatch", "_search", "pattern")

    def __init__(self, text: str) -> None:
        """Compile a regular expression in Python's syntax.

        Raises:
            re.error: RE2 does not take it.
        """
        self.pattern = text
        try:
            compiled = _compile(_END.sub(_end, text))
        except re2.error as error:
            said = error.args[0] if error.args else error
            raise re.error(
                f"it may take for ever to match, and without look-around, back references and great counts "
                f"it would not ({said.decode(errors='replace') if isinstance(said, bytes) else said})"
            ) from error
        self._search, self._fullmatch = compiled.search, compiled.fullmatch

    def search(self, string: str, /) -> object | None:
        """Something where it matches a part of a text."""
        found: object | None = self._search(_bytes(string))
        return found

    def fullmatch(self, string: str, /) -> object | None:
        """Something where it matches the whole of a text."""
        found: object | None = self._fullmatch(_bytes(string))
        return found


def compile_linear(text: str) -> Pattern:
    """Compile a regular expression: by Python where that cannot back-track for long, else by RE2.

    Raises:
        re.error, RecursionError, OverflowError: it cannot be compiled.
    """
    with warnings.catch_warnings():
        # What Python may one day read otherwise (`[[a]`) is no user's mistake today.
        warnings.simplefilter("ignore", FutureWarning)
        compiled = re.compile(text)
    degree = steps(text)
    if degree <= 1:
        return compiled
    try:
        return Linear(text)
    except re.error:
        if degree > _MOST_REPEATS:
            raise
        return compiled


def steps(text: str) -> float:
    """To which power of a text's length Python's engine may take at each of its places; at worst without end.

    Each repetition shares what is left with the next; where a group is repeated, there is no such bound.
    """
    endless = _REPEATED_GROUP.search(text) or _APART.search(text)
    if endless or len(_OPTIONAL.findall(text)) > _MOST_OPTIONAL:
        return math.inf
    return len(_REPEATS.findall(text))


@functools.cache
def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # it would write to the standard error stream
    return options


def _compile(text: str) -> Any:
    return re2.compile(_bytes(text), _options())


def _bytes(text: str) -> bytes:
    # Names that are no valid UTF-8 hold surrogates, which RE2 does not know.
    return text.encode("utf-8", "replace")


def _end(match: re.Match[str]) -> str:
    return r"\z" if match[1] == "Z" else match[0]
