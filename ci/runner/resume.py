"""Going on with a run that was cut off: what is left of its plan, and what may have run unseen.

A test that failed has an outcome, so it is not among what is left of the plan; that it was to be tried once
more is nowhere but in the journals, where that try is missing. Tests that were running when their host went
may be why, and are not run for ever.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.errors import DiskFullError, PlanMismatchError, SpyreCiError
from ci.record import events
from ci.record.journal import TOOK_ALL, XPASS_STRICT, Journal, JournalWriter, journal_path, next_attempt
from ci.record.result import SILENT, Try
from ci.record.run_state import RunState, frame_of, state_of
from ci.record.verdict import FAILING, NO_OUTCOME, Verdict
from ci.runner.orphans import Killed, end_orphans_of_run, find_orphans_of_run
from ci.runner.retries import NO_OTHER_CARD, Pending
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
        f"then `spyre-ci run --resume {run_dir}` continues from here; "
        f"`spyre-ci report {run_dir}` reports what was done"
    )
    if number in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return DiskFullError(
            "no space left for the run's journals, so the run ended early",
            where=run_dir,
            remedy=f"free space there; {remedy}",
        )
    said = os.strerror(number) if number else "a disk error"
    return UnwritableError(
        f"the run's journals cannot be written, so the run ended early: {said}",
        where=run_dir,
        remedy=f"fix the disk; {remedy}",
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
    while find_orphans_of_run(run_dir) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return end_orphans_of_run(run_dir)


@dataclass(slots=True)
class _Tries:
    """What was tried of a test.

    Attributes:
        past: where and how often that failed or was lost, and the number of the next try.
        of_last: that of the last one that ended, with when it did, whether it failed and whether it was lost.
        outcome: whether any had one.
        settled: whether it was said, or is clear, that it is not run again.
    """

    past: Pending
    of_last: tuple[int, float, bool, bool] = (0, 0.0, False, False)
    outcome: bool = False
    settled: bool = False

    def begun(self, number: int) -> None:
        """A try of this number was."""
        self.past.attempt = max(self.past.attempt, number + 1)

    def ended(self, one: Try, *, card: str) -> None:
        """A try came to its end."""
        lost = one.outcome is Verdict.INFRASTRUCTURE
        bad = lost or one.outcome in FAILING
        self.begun(one.number)
        self.outcome = self.outcome or not lost
        if lost:
            self.past.lost += 1
        elif bad:
            self.past.failed += 1
            self.past.cards |= frozenset(card.split("+") if card else ())
        # What was cut off may have run twice by one number.
        ended_at = (one.started_at or 0.0) + one.seconds
        self.of_last = max(self.of_last, (one.number, ended_at, bad, lost), key=lambda told: told[:2])

    def open(self, most: int) -> bool:
        """Whether it has a try left and no good end; one that never came to any end is left of the plan."""
        _, _, bad, lost = self.of_last
        times = self.past.lost if lost else self.past.failed
        return self.outcome and bad and not self.settled and times <= most


def pending_retries(journals: Sequence[Journal], most: int, boot: str | None = None) -> list[Pending]:
    """The tests that failed at their last try and were to be tried again, in the order they were begun.

    Not among them are those without any outcome, which are left of the plan anyway, those that ran as often
    as they may, and those of which a run said at its end why they are not run again. How many may be run
    again in all is not looked at. On another machine the cards are others, whatever they are called: none of
    them is one it failed on, and that there was no other card is no reason any more.

    Args:
        journals: all there are of the run, by shard and attempt.
        most: how often a test is run again.
        boot: this machine's `boot_id`, empty for one that no journal is of; None: all are this one's.
    """
    tries: dict[str, _Tries] = {}
    for journal in journals:
        _read(state_of(journal.shard, journal.attempt, journal.events), tries, boot)
    return [one.past for one in tries.values() if one.open(most)]


def _read(state: RunState, tries: dict[str, _Tries], boot: str | None) -> None:
    elsewhere = boot is not None and not state.boots <= {"", boot}
    for name, reason in state.no_retry.items():
        if not (elsewhere and reason.startswith(NO_OTHER_CARD)):
            tries.setdefault(name, _Tries(Pending(name))).settled = True
    for name, ended in state.tries.items():
        one = tries.setdefault(name, _Tries(Pending(name)))
        for found in ended:
            if found.message == SILENT or found.outcome is Verdict.NOT_RUN:
                one.begun(found.number)
                continue
            # What was to fail and passed is told apart already: another card says no more of it.
            one.settled = one.settled or found.message.startswith(XPASS_STRICT)
            one.ended(found, card="" if elsewhere else found.card or "")
    for name, begun in state.open.items():
        tries.setdefault(name, _Tries(Pending(name))).begun(begun.number)


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


def apart_from_chains(shards: Iterable[Shard], names: Collection[str]) -> list[str]:
    """Those of the tests that can be run by themselves: one that runs after others stays with them."""
    found = []
    for group in (group for shard in shards for group in shard.groups):
        chained = {name for first, count in group.chains for name in group.ids[first : first + count]}
        found += [name for name in group.ids if name in names and name not in chained]
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
