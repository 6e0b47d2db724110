"""Whether two failures are the same: by cause, exception and message, without what differs each time. Pure.

Addresses in memory, temporary and absolute paths, process ids, amounts of memory, seconds and seeds are no
part of a failure. Other numbers are where the seed is the same, for then a test that fails the same way says
the same ones; between two runs, each with a seed of its own, they are none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from ci.core.text import plain
from ci.record.verdict import FAILING, Verdict

LONGEST = 2000
_VARYING = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x…"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "…"),
    # Where something lies is another matter on another machine; what it is called is not.
    (re.compile(r"(?:/[\w.+@~-]+)*/tmp[\w.+@~-]*(?:/[\w.+@~-]+)*"), "(tmp)"),
    (re.compile(r"(?<![\w/])/(?:[\w.+@~-]+/)+"), "…/"),
    (re.compile(r"(?i)\b(pid|process|thread|tid|port|seed)([ =:]+|\s+id\s+)\d+"), r"\1\2…"),
    (re.compile(r"(?i)\b\d[\d,.]*\s*(bytes|[kmgt]i?b|kb)\b"), r"… \1"),
    (re.compile(r"(?i)\b\d[\d.]*\s*(s|ms|us|seconds|minutes|min)\b"), r"… \1"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?"), "…"),
)
# Values of a comparison, places in a file.
_NUMBER = re.compile(r"[-+]?\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?")
_HISTORY = re.compile(r"(?:^|; )attempt \d+: ([a-z ]+?)(?:: |(?=; attempt)|$)")
_PHASE = re.compile(r"in (setup|teardown|call): ")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
# What these say besides is how long it was waited, and how much there was.
_LONG = frozenset({"hang", "oom"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How a test ended.

    Attributes:
        verdict: of its try.
        cause: of a crash: signal, hang, oom or exit; empty where it failed by itself.
        message: the line that says why.
    """

    verdict: Verdict
    cause: str = ""
    message: str = ""

    @property
    def bad(self) -> bool:
        """Whether it is worth bringing back."""
        return self.verdict in FAILING

    @property
    def kind(self) -> str:
        """The exception's type, or what a crash is called; empty where neither is told."""
        if self.cause:
            return self.cause
        found = _EXCEPTION.match(_PHASE.sub("", plain(self.message), count=1))
        return found[1].rpartition(".")[2] if found else ""


def compare(before: Failure, now: Failure) -> str:
    """Why two ends of a test are not the same failure; empty where they are.

    Args:
        before: as the run tells it.
        now: as it is brought back.
    """
    if before.verdict is not now.verdict:
        return f"it was {before.verdict.words} in the run, and is {now.verdict.words} now"
    if before.cause != now.cause or before.kind != now.kind:
        return f"it was {before.kind or 'unnamed'} in the run, and is {now.kind or 'unnamed'} now"
    if before.cause in _LONG:
        return ""
    if normal(before.message) != normal(now.message):
        return f"both are {now.kind or now.verdict.words}, with another message"
    return ""


class Ended(Protocol):
    """A test that failed, as a run tells of it."""

    @property
    def message(self) -> str:
        """One line for people."""

    @property
    def cause(self) -> str | None:
        """Of a crash: signal, hang, oom or exit."""


def differs(now: Ended, base: Ended) -> bool:
    """Whether a test of two runs fails for another reason; where one of them says nothing, it does not.

    Of several tries the last that failed counts.
    """
    if not (now.message or now.cause) or not (base.message or base.cause):
        return False
    if (now.cause or "") != (base.cause or ""):
        return True
    if now.message == base.message or now.cause in _LONG:
        return False
    here, there = (normal(last_failure(one.message), numbers=False) for one in (now, base))
    return bool(here and there) and here != there


def normal(message: str, *, numbers: bool = True) -> str:
    """A message without what differs from one time to the next.

    Args:
        message: of a failure.
        numbers: whether other numbers than those that always differ are a part of it.
    """
    # What is longer may be a stranger's, and patterns take their time with it.
    text = plain(message[:LONGEST])
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    if not numbers:
        text = _NUMBER.sub("N", text)
    return " ".join(text.split())[:LONGEST]


def last_failure(message: str) -> str:
    """Of a result's message that tells of several tries, what the last that failed said; else the message."""
    found = list(_HISTORY.finditer(message))
    if not found:
        return message
    ends = [one.start() for one in found[1:]] + [len(message)]
    told = [(one[1], message[one.end() : end]) for one, end in zip(found, ends, strict=True)]
    return next((said for verdict, said in reversed(told) if verdict in FAILING), told[-1][1])
