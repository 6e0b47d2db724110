"""A run that was reported elsewhere, put into the history here by what its folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ci.core.errors import BadFileError
from ci.record.identity import RunIdentity
from ci.record.journal import gathered_journals
from ci.record.result import Result
from ci.record.run_state import replay
from ci.report.history import DAY_S, record
from ci.report.results import RESULTS_FILE, SUMMARY_FILE, read_results, read_summary
from test_selection.durations import MAX_S

# SQLite's whole numbers end here.
_MOST = 2**63 - 1


def import_run(path: Path, folder: Path, *, now: float, run: str = "", lane: str = "") -> RunIdentity:
    """Write a run into the history as its own report did elsewhere; again changes nothing (law 6).

    Where its journals came along, what its files took to set up is kept as well.

    Args:
        path: the store.
        folder: of the run, with its summary and results.
        now: seconds since the epoch.
        run: what it is known by here; empty: as its report has it.
        lane: it was begun for; empty: as its report has it.

    Raises:
        MissingInputError: there is no summary, or there are no results.
        BadFileError: one of them is not what it has to be, or the store is no history.
        SpyreCiError: the store cannot be written, or another process holds it for too long.
    """
    identity = read_summary(folder / SUMMARY_FILE).identity
    identity = replace(identity, run=run or identity.run, lane=lane or identity.lane)
    results = read_results(folder / RESULTS_FILE)
    _check(identity, results, folder, now)
    setups: dict[str, list[float]] = {}
    for journal in gathered_journals(folder):
        for group in replay(journal.shard, journal.attempt, journal.events).groups:
            if group.setup_s is not None and group.setup_s < MAX_S:
                setups.setdefault(group.file, []).append(group.setup_s)
    record(path, identity, results, setups)
    return identity


def _check(identity: RunIdentity, results: Sequence[Result], folder: Path, now: float) -> None:
    """Refuse what would stand in the way of every plan that is made of the history.

    Raises:
        BadFileError: a value is none that a run can have.
    """
    bounded = {
        "run_id": 1 <= identity.run_id <= _MOST,
        "run_attempt": 1 <= identity.run_attempt <= _MOST,
        "stage": identity.stage is None or 0 <= identity.stage <= _MOST,
        "percent": 0 <= identity.percent <= 100,  # noqa: PLR2004  # a share
        # Of a later run than all that come, no plan would ever get rid.
        "started_at": 0 <= identity.started_at <= now + DAY_S,
    }
    for name, good in bounded.items():
        if not good:
            raise _bad(folder / SUMMARY_FILE, f"{name} is {getattr(identity, name)!r:.40}")
    for number, one in enumerate(results, start=2):
        if not (0 <= one.attempts <= _MOST and 0 <= one.seconds < MAX_S):
            seen = f"{one.id!r:.80}, {one.seconds!r:.40} s, attempts {one.attempts!r:.40}"
            raise _bad(f"{folder / RESULTS_FILE}:{number}", f"a result is {seen}")


def _bad(where: Path | str, what: str) -> BadFileError:
    return BadFileError(
        f"{what}, which no run can have", where=where, remedy="report the run again with `spyre-ci report`"
    )
