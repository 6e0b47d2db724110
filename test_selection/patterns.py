"""The one pattern language of rules and flags: globs, and `/regex/` where a glob will not do.

Patterns and the names they meet come from pull requests, and no text may keep a pattern busy. Python's engine
tries every way to share a text among repetitions, of which `(a|aa)+$` or a glob of ten stars has more than
anybody can wait for: what it may back-track over is RE2's to match. That takes time linear in the text
(R. Cox, Regular Expression Matching: the Virtual Machine Approach, 2009), and knows no look-around and no
back references.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import re2  # type: ignore[import-untyped]  # it has no types

Kind = Literal["escape", "set", "comment", "count", "sign"]
_REPEATS = frozenset("*+{")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
# Where blanks are passed over, what is repeated need not stand beside its sign.
_APART = re.compile(r"\(\?[a-zA-Z]*x")
# But not the `?` that opens a group's flags; each doubles the ways at most.
_OPTIONAL = re.compile(r"(?<!\()\?")
_MOST_OPTIONAL = 4
_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
# At most the cube of a text's length, for what RE2 does not know.
_MOST_REPEATS = 2
_COMMENT = re.compile(r"\(\?#[^)]*\)")
_COUNT = re.compile(r"\{(?!\})\d*,?\d*\}")
_LONG: tuple[tuple[Kind, re.Pattern[str]], ...] = (("comment", _COMMENT), ("count", _COUNT))
_OF_A_SET = re.compile(r"\\u[0-9a-fA-F]{4}|\\?.", re.DOTALL)
_UNICODE = re.compile(r"u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}")


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
            compiled = _compile("".join(in_re2(kind, part) for kind, part in parts(text)))
        except re2.error as error:
            said = error.args[0] if error.args else error
            raise re.error(
                "it may never finish matching; leave out look-around, back references and large counts "
                f"({said.decode(errors='replace') if isinstance(said, bytes) else said})"
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


def compile_regex(text: str) -> Pattern:
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

    Each repetition shares what is left with the next, and what looks around is tried anew at each place that
    the repetitions before it reach; where a group is repeated, there is no such bound.
    """
    stands_for = {"escape": "x", "set": "x", "comment": "", "count": "{"}
    bare = "".join(stands_for.get(kind, part) for kind, part in parts(text))
    if _REPEATED_GROUP.search(bare) or _APART.search(bare) or len(_OPTIONAL.findall(bare)) > _MOST_OPTIONAL:
        return math.inf
    return _most(bare)


def _most(bare: str) -> int:
    """The most repetitions that anything waits for: those before it, and its own where it looks around."""
    most = count = 0
    outer: list[int | None] = []  # for each open group, the count to go on with after it, if it looks around
    at = 0
    while at < len(bare):
        looks = _LOOK_AROUND.match(bare, at)
        if bare[at] == "(":
            outer.append(count if looks else None)
        elif bare[at] == ")" and outer and (before := outer.pop()) is not None:
            count = before
        elif bare[at] in _REPEATS:
            count += 1
            most = max(most, count)
        at = looks.end() if looks else at + 1
    return most


def parts(text: str) -> Iterator[tuple[Kind, str]]:
    r"""The parts of a regular expression in Python's syntax: escapes such as `\+`, sets, comments, signs."""
    at = 0
    while at < len(text):
        kind, end = _part(text, at)
        yield kind, text[at:end]
        at = end


def _part(text: str, at: int) -> tuple[Kind, int]:
    if text[at] == "\\":
        named = _UNICODE.match(text, at + 1)
        return "escape", named.end() if named else min(at + 2, len(text))
    if text[at] == "[":
        return "set", _end_of_set(text, at)
    for kind, known in _LONG:
        if (found := known.match(text, at)) is not None:
            return kind, found.end()
    return "sign", at + 1


def _end_of_set(text: str, at: int) -> int:
    """The place after a set; a bracket that would close it at once is a sign of it."""
    at += 2 if text.startswith("[^", at) else 1
    first = at
    while at < len(text) and (text[at] != "]" or at == first):
        at += 2 if text[at] == "\\" else 1
    return min(at + 1, len(text))


def in_re2(kind: Kind, part: str) -> str:
    r"""A part as RE2 has it, which reads `\Z`, `{,3}` and `[[:alpha:]]` in its own way."""
    match kind:
        case "comment":
            return ""
        case "escape":
            return _escape(part)
        case "set":
            return part[0] + "".join(map(_in_set, _OF_A_SET.findall(part, 1)))
        case "count":
            return part.replace("{,", "{0,")
        case _:
            return part


def _escape(part: str) -> str:
    if part == r"\Z":
        return r"\z"
    return rf"\x{{{part[2:]}}}" if _UNICODE.match(part, 1) else part


def _in_set(one: str) -> str:
    if one == "[":
        return r"\["
    return r"\x08" if one == r"\b" else _escape(one)


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
    return compile_regex(rf"\A(?s:{''.join(parts)})\Z")


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
