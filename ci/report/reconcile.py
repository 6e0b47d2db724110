"""Reconciling plan and journals: every planned test gets exactly one verdict, however the run ended (law 1).

Pure: values in, values out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from ci.core.text import counted, one_line
from ci.record.environment import RanIn
from ci.record.events import FileError
from ci.record.journal import Journal
from ci.record.result import Failures, Result, Try, settle
from ci.record.run_state import INTERRUPTED, RunState, replay
from ci.record.timeline import ShardTimeline
from ci.record.verdict import BROKEN, NO_OUTCOME, Verdict
from ci.report.quarantine_note import QuarantineNote
from test_selection.ids import file_of
from test_selection.plan import Group, Plan, Shard

TAKEN_OVER = "another host started it and was lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of a plan.

    Attributes:
        results: one a planned test, in the order of the plan.
        expected_s: by shard index, the seconds the plan expected.
        unplanned: ids that journals tell of and the plan does not know.
        missing_shards: shards without a journal whose tests nobody else ran.
        foreign: shard-attempt of journals that belong to another plan; they count for nothing.
        torn: lines that were cut, damaged or malformed.
        notes: what else a reader must know of the evidence, a sentence each.
        timelines: one an attempt, by shard and attempt.
        file_errors: files that could not be imported where their tests were to run.
        interrupted: whether the last attempt at some shard was ended early.
        stopped: how many tests were not asked for any more, by why not.
        workers_lost: how many exited without a result, whatever became of their tests elsewhere.
        unreadable: files of the run that cannot be read, each with the reason.
        quarantine: what the quarantine did; None where there is none.
        control: the device on which what failed ran once more; empty where it did not.
        ran_in: everything that tests ran in; a journal that does not say counts as something of its own.
    """

    results: tuple[Result, ...]
    expected_s: Mapping[int, float]
    unplanned: tuple[str, ...] = ()
    missing_shards: tuple[int, ...] = ()
    foreign: tuple[str, ...] = ()
    torn: int = 0
    notes: tuple[str, ...] = ()
    timelines: tuple[ShardTimeline, ...] = ()
    file_errors: tuple[FileError, ...] = ()
    interrupted: bool = False
    stopped: Mapping[str, int] = field(default_factory=dict)
    workers_lost: int = 0
    unreadable: tuple[str, ...] = ()
    quarantine: QuarantineNote | None = None
    control: str = ""
    ran_in: tuple[RanIn, ...] = ()
    op_traces: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many tests came to each of the nine verdicts; they add up to the planned tests."""
        found = Counter(result.verdict for result in self.results)
        return {verdict: found[verdict] for verdict in Verdict}

    @property
    def failures(self) -> Failures:
        """What the marks say of the failed tests."""
        whose = Counter(one.whose for one in self.results if not one.forgiven)
        return Failures(
            forgiven=sum(one.forgiven for one in self.results),
            upstream=whose["upstream"],
            device=whose["device"],
            unclear=whose["unclear"],
            control=self.control,
            expired=self.quarantine.expired if self.quarantine is not None else (),
        )

    @property
    def ended_at(self) -> float | None:
        """The last event of all, in seconds since the epoch; None without any journal."""
        return max((line.ended_at for line in self.timelines), default=None)

    @property
    def holes(self) -> tuple[str, ...]:
        """Why the account is not whole, a sentence each, beside what the verdicts say."""
        said = []
        if self.missing_shards:
            number = len(self.missing_shards)
            said.append(f"{counted(number, 'shard')} without a journal")
        if self.unplanned:
            said.append(f"{counted(len(self.unplanned), 'test')} reported that were not planned")
        if self.foreign:
            said.append(f"{counted(len(self.foreign), 'journal')} of another plan")
        if self.workers_lost and not self.counts[Verdict.INFRASTRUCTURE]:
            said.append(f"{counted(self.workers_lost, 'worker')} lost")
        return (*said, *(f"cannot be read: {one}" for one in self.unreadable))

    def setup_seconds(self) -> dict[str, list[float]]:
        """By file, the seconds of each time it was set up."""
        found: dict[str, list[float]] = {}
        for group in chain.from_iterable(line.groups for line in self.timelines):
            if group.setup_s is not None:
                found.setdefault(group.file, []).append(group.setup_s)
        return found


def reconcile(
    plan: Plan,
    journals: Iterable[Journal],
    *,
    expectations: Mapping[str, str] | None = None,
    interrupted: bool = False,
    known: Collection[str] = (),
    states: Sequence[RunState] | None = None,
) -> Account:
    """Give every planned test its verdict.

    Args:
        plan: what was to run.
        journals: whatever was gathered, in any order; the same one twice counts once.
        expectations: by id, the reason of a declared outcome.
        interrupted: the caller knows that the run was ended early.
        known: ids that are planned, and another host's to answer for.
        states: what `replay_all` made of the journals; None: it is made here.
    """
    journals = list(journals)
    attempts = _by_attempt(journals)
    if states is None:
        states = _replays(attempts, interrupted=interrupted)
    own, foreign = _sort_out(states, plan, known)
    tries = _merge(own)
    unsure = _unsure(own, tries)
    results = tuple(_results(plan, tries, unsure, _Reasons(own), expectations or {}))
    planned = {result.id for result in results}
    told = set[str]().union(*(one.ids for one in own))
    last = {one.shard: one for one in own}
    return Account(
        results=results,
        expected_s={shard.index: shard.expected_s for shard in plan.shards},
        unplanned=tuple(sorted((told - planned).difference(known))),
        missing_shards=_missing(plan, last, told),
        foreign=tuple(f"{one.shard}-{one.attempt}" for one in foreign),
        torn=sum(one.torn + one.damaged for one in attempts) + sum(one.malformed for one in own),
        notes=(*_lost_lines(attempts), *_headless(own, foreign), *_told_unsure(unsure)),
        timelines=tuple(line for one in own if (line := one.timeline)),
        file_errors=tuple(error for one in own for error in one.file_errors.values()),
        interrupted=interrupted or _was_interrupted(plan, results, last),
        stopped=_stopped(results, last.values()),
        workers_lost=sum(one.workers_lost for one in own),
        unreadable=tuple(one.unreadable for one in journals if one.unreadable),
        op_traces={name: one.op_sets[key] for one in own for name, key in one.op_traces.items()},
        ran_in=tuple(sorted(set[RanIn]().union(*(one.ran_in or {RanIn()} for one in own if one.tries)))),
    )


def plan_without_shards(ids: Sequence[str], journals: Iterable[Journal]) -> Plan:
    """A plan for tests whose own is damaged: each in the shard whose journals tell of it, else in the first.

    Args:
        ids: test ids, of the selection.
        journals: of the run, whose plan this one passes for.
    """
    replays = replay_all(journals)
    of = {name: one.shard for one in replays for name in one.told}
    files: dict[int, dict[str, list[str]]] = {0: {}}
    for name in ids:
        files.setdefault(of.get(name, 0), {}).setdefault(file_of(name), []).append(name)
    shards = tuple(
        Shard(
            index=index,
            expected_s=0,
            groups=tuple(Group(file=file, ids=tuple(names)) for file, names in files.get(index, {}).items()),
        )
        for index in range(max(files) + 1)
    )
    seen = next((one.fingerprint for one in replays if one.fingerprint), "")
    return Plan(fingerprint=seen, bound_s=0, makespan_s=0, binds="nothing", shards=shards)


def what_ran_here(plan: Plan, shards: Collection[int], states: Iterable[RunState]) -> Plan:
    """The part of a plan that was a host's to run: its shards, without what others took, with what it took.

    Args:
        plan: the whole plan.
        shards: the indexes of the host's shards.
        states: what `replay_all` made of the host's own journals.
    """
    replays, _ = _sort_out(states, plan)
    told = set[str]().union(*(one.ids for one in replays))
    # What was cut off here and went to another is that one's to answer for.
    settled = {
        name
        for one in replays
        for name, tries in one.tries.items()
        if any(found.outcome not in NO_OUTCOME for found in tries)
    }
    away = set[str]().union(*(one.elsewhere for one in replays)) - settled
    own = [shard for shard in plan.shards if shard.index in shards]
    # Who has no shard has no journal either.
    taken = [group for shard in plan.shards if shard.index not in shards for group in groups_of(shard, told)]
    parts = [replace(shard, groups=groups_of(shard, set(shard.ids) - away)) for shard in own]
    if parts and taken:
        parts[0] = replace(parts[0], groups=(*parts[0].groups, *taken))
    return replace(plan, shards=tuple(parts))


def groups_of(shard: Shard, ids: Collection[str]) -> tuple[Group, ...]:
    """The groups of a shard with nothing but these tests, each of which may run by itself."""
    kept = ((group, tuple(name for name in group.ids if name in ids)) for group in shard.groups)
    return tuple(replace(group, ids=names, chains=()) for group, names in kept if names)


def _sort_out(
    replays: Iterable[RunState], plan: Plan, known: Collection[str] = ()
) -> tuple[list[RunState], list[RunState]]:
    """The journals that are of a plan, and those that are not.

    One whose first line is lost does not say whose it is. It counts only where it tells of nothing but tests
    and files of this plan: the first line of an own journal may be torn, and then its results are true.
    """
    own: list[RunState] = []
    foreign: list[RunState] = []
    ids: set[str] | None = None
    for one in replays:
        if not one.fingerprint and ids is None:
            ids = {*plan.ids, *known}
        counts = one.fingerprint == plan.fingerprint if one.fingerprint else one.tells_only_of(ids or ())
        (own if counts else foreign).append(one)
    return own, foreign


def _headless(own: Iterable[RunState], foreign: Iterable[RunState]) -> list[str]:
    """What is said of journals that do not say whose they are."""
    lost = "has lost its first line, which names its plan;"
    strange = "it reports tests that were not planned, so it is ignored"
    said = [
        f"journal/{one.shard}-{one.attempt}.jsonl {lost} all its tests are planned, so it counts"
        for one in own
        if not one.fingerprint and (one.told or one.files)
    ]
    return said + [
        f"journal/{one.shard}-{one.attempt}.jsonl {lost} {strange}" for one in foreign if not one.fingerprint
    ]


def _results(
    plan: Plan,
    tries: Mapping[str, Sequence[Try]],
    unsure: Mapping[str, str],
    reasons: _Reasons,
    expectations: Mapping[str, str],
) -> Iterator[Result]:
    for shard in plan.shards:
        for group in shard.groups:
            for name in group.ids:
                expectation = expectations.get(name, "")
                if name in tries:
                    result = settle(name, tries[name], file=group.file, expectation=expectation)
                    yield _noted(result, unsure.get(name), reasons.not_again.get(name))
                else:
                    yield Result(
                        id=name,
                        verdict=Verdict.NOT_RUN,
                        message=reasons.of(name, group.file, shard.index),
                        file=group.file,
                        shard=shard.index,
                        expectation=expectation,
                    )


def _noted(result: Result, unsure: str | None, not_again: str | None) -> Result:
    """What else its message has to say: none runs twice without a mark, nor is left without a reason."""
    if unsure is None and not not_again:
        return result
    said = [result.message] if result.message else []
    if unsure is not None:
        said.append(f"may have run before: {unsure}")
    if not_again and result.verdict in BROKEN:
        said.append(f"not run again: {one_line(not_again)}")
    return replace(result, message="; ".join(said))


def _was_interrupted(plan: Plan, results: Iterable[Result], last: Mapping[int, RunState]) -> bool:
    """Whether a shard's last attempt was ended early and tests planned for it were left."""
    ended = {shard for shard, one in last.items() if one.status == INTERRUPTED}
    left = {result.id for result in results if result.verdict in NO_OUTCOME} if ended else set()
    return any(not left.isdisjoint(shard.ids) for shard in plan.shards if shard.index in ended)


