"""What no journal tells of: a journal is made that says why, so that the report does.

It is attempt 0 of its shard, which no pod makes: whatever a pod's journal tells of a test comes after it, and
it goes when one has come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from ci.record import events
from ci.record.journal import JournalWriter, journal_path, read_journal
from ci.record.run_state import state_of
from test_selection.plan import Plan, Shard

ATTEMPT = 0
NO_POD = "no journal of its pod was gathered: the pod never began, or what it left is not in the store"


def tell_untold(folder: Path, plan: Plan, reasons: Mapping[int, str], *, moment: float) -> list[int]:
    """Write a journal for each shard that has none, or whose pod is known to have been lost for good.

    Those that were made before and are not needed now are taken back.

    Args:
        folder: the run's, with what was gathered.
        plan: the whole plan.
        reasons: by shard, why its pod left nothing, or no more, where that is known.
        moment: when it is said to have been told, in seconds since the epoch; not behind the run's end.

    Returns:
        The shards of which no journal tells.

    Raises:
        OSError: a journal cannot be written.
    """
    told = _told(folder)
    untold = []
    for shard in plan.shards:
        path = journal_path(folder, shard.index, ATTEMPT)
        path.unlink(missing_ok=True)
        ids = shard.ids
        if shard.index in told:
            ids = _left(shard, told[shard.index]) if shard.index in reasons else []
        elif ids:
            untold.append(shard.index)
        if ids:
            with contextlib.closing(JournalWriter(path, lambda: moment)) as journal:
                journal.write(
                    events.ShardStart(
                        shard=shard.index,
                        attempt=ATTEMPT,
                        planned=len(ids),
                        fingerprint=plan.fingerprint,
                    )
                )
                journal.write(events.NotRun(ids=ids, message=reasons.get(shard.index, NO_POD)))
    return untold


def _left(shard: Shard, journals: list[Path]) -> list[str]:
    """The tests of a shard of which its journals have no word, nor of their file."""
    named: set[str] = set()
    files: set[str] = set()
    for path in journals:
        state = state_of(shard.index, ATTEMPT, read_journal(path, shard.index, ATTEMPT).events)
        named |= state.ids | state.open.keys() | state.no_retry.keys()
        files |= state.file_errors.keys()
    return [
        name for group in shard.groups if group.file not in files for name in group.ids if name not in named
    ]


def _told(folder: Path) -> dict[int, list[Path]]:
    """The journals of pods that tell anything, by shard."""
    found: dict[int, list[Path]] = {}
    for path in (folder / "journal").glob("*-*.jsonl"):
        shard, _, attempt = path.stem.partition("-")
        if shard.isdecimal() and attempt.isdecimal() and int(attempt) != ATTEMPT and path.stat().st_size:
            found.setdefault(int(shard), []).append(path)
    return found
