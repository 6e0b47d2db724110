"""Reading out of the history what may be flaky; everybody else is only counted."""

from __future__ import annotations

from pathlib import Path

from ci.report.flakes import BROKEN_LEAST, BROKEN_PERCENT, Flakes, Outcome, rank
from ci.report.history_store import original, read_store

# The tests that came to an outcome, in the runs that count; what ran at one commit of PyTorch and of the
# checkout has one number. Where nobody says what was checked out, as on a laptop, each run is a build of its
# own: what was mended between two of them did not flake.
_RAN = """
CREATE TEMP TABLE ran AS
WITH kept AS MATERIALIZED (
    SELECT number, started_at,
           dense_rank() OVER (
               ORDER BY pytorch_version, pytorch_sha, checkout, CASE checkout WHEN '' THEN number END
           ) AS commit_number
    FROM runs WHERE device = :device AND started_at >= :since
)
SELECT results.test, results.verdict, results.card, kept.commit_number, kept.started_at, kept.number
FROM kept JOIN results ON results.run = kept.number
WHERE results.verdict IN ('passed', 'failed', 'flaky', 'xfailed', 'xpassed')
"""
_BROKEN = """
SELECT number FROM ran GROUP BY number
HAVING sum(verdict = 'failed') >= :least AND 100.0 * sum(verdict = 'failed') > :percent * count(*)
"""
_COUNT = "SELECT count(DISTINCT test) FROM ran"
_OUTCOMES = """
WITH doubtful AS MATERIALIZED (SELECT DISTINCT test FROM ran WHERE verdict NOT IN ('passed', 'xpassed')),
mixed AS MATERIALIZED (
    SELECT DISTINCT test FROM ran WHERE test IN doubtful GROUP BY test, commit_number
    HAVING max(verdict = 'flaky')
        OR (max(verdict IN ('passed', 'xpassed')) AND max(verdict IN ('failed', 'xfailed')))
)
SELECT tests.name, ran.verdict, ran.card, ran.commit_number, ran.started_at
FROM ran JOIN tests ON tests.number = ran.test WHERE ran.test IN mixed
ORDER BY tests.name, ran.started_at, ran.number
"""


def find_flakes(path: Path, *, device: str, since: float) -> Flakes:
    """The flaky tests of the history.

    A run in which too many tests failed is of a build that is broken, and says nothing of any of them.

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
        store.execute(_RAN, wanted)
        broken = store.execute(_BROKEN, {"least": BROKEN_LEAST, "percent": BROKEN_PERCENT}).fetchall()
        store.executemany("DELETE FROM ran WHERE number = ?", broken)
        (ran,) = store.execute(_COUNT).fetchone()
        for name, verdict, card, commit, at in store.execute(_OUTCOMES):
            one = Outcome(verdict=verdict, card=card and original(card), commit=str(commit), at=at)
            outcomes.setdefault(original(name), []).append(one)
    return rank(outcomes, ran, broken=len(broken))