def _stopped(results: Iterable[Result], last: Iterable[RunState]) -> dict[str, int]:
    """How many tests were left when the run asked for nothing more, by the reason that its journals give."""
    reasons = sorted({one.stopped for one in last if one.stopped})
    left = [one.message for one in results if one.verdict is Verdict.NOT_RUN] if reasons else []
    counts = {reason: sum(reason in message for message in left) for reason in reasons}
    return {reason: number for reason, number in counts.items() if number}


def _by_attempt(journals: Iterable[Journal]) -> list[Journal]:
    """One journal an attempt, by shard and attempt; files that tell of the same attempt are read as one."""
    found: dict[tuple[int, int], list[Journal]] = {}
    for one in journals:
        found.setdefault((one.shard, one.attempt), []).append(one)
    return [
        replace(
            copies[0],
            events=[event for one in copies for event in one.events],
            torn=max(one.torn for one in copies),
            damaged=max(one.damaged for one in copies),
        )
        for _, copies in sorted(found.items())
    ]


def replay_all(journals: Iterable[Journal], *, interrupted: bool = False) -> list[RunState]:
    """What each attempt that journals tell of did, by shard and attempt.

    Args:
        journals: in any order; the same one twice counts once.
        interrupted: the caller knows that the run was ended early.
    """
    return _replays(_by_attempt(journals), interrupted=interrupted)


