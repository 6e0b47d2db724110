"""Shards of which no journal tells: a journal is made that says why, so that the report does.

It is attempt 0 of its shard, which no pod makes: whatever a pod's journal tells of a test comes after it, and
it goes when one has come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from ci.runner.journal import JournalWriter, journal_path
from test_selection.plan import Plan

ATTEMPT = 0
NO_POD = "no journal of its pod was gathered: the pod never began, or what it left is not in the store"


def tell_untold(folder: Path, plan: Plan, reasons: Mapping[int, str], *, moment: float) -> list[int]:
    """Write a journal for each shard that has none, and take back those made before that are not needed now.

    Args:
        folder: the run's, with what was gathered.
        plan: the whole plan.
        reasons: by shard, why its pod left nothing, where that is known.
        moment: when it is said to have been told, in seconds since the epoch; not behind the run's end.

    Returns:
        The shards of which no journal tells.

    Raises:
        OSError: a journal cannot be written.
    """
    told = _told(folder)
    untold = [shard for shard in plan.shards if shard.groups and shard.index not in told]
    for shard in plan.shards:
        journal_path(folder, shard.index, ATTEMPT).unlink(missing_ok=True)
    for shard in untold:
        path = journal_path(folder, shard.index, ATTEMPT)
        with contextlib.closing(JournalWriter(path, lambda: moment)) as journal:
            journal.write(
                "shard_start", shard=shard.index, attempt=ATTEMPT, planned=len(shard.ids),
                fingerprint=plan.fingerprint,
            )  # fmt: skip
            journal.write("not_run", ids=shard.ids, message=reasons.get(shard.index, NO_POD))
    return [shard.index for shard in untold]


def _told(folder: Path) -> set[int]:
    """The shards of which a journal of a pod tells anything."""
    found = set()
    for path in (folder / "journal").glob("*-*.jsonl"):
        shard, _, attempt = path.stem.partition("-")
        if shard.isdecimal() and attempt.isdecimal() and int(attempt) != ATTEMPT and path.stat().st_size:
            found.add(int(shard))
    return found
