"""Reading out of the history what may be flaky; everybody else is only counted."""

from __future__ import annotations

from pathlib import Path

from ci.report.flakes import Flakes, Outcome, rank
from ci.report.history_store import original, read_store

# At one commit of PyTorch and of the checkout.
_COMMIT = "runs.pytorch_version || ' ' || runs.pytorch_sha || ' ' || runs.checkout"
_RAN = """
FROM results JOIN runs ON runs.number = results.run
WHERE runs.device = :device AND runs.started_at >= :since
  AND results.verdict IN ('passed', 'failed', 'flaky', 'xfailed', 'xpassed')
"""
_COUNT = f"SELECT count(DISTINCT results.test) {_RAN}"
_MIXED = f"""
SELECT results.test {_RAN} GROUP BY results.test, {_COMMIT}
HAVING max(results.verdict = 'flaky')
    OR (max(results.verdict IN ('passed', 'xpassed')) AND max(results.verdict IN ('failed', 'xfailed')))
"""
_OUTCOMES = f"""
SELECT tests.name, results.verdict, results.card, {_COMMIT}, runs.started_at
{_RAN.replace("WHERE", "JOIN tests ON tests.number = results.test WHERE")}
  AND results.test IN ({_MIXED})
ORDER BY tests.name, runs.started_at, runs.number
"""


def find_flakes(path: Path, *, device: str, since: float) -> Flakes:
    """The flaky tests of the history.

    Args:
        path: the store.
        device: only runs on this device.
        since: only runs that began then or later, in seconds since the epoch.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    wanted = {"device": device, "since": since}
    outcomes: dict[str, list[Outcome]] = {}
    with read_store(path) as store:
        (ran,) = store.execute(_COUNT, wanted).fetchone()
        for name, verdict, card, commit, at in store.execute(_OUTCOMES, wanted):
            one = Outcome(verdict=verdict, card=card and original(card), commit=commit, at=at)
            outcomes.setdefault(original(name), []).append(one)
    return rank(outcomes, ran)
