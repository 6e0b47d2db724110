"""Keyword expressions with pytest's meaning of `-k`: and, or, not, brackets and parts of a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NoReturn

from test_selection.errors import UsageError

Match = Callable[[str], bool]

# pytest's names, and what test ids hold besides: `op=add`, `x,y`, `#2`, `%20`.
_TOKEN = re.compile(r"\s*(?:([\w:+\-.\[\]\\/=,#%~]+)|\S)")


def compile_keyword(text: str) -> Match:
    """Compile an expression such as `add and not (float64 or TestX)`.

    A name stands for any id that contains it, case not counting; `not` binds tighter than `and`, `and`
    tighter than `or`. Text without any name selects everything, as pytest's does.

    Raises:
        UsageError: the expression cannot be read; the message says at which column.
    """
    if not text.strip():
        return lambda _: True
    match = _Parser(text).parse()
    return lambda name: match(name.lower())


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        # (token, its column from 1, whether it can be a name)
        self.tokens = [
            (found[0].lstrip(), found.end() - len(found[0].lstrip()) + 1, found[1] is not None)
            for found in _TOKEN.finditer(text)
        ]
        self.at = 0

    @property
    def token(self) -> str:
        """The token that is next; empty at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def parse(self) -> Match:
        """The whole expression."""
        try:
            match = self.any_of()
        except RecursionError:
            self.refuse("fewer brackets")
        if self.token:
            self.refuse("`and`, `or` or the end")
        return match

    def any_of(self) -> Match:
        """Alternatives joined by `or`, each of conditions joined by `and`."""
        return self.joined("or", partial(self.joined, "and", self.one, all), any)

    def joined(self, sign: str, part: Callable[[], Match], holds: Callable[[Iterable[bool]], bool]) -> Match:
        """Parts with a sign between each two."""
        terms = [part()]
        while self.skip(sign):
            terms.append(part())
        return terms[0] if len(terms) == 1 else lambda name: holds(term(name) for term in terms)

    def one(self) -> Match:
        """A negation, something in brackets, or a name."""
        if self.skip("not"):
            inner = self.one()
            return lambda name: not inner(name)
        if self.skip("("):
            inside = self.any_of()
            if not self.skip(")"):
                self.refuse("`)`")
            return inside
        if self.token in {"", "and", "or"} or not self.tokens[self.at][2]:
            self.refuse("a name, `not` or `(`")
        part = self.token.lower()
        self.at += 1
        return lambda name: part in name

    def skip(self, token: str) -> bool:
        """Step over the token if it is next."""
        if self.token != token:
            return False
        self.at += 1
        return True

    def refuse(self, wanted: str) -> NoReturn:
        """Say where the expression stops making sense."""
        ended = self.at >= len(self.tokens)
        column = len(self.text) + 1 if ended else self.tokens[self.at][1]
        seen = "the end" if ended else repr(self.token)
        raise UsageError(
            f"cannot read {self.text!r} at column {column}: expected {wanted}, not {seen}",
            where="-k",
            remedy="join parts of names by and, or, not and brackets, such as 'add and not float64'",
        )
