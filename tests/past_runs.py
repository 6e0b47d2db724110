"""Runs written into a store of results, as a report writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ci.hud.runs import ReportedRun, read_run, record_run
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.report.store import Kept
from ci.store.row_store import SqliteRowStore
from ci.store.store import Store

REPOSITORY = "o/r"


def past_run(
    identity: RunIdentity, results: Sequence[Result], setups: Mapping[str, Sequence[float]]
) -> ReportedRun:
    """A run as a report tells of it."""
    verdicts = Counter(one.verdict.value for one in results)
    summary = {"run": identity.run, "identity": identity.as_json(), "verdicts": verdicts, "exit_code": 0}
    return ReportedRun(summary=summary, results=results, setups=setups, where=Path("summary.json"))


def record(
    path: Path, identity: RunIdentity, results: Sequence[Result], setups: Mapping[str, Sequence[float]]
) -> None:
    """Write a run into a store; it was last heard of when it began."""
    write(path, past_run(identity, results, setups), at=identity.started_at)


def take_in(path: Path, folder: Path, *, now: float, run: str = "", lane: str = "") -> Mapping[str, Any]:
    """Write the run of a folder into a store, as `history import` does; who it is."""
    found = read_run(folder, now=now, run=run, lane=lane)
    write(path, found, at=now)
    who: Mapping[str, Any] = found.summary["identity"]
    return who


def write(path: Path, run: ReportedRun, *, at: float) -> None:
    with closing(Store(path)) as store:
        record_run(
            Kept(store=store, rows=SqliteRowStore(store.transaction)), run, repository=REPOSITORY, at=at
        )
