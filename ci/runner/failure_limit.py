"""When a run that ends after so many failed tests (`--max-fail`) asks for nothing more. Pure."""

from __future__ import annotations

from collections.abc import Collection

from ci.core.text import counted
from ci.record.events import JournalEvent
from ci.record.run_state import RunState
from ci.record.verdict import Verdict


class FailureLimit:
    """Counts the tests that failed; where a run stops for them, none is run again."""

    def __init__(self, most: int, *, spared: Collection[str] = ()) -> None:
        """Begin with no failure.

        Args:
            most: failed tests after which the run stops; 0: it never does.
            spared: ids of quarantined tests, whose failures do not count.
        """
        self._most, self._spared = most, frozenset(spared)
        self._states: dict[int, RunState] = {}
        self._failed: set[str] = set()
        self._why = ""

    def take(self, shard: int, event: JournalEvent) -> None:
        """Take the next event of a shard's journal."""
        if not self._most:
            return
        state = self._states.setdefault(shard, RunState(shard=shard, attempt=1))
        state.take(event)
        ended = state.drain().items()
        failed = {name for name, tries in ended if any(one.outcome is Verdict.FAILED for one in tries)}
        self._failed |= failed - self._spared
        if len(self._failed) >= self._most and not self._why:
            self._why = f"stopped after {counted(len(self._failed), 'failure')} (--max-fail)"

    def why(self) -> str:
        """Why nothing more is to be run; empty while the run goes on."""
        return self._why
