"""Whether two failures are the same: by cause, exception and message, without what differs each time. Pure.

Addresses in memory, temporary and absolute paths, process ids, amounts of memory, seconds and seeds are no
part of a failure. Other numbers are: with the same seed a test that fails the same way says the same ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ci.report.text import plain
from ci.report.verdict import Verdict

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
_HISTORY = re.compile(r"(?:^|; )attempt \d+: ([a-z ]+?)(?:: |(?=; attempt)|$)")
_PHASE = re.compile(r"in (setup|teardown|call): ")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
# Messages that say why a process ended; the card's word behind it is told by the cause.
_AFTER = "; "


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
        return f"it was {before.verdict.words} there, and is {now.verdict.words} here"
    if before.cause != now.cause or before.kind != now.kind:
        return f"it was {before.kind or 'unnamed'} there, and is {now.kind or 'unnamed'} here"
    if before.cause in {
        "hang",
        "oom",
    }:  # what they say besides is how long it was waited, and how much there was
        return ""
    if normal(before.message) != normal(now.message):
        return f"both are {now.kind or now.verdict.words}, but say something else"
    return ""


def normal(message: str) -> str:
    """A message without what differs from one time to the next."""
    # What is longer may be a stranger's, and patterns take their time with it.
    text = plain(message[:LONGEST])
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return " ".join(text.split())[:LONGEST]


def last_failure(message: str) -> str:
    """Of a result's message that tells of several tries, what the last that failed said; else the message."""
    found = list(_HISTORY.finditer(message))
    if not found:
        return message
    ends = [one.start() for one in found[1:]] + [len(message)]
    told = [(one[1], message[one.end() : end]) for one, end in zip(found, ends, strict=True)]
    return next((said for verdict, said in reversed(told) if verdict in {"failed", "hardware"}), told[-1][1])
