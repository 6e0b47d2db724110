"""What became of one test in the runs of a lane, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ci.report.history_store import original, read_store, stored

_OUTCOMES = """
SELECT runs.pytorch_sha, results.verdict, results.attempts, runs.started_at
FROM results JOIN runs ON runs.number = results.run JOIN tests ON tests.number = results.test
WHERE tests.name = :test AND runs.device = :device AND runs.lane = :lane
ORDER BY runs.started_at, runs.number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastOutcome:
    """What became of a test in a run.

    Attributes:
        sha: PyTorch's commit.
        verdict: of the test.
        attempts: how often it was started.
        at: when the run began, seconds since the epoch.
    """

    sha: str
    verdict: str
    attempts: int
    at: float


def past_outcomes(path: Path, *, test: str, device: str, lane: str) -> list[PastOutcome]:
    """The outcomes of a test in a lane, the oldest first.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: the file cannot be used.
    """
    with read_store(path) as store:
        rows = store.execute(_OUTCOMES, {"test": stored(test), "device": device, "lane": lane}).fetchall()
    return [
        PastOutcome(sha=original(sha), verdict=verdict, attempts=attempts, at=at)
        for sha, verdict, attempts, at in rows
    ]
