"""What a check of something built saw, and the error that names every check that failed; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError

# Names come from archives, pull requests and indexes: what ends a line or steers a terminal is not shown as
# it is, nor marks that turn the reading direction, nor what no encoding has.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\uffff]"
)
# What GitHub's runner takes for a command: this at the beginning of a line, whatever of no width is before
# it, and its older form anywhere.
_COMMAND = re.compile(r"\W*?::")
_OLD = "##["


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A check and what came of it.

    Attributes:
        check: its name.
        seen: in one line.
        remedy: what mends it; empty: the check passed.
    """

    check: str
    seen: str
    remedy: str = ""

    @property
    def passed(self) -> bool:
        """Whether what was checked holds to it."""
        return not self.remedy

    @property
    def line(self) -> str:
        """For people."""
        return escaped(f"{'ok  ' if self.passed else 'FAIL'} {self.check}: {self.seen}")


class VerificationError(SpyreCiError):
    """What was built is not what it was to be."""

    exit_code = EXIT_TEST_FAILED


def judged(check: str, seen: str, *, holds: bool, remedy: str) -> Finding:
    """A finding whose remedy counts where the check does not hold."""
    return Finding(check=check, seen=seen, remedy="" if holds else remedy)


def escaped(text: str) -> str:
    r"""The text on one line, with an escape such as `\x1b` for what is no part of a name or a sentence."""
    text = _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return text.replace(_OLD, "# #[")


def _begin(text: str) -> str:
    """`escaped` for what a line begins with."""
    text = escaped(text)
    return f"| {text}" if _COMMAND.match(text) else text


def refuse_failed(subject: str, findings: Sequence[Finding]) -> None:
    """Raise an error that names all that failed.

    Args:
        subject: what was checked.
        findings: all checks.

    Raises:
        VerificationError: a check failed.
    """
    failed = [one for one in findings if not one.passed]
    if not failed:
        return
    lines = "".join(
        f"\n  {_begin(f'{one.check}: {one.seen}')}\n    remedy: {escaped(one.remedy)}" for one in failed
    )
    counted = f"{len(failed)} of {len(findings)} checks failed"
    raise VerificationError(f"{counted}{lines}", where=subject, remedy="mend each, then build it again")
