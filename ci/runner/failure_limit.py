"""When a run that ends after so many failed tests (`--max-fail`) asks for nothing more. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from ci.core.text import counted
from ci.record.events import JournalEvent
from ci.record.journal import XPASS_STRICT
from ci.record.result import Try
from ci.record.run_state import RunState
from ci.record.verdict import FAILING, Verdict
from ci.runner.retries import Pending


class FailureLimit:
    """Counts the tests whose failure no retry can mend any more."""

    def __init__(
        self,
        most: int,
        *,
        retries: int,
        budget: int,
        spared: Collection[str] = (),
        pending: Iterable[Pending] = (),
    ) -> None:
        """Begin with no failure.

        Args:
            most: failed tests after which the run stops; 0: it never does.
            retries: how often a failed test is run again, on as many cards as there are.
            budget: how many tests are run again at most.
            spared: ids of quarantined tests, whose failures do not count.
            pending: of a run that is resumed: the retries it had still to make.
        """
        self._most, self._retries, self._budget, self._spared = most, retries, budget, frozenset(spared)
        self._states: dict[int, RunState] = {}
        self._tries = Counter({one.id: one.failed for one in pending})
        self._retried = {one.id for one in pending}
        self._failed: set[str] = set()
        self._why = ""

    def take(self, shard: int, event: JournalEvent) -> None:
        """Take the next event of a shard's journal."""
        if not self._most:
            return
        state = self._states.setdefault(shard, RunState(shard=shard, attempt=1))
        state.take(event)
        for name, tries in state.drain().items():
            for one in tries:
                self._ended(name, one)
        self._failed |= {name for name in state.no_retry if self._tries[name]} - self._spared
        state.no_retry.clear()
        if len(self._failed) >= self._most and not self._why:
            self._why = f"stopped after {counted(len(self._failed), 'failure')} (--max-fail)"

    def why(self) -> str:
        """Why nothing more is to be run; empty while the run goes on."""
        return self._why

    def _ended(self, name: str, one: Try) -> None:
        if one.outcome not in FAILING:
            return
        self._tries[name] += 1
        if not self._is_retried(name, one):
            self._failed |= {name} - self._spared if one.outcome is Verdict.FAILED else set()

    def _is_retried(self, name: str, one: Try) -> bool:
        if one.message.startswith(XPASS_STRICT) or self._tries[name] > self._retries:
            return False
        if name not in self._retried and len(self._retried) >= self._budget:
            return False
        self._retried.add(name)
        return True
