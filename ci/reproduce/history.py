"""What the journals of a run tell of one test: its tries, where each ran, and what ran before it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ci.record.events import Crash, End, GroupStart, ShardStart, Start
from ci.record.failure_signature import Failure
from ci.record.journal import Journal
from ci.record.result import SILENT
from ci.record.run_state import RunState
from ci.record.verdict import NO_OUTCOME, Verdict

MOST_NAMES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a worker said of itself.

    Attributes:
        card: the accelerator.
        back_end: what made the device.
        torch: its version.
        python: its version.
        image: name@sha256:…; empty where nobody said.
        environ: variables that may matter.
        threads: of the CPU it might use; 0 where it did not say.
        run_seed: the run's; None in old journals.
    """

    card: str = ""
    back_end: str = ""
    torch: str = ""
    python: str = ""
    image: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0
    run_seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One try of the test.

    Attributes:
        number: from 1; the try whose seed it had.
        seed: the test's; None where nobody noted one.
        end: how it ended; infrastructure where nothing tells.
        before: the tests that ran before it in the same process, and which try of each, in their order.
        place: where it ran.
    """

    number: int
    seed: int | None
    end: Failure
    before: tuple[tuple[str, int], ...]
    place: Place


def tries_of(name: str, journals: Iterable[Journal]) -> list[Tried]:
    """Every try of a test, in the order of journals and lines.

    Args:
        name: its canonical id.
        journals: of the run.
    """
    return [one for journal in journals for one in _in_journal(name, journal)]


class _Trace(RunState):
    """The fold of a journal that also keeps what each try of one test came after, and where it ran."""

    def __init__(self, name: str, journal: Journal) -> None:
        super().__init__(shard=journal.shard, attempt=journal.attempt)
        self._name = name
        self._before: list[tuple[str, int]] = []
        self._place = Place()
        self.found: list[Tried] = []

    def _shard_start(self, event: ShardStart) -> None:
        super()._shard_start(event)
        self._place = _place(event)

    def _group_start(self, event: GroupStart) -> None:
        super()._group_start(event)
        self._before = []  # a new process

    def _start(self, event: Start) -> None:
        super()._start(event)
        name = self.running or ""
        begun = self.open[name]
        if name == self._name:
            end = Failure(verdict=Verdict.INFRASTRUCTURE, message="no journal tells how it ended")
            tried = Tried(
                number=begun.seeded_as,
                seed=begun.seed,
                end=end,
                before=tuple(self._before),
                place=self._place,
            )
            self.found.append(tried)
        self._before.append((name, begun.seeded_as))

    def _close(
        self,
        name: str,
        outcome: Verdict,
        event: End | Crash | None = None,
        *,
        message: str,
        cause: str | None = None,
    ) -> None:
        super()._close(name, outcome, event, message=message, cause=cause)
        one = self.tries[name][-1]
        if name == self._name and self.found and one.message != SILENT:
            cause = "" if one.outcome is Verdict.HARDWARE else one.cause or ""
            end = Failure(verdict=one.outcome, cause=cause, message=one.message)
            self.found[-1] = replace(self.found[-1], end=end)


def _in_journal(name: str, journal: Journal) -> list[Tried]:
    trace = _Trace(name, journal)
    for event in journal.events:
        trace.take(event)
    return trace.found


def _place(event: ShardStart) -> Place:
    return Place(
        card=event.card or "",
        back_end=event.back_end,
        torch=event.torch,
        python=event.python,
        image=event.image,
        environ=dict(list(event.environ.items())[:MOST_NAMES]),
        threads=event.threads,
        run_seed=event.seed,
    )


def chosen(tries: Sequence[Tried], number: int) -> Tried | None:
    """The try that is brought back: the one of that number; of 0, the last that failed, else the last.

    Args:
        tries: of `tries_of`.
        number: from 1; 0: nobody asks for one.
    """
    if number:
        return next((one for one in reversed(tries) if one.number == number), None)
    bad = [one for one in tries if one.end.bad]
    told = [one for one in tries if one.end.verdict not in NO_OUTCOME]
    best = bad or told or tries
    return best[-1] if best else None