def _replays(attempts: Iterable[Journal], *, interrupted: bool) -> list[RunState]:
    return [replay(one.shard, one.attempt, one.events, interrupted=interrupted) for one in attempts]


def fold_journals(
    journals: Iterable[Journal], *, interrupted: bool = False
) -> tuple[list[Journal], list[RunState]]:
    """What `replay_all` makes of journals, and the journals without their events, for `reconcile`.

    One attempt's events are held at a time: of 2,048 shards they are much of what a report would hold.

    Args:
        journals: by shard and attempt, as `each_journal` reads them; the same one twice counts once.
        interrupted: the caller knows that the run was ended early.
    """
    folded, states = list[Journal](), list[RunState]()
    for _, group in groupby(journals, key=lambda one: (one.shard, one.attempt)):
        copies = list(group)
        states += replay_all(copies, interrupted=interrupted)
        folded += [replace(one, events=[]) for one in copies]
    return folded, states


def _lost_lines(journals: Iterable[Journal]) -> Iterator[str]:
    """What was lost of each journal."""
    for one in journals:
        name = f"journal/{one.shard}-{one.attempt}.jsonl"
        if one.torn:
            yield f"{counted(one.torn, 'torn line')} in {name}"
        if one.damaged:
            yield f"{counted(one.damaged, 'line')} with a wrong checksum in {name}"


