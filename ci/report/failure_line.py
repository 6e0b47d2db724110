"""Say a failure in one line: a status word, the test, and what matters of its message. Pure."""

from __future__ import annotations

import re

from ci.core.text import one_line
from ci.record.verdict import Verdict

# As a reader of nextest or pytest expects them: short, in capitals, one for each thing to be done.
_WORDS = {
    Verdict.PASSED: "PASS",
    Verdict.SKIPPED: "SKIP",
    Verdict.FAILED: "FAIL",
    Verdict.HARDWARE: "HW",
    Verdict.INFRASTRUCTURE: "LOST",
}
_CRASHES = {"signal": "CRASH", "exit": "CRASH", "hang": "HANG", "oom": "OOM"}
_COMPARED = re.compile(r"are not (?:close|equal)!")
# What torch.testing.assert_close says of tensors, and of two numbers.
_TENSORS = re.compile(
    r"Mismatched elements: (\d+) / (\d+)[^\n]*\n"
    r"[^\n]*Greatest absolute difference: ([\w.+-]+)(?: at index (\([\d, ]*\)))?"
)
_SCALARS = re.compile(r"Expected (\S{1,40}) but got (\S{1,40}?)\.?\s")


def status_word(verdict: Verdict, cause: str | None = None) -> str:
    """PASS, SKIP, FAIL, CRASH, HANG, OOM, HW, LOST or FLAKY; of other verdicts their name in capitals.

    Args:
        verdict: of a test, or of one try.
        cause: of a crash: signal, hang, oom or exit.
    """
    if verdict is Verdict.FAILED and cause in _CRASHES:
        return _CRASHES[cause]
    return _WORDS.get(verdict, verdict.words.upper())


def short_cause(message: str, detail: str) -> str:
    """Why a test failed, in one line: of a comparison of tensors the numbers, else its message.

    Args:
        message: the line that says why.
        detail: the traceback.
    """
    if _COMPARED.search(message):
        if found := _TENSORS.search(detail):
            wrong, of, largest, where = found.groups()
            return f"{wrong} of {of} mismatched, largest {largest}{f' at {where}' if where else ''}"
        if found := _SCALARS.search(detail):
            return one_line(f"expected {found[1]}, got {found[2]}")
    return one_line(message) or "no reason given"
