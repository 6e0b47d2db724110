"""What a run tells while it runs: the changes that a journal event makes to the state, as values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ci.record.verdict import Verdict

MAX_REASONS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A try of a test came to an end, or was given up.

    Attributes:
        id: the test id.
        file: its file.
        outcome: of this try.
        verdict: over all tries so far.
        seconds: how long this try ran.
        card: the accelerator it ran on; empty where that is not known.
        attempt: which try it is, from 1.
        message: one line of the reason.
        detail: the traceback or output.
        cause: of a crash: signal, hang, oom, exit or hardware.
        repeated: whether a try before ended the same way.
    """

    id: str
    file: str
    outcome: Verdict
    verdict: Verdict
    seconds: float = 0.0
    card: str = ""
    attempt: int = 1
    message: str = ""
    detail: str = ""
    cause: str | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """A test that failed begins once more."""

    id: str
    file: str
    card: str
    attempt: int


@dataclass(slots=True, kw_only=True)
class Tally:
    """What is known of a file's tests; lives as long as its run.

    Attributes:
        file: the test file.
        planned: how many of its tests are to run here.
        counts: how many of them have each verdict.
        settled: how many have any.
        left_s: seconds expected of those that have none.
        told_s: seconds expected of those that ran.
        ran_s: seconds these took.
        setup_s: seconds its set-up is expected to take.
        longest_s: seconds expected of its longest test.
        began_at: when a card first took it up, in monotonic seconds; None before.
        ended_at: when its last test was settled; None before.
        cards: the cards that ran it.
        reasons: why tests were skipped or not run, so many different ones at most.
    """

    file: str
    planned: int = 0
    counts: Counter[Verdict] = field(default_factory=Counter)
    settled: int = 0
    left_s: float = 0.0
    told_s: float = 0.0
    ran_s: float = 0.0
    setup_s: float = 0.0
    longest_s: float = 0.0
    began_at: float | None = None
    ended_at: float | None = None
    cards: dict[str, None] = field(default_factory=dict)
    reasons: Counter[tuple[Verdict, str]] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        """From its first set-up to its last test."""
        return (self.ended_at or 0.0) - (self.began_at or 0.0) if self.began_at is not None else 0.0

    def begin(self, card: str, now: float) -> None:
        """A card takes it up, or goes on with it."""
        self.began_at = now if self.began_at is None else self.began_at
        if card:
            self.cards[card] = None

    def reason(self, verdict: Verdict, message: str) -> None:
        """Count why a test did not run."""
        key = verdict, message
        if key in self.reasons or len(self.reasons) < MAX_REASONS:
            self.reasons[key] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnded:
    """Every test of a file is settled, or the run is over.

    Attributes:
        tally: of the file; its counts may still change when tests are run again.
    """

    tally: Tally

    @property
    def reasons(self) -> tuple[tuple[Verdict, str, int], ...]:
        """How many tests were skipped or not run, by verdict and message, the most first."""
        rows = sorted(self.tally.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        return tuple((verdict, message, number) for (verdict, message), number in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBroken:
    """A file could not be set up on a card."""

    file: str
    card: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """A worker went from outside; a test that ran on it is told of by itself."""

    shard: int
    card: str
    id: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLost:
    """A card is out of use for this run for this run."""

    card: str
    message: str


News = Ended | Retried | FileEnded | FileBroken | WorkerLost | CardLost
