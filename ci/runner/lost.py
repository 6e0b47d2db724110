"""Tests that were running when their host went, and may be why: which they are, and what is said of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from ci.record import events
from ci.record.journal import TOOK_ALL, Journal, JournalWriter, journal_path, next_attempt
from ci.record.run_state import state_of
from ci.record.verdict import NO_OUTCOME
from test_selection.plan import Plan

# A test that was lost so often with its pod is not run again: others could not, else.
MOST_LOSSES = 2
MESSAGE = f"{TOOK_ALL} {MOST_LOSSES} times while it ran; see its pods for whether memory ran out"


def lost_with_host(journals: Iterable[Journal]) -> Counter[str]:
    """How often each test that came to no end was running when its host went with all its processes.

    A worker that outlives its supervisor writes its account, and one that goes alone is told of.
    """
    found = Counter[str]()
    ended = set[str]()
    for journal in journals:
        state = state_of(journal.shard, journal.attempt, journal.events)
        ended |= {
            name for name, tries in state.tries.items() if any(one.outcome not in NO_OUTCOME for one in tries)
        }
        if not (journal.damaged or state.status):  # else their ends may have been told of
            found.update(state.open.keys())
    return Counter({name: count for name, count in found.items() if name not in ended})


def apart_from_chains(plan: Plan, names: Collection[str]) -> list[tuple[str, str, int, int]]:
    """Which of the tests can be run by themselves, with file, shard and number of cards.

    A test that runs after others of its file stays with them.
    """
    found = []
    for shard in plan.shards:
        for group in shard.groups:
            chained = {name for first, count in group.chains for name in group.ids[first : first + count]}
            found += [
                (name, group.file, shard.index, shard.cards)
                for name in group.ids
                if name in names and name not in chained
            ]
    return found


def write_off(
    run_dir: Path,
    plan: Plan,
    journals: Sequence[Journal],
    *,
    boot: str,
    host: str,
    clock: Callable[[], float],
) -> list[str]:
    """Write the end of every test that took its host with it as often as it may.

    Args:
        run_dir: the run's folder.
        plan: with the tests that are to be run here.
        journals: all there are.
        boot: of this machine.
        host: its name.
        clock: seconds since the epoch.

    Returns:
        Their ids.
    """
    gone = {name for name, count in lost_with_host(journals).items() if count >= MOST_LOSSES}
    for shard in plan.shards:
        ids = [name for name in shard.ids if name in gone]
        if not ids:
            continue
        attempt = next_attempt(run_dir, shard.index)
        with contextlib.closing(JournalWriter(journal_path(run_dir, shard.index, attempt), clock)) as journal:
            journal.write(
                events.ShardStart(
                    shard=shard.index,
                    attempt=attempt,
                    planned=0,
                    fingerprint=plan.fingerprint,
                    host=host,
                    boot=boot,
                )
            )
            for name in ids:
                journal.write(events.Crash(id=name, cause="exit", message=MESSAGE, seconds=0.0))
            journal.write(events.NoRetry(ids=ids, message="it is not to take more pods with it"))
            journal.write(events.ShardEnd(status="done"))
            journal.sync(now=True)
    return [name for name in plan.ids if name in gone]
