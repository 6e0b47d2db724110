"""The search: rounds of commits that are tried side by side, until the answer is clear."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from ci.bisect.belief import Belief
from ci.bisect.build import UntestableError
from ci.bisect.executor import Executor
from ci.bisect.record import Record, Try
from ci.config.bisect_model import Bisect
from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError, UsageError
from ci.core.text import one_line
from ci.record.result import Result
from ci.record.verdict import CODE_PASSED

# Machine faults in a row after which a commit is left alone, and such commits that end the search.
FAULTS, LOST = 4, 3


class MachineError(SpyreCiError):
    """The machine fails at every commit, so no commit is to blame."""

    exit_code = EXIT_INCOMPLETE


@dataclass(kw_only=True)
class Search:
    """One search.

    Attributes:
        record: grows.
        executor: tries commits.
        settings: how far the search goes, and how many commits are tried at once.
        save: keeps the record; called after every answer.
        say: takes lines for people.
    """

    record: Record
    executor: Executor
    settings: Bisect
    save: Callable[[], None]
    say: Callable[[str], None]
    _lock: threading.RLock = field(default_factory=threading.RLock)
    # Positions at which the machine failed: tried again when the search resumes.
    _lost: set[int] = field(default_factory=set)
    _round: int = 0

    def run(self) -> Belief:
        """Try commits until the answer is clear, nothing is left to try, or the tries are used up.

        Raises:
            UsageError: the bad end cannot be tried.
            MachineError: the machine fails at every commit.
            KeyboardInterrupt: the record is complete, and the same command resumes.
        """
        self._round = self.record.rounds
        while positions := self._belief().next_round(self.settings.workers):
            self._round += 1
            names = ", ".join(f"{self._sha(one)} ({one} of {self.record.last})" for one in positions)
            self.say(f"round {self._round}: {names}")
            with ThreadPoolExecutor(max_workers=len(positions)) as pool:
                futures = [pool.submit(self._try_commit, one) for one in positions]
                try:
                    for one in as_completed(futures):
                        one.result()
                except BaseException:
                    self.executor.stop.set()
                    self.executor.end()
                    raise
        return self._belief()

    def _belief(self) -> Belief:
        with self._lock:
            return self.record.belief(self.settings, self._lost)

    def _sha(self, position: int) -> str:
        return self.record.commits[position][:12]

    def _try_commit(self, position: int) -> None:
        """Try a commit until it is settled, skip it, or leave it alone for the faults of the machine."""
        visited = faults = 0
        while faults < FAULTS:
            try:
                with self.executor.prepared(position) as made:
                    while not self._belief().enough(position, visited):
                        self._take(position, self.executor.attempt(made))
                        visited, faults = visited + 1, 0
            except UntestableError as error:
                self._skip(position, error.what)
            except SpyreCiError as error:
                if self.executor.stop.is_set():  # what was ended says nothing
                    return
                faults, why = faults + 1, error.what
                self.say(f"{self._sha(position)}: machine fault {faults} of {FAULTS}: {why}")
                continue
            return
        self._lose(position, why)

    def _take(self, position: int, result: Result) -> None:
        message = one_line(result.message)
        passed = result.verdict in CODE_PASSED
        one = Try(round=self._round, position=position, passed=passed, message=message, card=result.card)
        with self._lock:
            self.record.tries.append(one)
            self.save()
        bad = 100 * self._belief().bad(position)
        where = f" on {one.card}" if one.card else ""
        self.say(f"{self._sha(position)}: {'passed' if passed else 'failed'}{where}; bad with {bad:.1f} %")

    def _skip(self, position: int, why: str) -> None:
        if position == self.record.last:  # a wrong test id ends here, too
            raise UsageError(
                f"the bad end {self._sha(position)} {why}",
                where=self.record.test,
                remedy="check the test id and how a commit is built, or name another commit with --bad",
            )
        with self._lock:
            self.record.skipped[self.record.commits[position]] = why
            self.save()
        self.say(f"{self._sha(position)} {why}; skipped")

    def _lose(self, position: int, why: str) -> None:
        with self._lock:
            self._lost.add(position)
            if len(self._lost) < LOST and position != self.record.last:
                return
        raise MachineError(
            f"the machine fails wherever a commit is tried, the last time: {why}",
            where=self._sha(position),
            remedy="check the machine; the same command then resumes",
        )
