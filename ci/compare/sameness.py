"""Whether two failures of a test are the same one, as far as their messages tell. Pure."""

from __future__ import annotations

import re

from ci.compare.outcome import Outcome
from ci.report.text import one_line

_LONGEST = 2_000
# What a report writes before each try of a test that ran several times.
_TRY = re.compile(r"attempt \d+: [a-z ]+(?:: )?")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PATH = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")
# Values of a comparison, process ids, places in a file: they move without anything being another matter.
_NUMBER = re.compile(r"[-+]?\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?")


def differs(now: Outcome, base: Outcome) -> bool:
    """Whether a test fails for another reason than before; where one of them says nothing, it does not."""
    if not (now.message or now.cause) or not (base.message or base.cause):
        return False
    if (now.cause or "") != (base.cause or ""):
        return True
    here, there = reason_of(now.message), reason_of(base.message)
    return bool(here and there) and here != there


def reason_of(message: str) -> str:
    """A message without what changes from one run to the next: addresses, folders, numbers.

    Of several tries the last counts, which the verdict speaks of.
    """
    last = _TRY.split(one_line(message, _LONGEST))[-1]
    return " ".join(_NUMBER.sub("N", _PATH.sub("", _ADDRESS.sub("N", last))).split())
