"""Canonical ids: one text for a test that every collection agrees on, and the way back to its parts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

from test_selection.errors import UsageError

# A sample's whole repr can end up as a parameter; past this many characters it is cut.
MAX_VALUE_CHARS = 80
HASH_CHARS = 12

# What no name shows as it is: controls, line separators, what turns the reading direction or has no width or
# stands for another sign, lone surrogates, and what XML 1.0 has no place for.
UNSHOWN = (
    "\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\uffff"
)
_UNSAFE_VALUE = re.compile(rf"[%,=\[\]{UNSHOWN}]")
_UNSAFE_NAME = re.compile(rf"[%:#\[\]{UNSHOWN}]")
_CLASH = re.compile(r"#[0-9]+$")

IdParts = tuple[str, str, str, dict[str, str]]


def canonical_id(file: str, cls: str, template: str, params: Mapping[str, str]) -> str:
    """Build `file::Class::template[key=value,…]`: keys sorted, no brackets where there are no parameters.

    Different parts give different ids. A value over 80 characters keeps its first 80 and gets a part of
    its SHA-256, so it is longer than any value that was not cut and cannot be mistaken for one.

    Args:
        file: the test file, relative to the tests' root, with forward slashes.
        cls: the class without its device suffix, nested ones joined by `::`; empty for a plain function.
        template: the method or function before instantiation.
        params: op, dtype and every other parameter, as text; leave absent ones out.
    """
    names = [file, *(cls.split("::") if cls else ()), template]
    base = "::".join(_encode(name, _UNSAFE_NAME) for name in names)
    if not params:
        return base
    pairs = (f"{_encode(key, _UNSAFE_VALUE)}={_value(params[key])}" for key in sorted(params))
    return f"{base}[{','.join(pairs)}]"


def parse_id(text: str) -> IdParts:
    """Take a test id apart into (file, class, template, parameters).

    The number of a clash (`#2`) is left out; a value that was cut stays cut.

    Raises:
        UsageError: `text` is not a test id.
    """
    base, bracket, rest = without_clash(text).partition("[")
    names = base.split("::")
    pairs = [pair.partition("=") for pair in rest[:-1].split(",")] if bracket else []
    if len(names) < 2 or (bracket and not rest.endswith("]")) or not all(sign for _, sign, _ in pairs):  # noqa: PLR2004  # a file and a template
        raise _not_an_id(text)
    try:
        file, *classes, template = (_decode(name) for name in names)
        params = {_decode(key): _decode(value) for key, _, value in pairs}
    except UnicodeDecodeError as error:
        raise _not_an_id(text) from error
    return file, "::".join(classes), template, params


def file_of(text: str) -> str:
    """The test file of a test id, as it is called on disk; of a million ids, quicker than `parse_id`.

    Raises:
        UsageError: `text` begins with no file as test ids have it.
    """
    file, sign, _ = text.partition("::")
    if not sign:
        raise _not_an_id(text)
    try:
        return _decode(file)
    except UnicodeDecodeError as error:
        raise _not_an_id(text) from error


def encode_file(file: str) -> str:
    """What the test ids of a test file begin with, up to their first `::`."""
    return _encode(file, _UNSAFE_NAME)


def resolve_clashes(ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Make ids unique: the second of a kind gets `#2`, the third `#3`, in the order given.

    Args:
        ids: test ids in source order.

    Returns:
        The ids in the same order, each now unique; and every id that stood more than once, in order.
    """
    taken = set(ids)
    seen: dict[str, int] = {}
    unique: list[str] = []
    for one in ids:
        number = seen.get(one, 0) + 1
        name = one if number == 1 else f"{one}#{number}"
        while number > 1 and name in taken:
            number += 1
            name = f"{one}#{number}"
        seen[one] = number
        taken.add(name)
        unique.append(name)
    return unique, [one for one, number in seen.items() if number > 1]


def without_clash(text: str) -> str:
    """A test id without the number that tells it from others of the same parts."""
    return _CLASH.sub("", text)


def _value(value: str) -> str:
    if len(value) > MAX_VALUE_CHARS:
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        value = f"{value[:MAX_VALUE_CHARS]}~{digest[:HASH_CHARS]}"
    return _encode(value, _UNSAFE_VALUE)


def _encode(text: str, unsafe: re.Pattern[str]) -> str:
    return unsafe.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), text)


def _decode(text: str) -> str:
    return unquote(text, errors="surrogatepass")


def _not_an_id(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a test id",
        remedy="write it as file::Class::template[key=value,…], as `spyre-ci collect` prints it",
    )
