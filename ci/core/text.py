r"""Making text from tests harmless: control characters, colours and lone surrogates never reach a reader.

Test names and messages come from pull requests. Whatever shows them (a terminal, XML, Markdown, HTML)
first passes them through `clean` or `plain`, then escapes for its own syntax.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from ci.core.workflow_commands import defused_old
from test_selection.ids import UNSHOWN

# What is not shown as it is: C0 and C1 controls but for tab and newline, line separators other than
# newline, marks that turn the reading direction, lone surrogates, and what XML 1.0 has no place for.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
# Ends of lines, and what has no width, are no part of a name or a sentence besides.
_NO_NAME = re.compile(f"[{UNSHOWN}]")
# ECMA-48: control sequences (colours, cursor moves) and operating system commands (titles, links).
_TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def clean(text: str) -> str:
    r"""The text with every unsafe character as an escape such as `\x1b`; tab and newline stay."""
    return _UNSAFE.sub(_escape, text)


def plain(text: str) -> str:
    """`clean` for messages: colours and other terminal sequences go, line ends become newlines."""
    return clean(_TERMINAL.sub("", text).replace("\r\n", "\n"))


def escaped(text: str) -> str:
    r"""A name or a sentence on one line: each sign that is no part of one as an escape such as `\x1b`."""
    return defused_old(_NO_NAME.sub(lambda found: found[0].encode("unicode_escape").decode(), text))


def one_line(text: str, limit: int = 300) -> str:
    """The text on one line, at most `limit` characters."""
    return clip(" ".join(plain(text).split()), limit)


def last_line(text: str) -> str:
    """The last line that is not blank: of a traceback the one that names the error."""
    return next((line.strip() for line in reversed(plain(text).splitlines()) if line.strip()), "")


def clip(text: str, limit: int) -> str:
    """At most `limit` characters: the beginning, and an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def tail(text: str, limit: int) -> str:
    """At most about `limit` characters from the end, where a traceback says what happened."""
    if len(text) <= limit:
        return text
    return f"… {len(text) - limit:,} characters cut …\n{text[-limit:]}"


def listed(names: Sequence[str], most: int = 8, between: str = ", ") -> str:
    """The first of many names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def shell_line(words: Sequence[str]) -> str:
    """A command line that a POSIX shell reads back as exactly these words.

    A word with control characters is written in bash's `$'…'` form, so that the line can be shown safely.
    """
    return " ".join(shlex.quote(word) if _shows(word) else _ansi_c(word) for word in words)


def iso_utc(epoch_s: float) -> str:
    """Seconds since the epoch as ISO-8601 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(epoch_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span(seconds: float) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds < 9.95:  # noqa: PLR2004  # below, tenths say something
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004  # a minute
        return f"{whole} s"
    if whole < 3600:  # noqa: PLR2004  # an hour
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(number: float) -> str:
    """Bytes as people read them, in powers of 1024."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number / 1024:,.0f} KiB"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 test`, `2 tests`, `1,234 tests`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004  # two digits hold it


def _shows(word: str) -> bool:
    return clean(word) == word and "\n" not in word


def _ansi_c(word: str) -> str:
    try:
        data = os.fsencode(word)
    except UnicodeEncodeError:  # a surrogate that no file name can have led to
        data = word.encode("utf-8", "surrogatepass")
    return "$'" + "".join(_ansi_c_byte(byte) for byte in data) + "'"


def _ansi_c_byte(byte: int) -> str:
    safe = 0x20 <= byte < 0x7F and byte not in b"'\\"  # noqa: PLR2004  # printable ASCII
    return chr(byte) if safe else f"\\x{byte:02x}"
