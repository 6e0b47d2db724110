"""Going on with a run that was cut off: what is left of its plan, and what may have run unseen."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from ci.core.errors import DiskFullError, PlanMismatchError, SpyreCiError
from ci.record.journal import Journal
from ci.record.run_state import RunState, frame_of
from ci.runner.strays import Killed, end_strays_of_run, find_strays_of_run
from test_selection.plan import Group, Plan, Shard

POLL_S = 0.1


class UnwritableError(SpyreCiError):
    """The account of a run cannot be written any more; what was written stays."""

    exit_code = DiskFullError.exit_code


def cannot_go_on(run_dir: Path, number: int | None) -> SpyreCiError:
    """Why a run ended early: its journals cannot be written.

    Args:
        run_dir: the run's folder.
        number: of the operating system's error.
    """
    remedy = (
        f"then `spyre-ci run --resume {run_dir}` goes on from here; "
        f"`spyre-ci report {run_dir}` tells of what was done"
    )
    if number in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return DiskFullError(
            "no space left for the run's journals, so the run ended early",
            where=run_dir,
            remedy=f"free space there; {remedy}",
        )
    said = os.strerror(number) if number else "the disk refused it"
    return UnwritableError(
        f"the run's journals cannot be written, so the run ended early: {said}",
        where=run_dir,
        remedy=f"mend the disk; {remedy}",
    )


def refuse_other_plans(plan: Plan, journals: Sequence[Journal]) -> None:
    """Refuse to go on with another plan than the one that was run.

    Raises:
        PlanMismatchError: a journal is of another plan.
    """
    for journal in journals:
        for seen in sorted(_state(journal).fingerprints - {plan.fingerprint}):
            raise PlanMismatchError(
                f"is of the plan {seen!r:.20}, and the folder's plan is {plan.fingerprint!r:.20}",
                where=journal.path,
                remedy="put the plan that was run back, or move journals of other plans away",
            )


def what_is_left(plan: Plan, done: Collection[str]) -> Plan:
    """The plan without the tests that have a verdict; its fingerprint stays, for it is the same run.

    What of a chain is left stays together. A shard's expected seconds shrink with its number of tests.
    """
    return replace(plan, shards=tuple(_shard(shard, done) for shard in plan.shards))


def _shard(shard: Shard, done: Collection[str]) -> Shard:
    groups = tuple(left for group in shard.groups if (left := _group(group, done)).ids)
    before, after = (sum(len(group.ids) for group in part) for part in (shard.groups, groups))
    return replace(shard, groups=groups, expected_s=shard.expected_s * after / max(before, 1))


def _group(group: Group, done: Collection[str]) -> Group:
    left = [place for place, name in enumerate(group.ids) if name not in done]
    new = {place: number for number, place in enumerate(left)}
    chains = []
    for first, length in group.chains:
        kept = [new[place] for place in range(first, first + length) if place in new]
        if len(kept) > 1:
            chains.append((kept[0], len(kept)))
    return replace(group, ids=tuple(group.ids[place] for place in left), chains=tuple(chains))


def doubts(
    left: Plan, journals: Sequence[Journal], *, started: Collection[str], boot: str
) -> dict[int, dict[str, list[str]]]:
    """Tests that are left and may have run all the same, by shard and by the reason to think so.

    Of a test whose start a journal tells of nothing is in doubt: that it runs again is plain to see.

    Args:
        left: what is to be run.
        journals: all there are.
        started: ids with a start that can be read.
        boot: the machine's `boot_id` now.
    """
    unsure: dict[str, str] = {}
    of_any = ""
    for journal in journals:
        reason, ids = _in_doubt(journal, boot)
        if reason and ids is None:
            of_any = reason
            break  # nothing is left that a later journal could put in doubt
        unsure.update((name, reason) for name in ids or () if reason and name not in unsure)
    found: dict[int, dict[str, list[str]]] = {}
    for shard in left.shards:
        for name in shard.ids:
            if name not in started and (reason := unsure.get(name, of_any)):
                found.setdefault(shard.index, {}).setdefault(reason, []).append(name)
    return found


def _in_doubt(journal: Journal, boot: str) -> tuple[str, Collection[str] | None]:
    """The reason and the ids in doubt, None for any; an empty reason where there is no doubt."""
    if not (journal.events or journal.torn or journal.damaged):
        # Its worker, which brings its first line to the disk before it runs anything, never began.
        return "", ()
    name = f"{journal.path.parent.name}/{journal.path.name}"
    state = _state(journal)
    if not state.status and (not state.boots or state.boots - {boot or None}):
        return f"the machine went down, and up to a second of {name} with it", None
    if journal.nameless:
        return f"lines of {name} are lost, which may be this test's", None
    if journal.suspects:
        return f"its lines in {name} are lost", journal.suspects
    return "", ()


def _state(journal: Journal) -> RunState:
    return frame_of(journal.shard, journal.attempt, journal.events)


def end_leftovers(run_dir: Path, *, wait_s: float) -> Killed:
    """Let workers whose supervisor was killed write their account, then end what is left of them.

    Only for whoever has the run folder alone.

    Args:
        run_dir: the run's folder.
        wait_s: how long they have, in seconds.
    """
    deadline = time.monotonic() + wait_s
    while find_strays_of_run(run_dir) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return end_strays_of_run(run_dir)
