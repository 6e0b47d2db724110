"""What single tests took in past runs, read out of the history."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ci.report.history import LAST_RUNS
from ci.report.history_store import read_store, stored

_LAST = """
SELECT results.seconds FROM results
JOIN runs ON runs.number = results.run JOIN tests ON tests.number = results.test
WHERE tests.name = :name AND runs.device = :device AND runs.started_at <= :until
    AND results.verdict = 'passed'
ORDER BY runs.started_at DESC, runs.number DESC LIMIT :last
"""


def past_seconds(path: Path, *, device: str, until: float, names: Iterable[str]) -> dict[str, list[float]]:
    """By test, the seconds of its last ten passing runs, the newest first; tests without any are left out.

    Args:
        path: the store.
        device: only runs on this device.
        until: only runs that began then or earlier, in seconds since the epoch.
        names: canonical ids.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    found = {}
    with read_store(path) as store:
        for name in names:
            wanted = {"name": stored(name), "device": device, "until": until, "last": LAST_RUNS}
            if times := [seconds for (seconds,) in store.execute(_LAST, wanted)]:
                found[name] = times
    return found
