"""The errors a user can meet, each with its exit code: what failed, where, the value seen, the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

EXIT_OK = 0
EXIT_TEST_FAILED = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130
# Characters of what is wrong with a file.
MOST = 1_200
# Keys of files that people write, by what they were called before.
RENAMED = {"bucket": "tier", "buckets": "tiers", "ladder": "selection_lock"}


def did_you_mean(text: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """The remedy for a name that is not known: its successor, or the nearest one, else what else to do."""
    known = list(known)
    if RENAMED.get(text) in known:
        return f"it is called {RENAMED[text]!r} now"
    close = difflib.get_close_matches(text, known, n=1, cutoff=cutoff)
    return f"did you mean {close[0]!r}?" if close else otherwise


class SpyreCiError(Exception):
    """A condition the user can mend; shown as a short message, never as a traceback.

    Args:
        what: what failed, in one sentence, with the value seen.
        where: the file, and line or key, it was found in.
        remedy: what the user does about it.
    """

    exit_code = EXIT_USAGE

    def __init__(self, what: str, *, where: str | Path | None = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.remedy = remedy

    @property
    def placed(self) -> str:
        """Where it was found, if that is known, and what failed; without the remedy."""
        return f"{self.where}: {self.what}" if self.where else self.what

    def __str__(self) -> str:
        return f"{self.placed}\n  remedy: {self.remedy}" if self.remedy else self.placed


class UsageError(SpyreCiError):
    """A flag or argument that cannot be taken."""


class _ContentError(SpyreCiError):
    """What a file holds cannot be taken; the value seen comes from the file, and may be as long as it is."""

    def __init__(self, what: str, *, where: str | Path | None = None, remedy: str | None = None) -> None:
        super().__init__(what if len(what) <= MOST else f"{what[:MOST]}…", where=where, remedy=remedy)


class SettingsError(_ContentError):
    """A settings, rules or suite file that cannot be taken."""


class MissingInputError(SpyreCiError):
    """A file or folder that was named and is not there."""


class BadFileError(_ContentError):
    """A file that is there but is not what its name promises: another schema, cut short, not JSON."""


class NothingToRunError(SpyreCiError):
    """A stage above 0 % that selects no test: a run of nothing is not a success (law 1)."""

    exit_code = EXIT_INCOMPLETE


class PlanMismatchError(SpyreCiError):
    """Two files of one run that do not belong together."""
