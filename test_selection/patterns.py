"""The one pattern language of rules and flags: globs, and `/regex/` where a glob will not do."""

from __future__ import annotations

import re

from test_selection.pattern_engine import Pattern, compile_linear

__all__ = ["Pattern", "compile_glob", "compile_pattern", "compile_regex", "has_wildcard", "is_regex"]


def compile_pattern(text: str) -> Pattern:
    """Compile a glob, or a regular expression between slashes that is searched for, as in `/_cuda$/`.

    Raises:
        ValueError: the regular expression, or a set of the glob, cannot be compiled.
    """
    try:
        return compile_regex(text[1:-1]) if is_regex(text) else compile_glob(text)
    except (re.error, RecursionError) as error:
        kind = "regular expression" if is_regex(text) else "glob"
        raise ValueError(f"{text!r} is not a {kind}: {error}") from error


def compile_regex(text: str) -> Pattern:
    """Compile a regular expression of a user's file; no text keeps it busy for long.

    Raises:
        re.error, RecursionError, OverflowError: it cannot be compiled.
    """
    return compile_linear(text)


def is_regex(text: str) -> bool:
    """Whether a pattern is a regular expression between slashes."""
    return len(text) > 1 and text.startswith("/") and text.endswith("/")


def compile_glob(text: str) -> Pattern:
    """Compile a glob that has to match the whole of a value, case counting.

    `*` and `?` stay within a folder, `**` crosses folders, `**/` also stands for no folder at all,
    `[ab]` is one of a set and `[!ab]` none of it.
    """
    parts: list[str] = []
    at = 0
    while at < len(text):
        piece, at = _piece(text, at)
        parts.append(piece)
    return compile_linear(rf"\A(?s:{''.join(parts)})\Z")


def _piece(text: str, at: int) -> tuple[str, int]:
    """The regular expression for what stands at `at`, and where to go on."""
    if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
        return "(?:.*/)?", at + 3
    if text.startswith("**", at):
        return ".*", at + 2
    if text[at] == "*":
        return "[^/]*", at + 1
    if text[at] == "?":
        return "[^/]", at + 1
    # A bracket that opens a set or closes one at once is that character: `[]]`, `[!]]`.
    closing = text.find("]", at + (3 if text.startswith("[!", at) else 2)) if text[at] == "[" else -1
    if closing > 0:
        content = re.sub(r"([\\\[\]&~|^]|-(?=-)|(?<=-)-)", r"\\\1", text[at + 1 : closing].removeprefix("!"))
        return f"[{'^/' if text[at + 1] == '!' else ''}{content}]", closing + 1
    return re.escape(text[at]), at + 1


def has_wildcard(text: str) -> bool:
    """Whether a glob can match anything but itself."""
    return any(sign in text for sign in "*?[")
