"""A run that was reported elsewhere, put into the history here by what its folder holds."""

from __future__ import annotations

from pathlib import Path

from ci.report.history import record
from ci.report.identity import RunIdentity
from ci.report.replay import replay
from ci.report.results import RESULTS_FILE, SUMMARY_FILE, read_results, read_summary
from ci.runner.journal import read_journals


def import_run(path: Path, folder: Path) -> RunIdentity:
    """Write a run into the history as its own report did elsewhere; again changes nothing (law 6).

    Where its journals came along, what its files took to set up is kept as well.

    Args:
        path: the store.
        folder: of the run, with its summary and results.

    Raises:
        MissingInputError: there is no summary, or there are no results.
        BadFileError: one of them is not what it has to be, or the store is no history.
        SpyreCiError: the store cannot be written, or another process holds it for too long.
    """
    identity = read_summary(folder / SUMMARY_FILE).identity
    results = read_results(folder / RESULTS_FILE)
    setups: dict[str, list[float]] = {}
    for journal in read_journals(folder) if (folder / "journal").is_dir() else ():
        for group in replay(journal.shard, journal.attempt, journal.events).groups:
            if group.setup_s is not None:
                setups.setdefault(group.file, []).append(group.setup_s)
    record(path, identity, results, setups)
    return identity