def _unsure(replays: Iterable[RunState], tries: Mapping[str, Sequence[Try]]) -> dict[str, str]:
    """By id, why a test may have run before, unseen."""
    begun = {name: TAKEN_OVER for name, known in tries.items() if known[0].number > 1 and not known[0].again}
    return begun | {name: reason for one in replays for name, reason in one.unsure.items()}


def _told_unsure(unsure: Mapping[str, str]) -> list[str]:
    counts = sorted(Counter(unsure.values()).items())
    return [f"{counted(number, 'test')} may have run before: {reason}" for reason, number in counts]


def _merge(replays: Iterable[RunState]) -> dict[str, list[Try]]:
    """Every test's tries over all journals: by their number, by attempt, and within one by time.

    A test can be told of by several shards, where one took over work from another. What a CI ran again comes
    after all that it is run again for, so that a retry of before is not the last word.
    """
    found: dict[str, list[tuple[int, Try]]] = {}
    for one in replays:
        for name, tries in one.tries.items():
            found.setdefault(name, []).extend((one.attempt, tried) for tried in tries)
    for rows in found.values():
        rows.sort(key=lambda row: (row[1].job, row[1].number, row[0], row[1].started_at or 0.0))
    return {name: [tried for _, tried in rows] for name, rows in found.items()}


class _Reasons:
    """Why a test that was never started was not."""

    def __init__(self, replays: Sequence[RunState]) -> None:
        self.not_again = {name: why for one in replays for name, why in one.no_retry.items()}
        self._given = {name: why for one in replays for name, why in one.not_run.items()}
        self._elsewhere = {name: host for one in replays for name, host in one.elsewhere.items()}
        self._file_errors = {
            (one.shard, file): bad for one in replays for file, bad in one.file_errors.items()
        }
        self._last = {one.shard: one for one in replays}

    def of(self, name: str, file: str, shard: int) -> str:
        """The best reason there is; never empty."""
        if given := self._given.get(name):
            return given
        if error := self._file_errors.get((shard, file)):
            return f"{file} could not be imported: {one_line(error.message)}"
        if host := self._elsewhere.get(name):
            return f"{host} claimed it, and no collected journal reports it"
        journal = self._last.get(shard)
        if journal is None:
            return f"shard {shard} has no journal: it never ran, or its journal was not collected"
        if journal.stopped:
            return journal.stopped
        return {
            INTERRUPTED: "interrupted before it was started",
            "done": f"shard {shard} ended without starting it",
        }.get(journal.status, f"the journal of shard {shard} ends before it")


def _missing(plan: Plan, present: Mapping[int, RunState], told: set[str]) -> tuple[int, ...]:
    return tuple(
        shard.index
        for shard in plan.shards
        if shard.index not in present and any(name not in told for name in shard.ids)
    )
