"""The fold of journal events: what one attempt at a shard did, and does. Pure.

Worker, supervisor, resume, the live view and the report all read journals by `RunState.take`; no other module
looks at the kinds of events.

A journal is evidence, not truth: it may end anywhere, hold an event twice, or hold events whose
counterpart was torn away. Whatever it holds, each test that was started gets its tries.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from msgspec.structs import astuple

from ci.record import events
from ci.record.environment import RanIn, ran_in_of
from ci.record.events import JournalEvent
from ci.record.journal import OUTCOMES, run_attempt_of
from ci.record.result import SILENT, Try
from ci.record.timeline import GroupTiming, ShardTimeline
from ci.record.verdict import Verdict
from test_selection.ids import encode_file

# Why a piece was given out that says nothing against the tests in it.
_NO_RETRY = frozenset({"plan", "stolen"})
_ENDS = {name: Verdict(name) for name in (*OUTCOMES, Verdict.HARDWARE)}
_WHOLE = {Verdict(name) for name in OUTCOMES} - {Verdict.FAILED}
# The method that takes each kind of event.
_METHODS = {kind: f"_{name}" for name, kind in events.KINDS.items()} | {events.Unread: "_unread"}
# What tells nothing of a test.
_OF_SHARD = (events.ShardStart, events.ShardEnd)
_OUTCOME = (events.End, events.Crash)
INTERRUPTED = "interrupted"
STOPPED = "stopped"
NO_REASON = "no reason given"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFault:
    """A card did not do what a card does.

    Attributes:
        message: what it did.
        ras: the card's own word; empty where it said none.
        held: whether a process that has the card open did not end.
    """

    message: str
    ras: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoss:
    """A worker exited without a result.

    Attributes:
        id: of the test that ran, where it is known.
        message: what is known of it.
    """

    id: str | None
    message: str


class Latest(NamedTuple):
    """What one event brings, beside what it adds to the whole.

    Attributes:
        began: the test that it begins.
        begun_file: the file whose set-up it begins.
        ready_file: the file whose set-up it ends.
        loss: of the worker.
        fault: of the card.
        card_lost: the card that is not used any more, and why.
        respawned: whether a file goes on in a fresh process.
    """

    began: str | None = None
    begun_file: str = ""
    ready_file: str = ""
    loss: WorkerLoss | None = None
    fault: CardFault | None = None
    card_lost: tuple[str, str] | None = None
    respawned: bool = False


NOTHING = Latest()


class Begun(NamedTuple):
    """A test that runs.

    Attributes:
        at: seconds since the epoch; None where that was not seen.
        number: which try it is, from 1.
        again: whether it is tried once more because it failed.
        seed: of the test.
        seeded_as: the try whose seed that is.
    """

    at: float | None
    number: int
    again: bool
    seed: int | None
    seeded_as: int


_UNSEEN = Begun(at=None, number=1, again=False, seed=None, seeded_as=1)


@dataclass(slots=True)
class RunState:
    """What one attempt at a shard did and does, by the events of its journal so far.

    Attributes:
        shard: the shard's index.
        attempt: from 1.
        fingerprint: of the plan it ran; empty where its first line was torn.
        fingerprints: every one it names.
        boots: of the machines it was begun on; the empty one where it does not say.
        status: done, interrupted, stopped, or empty while it goes on or where it breaks off.
        stopped: why, where the run asked for nothing more; what it did not come to is not run.
        file: that a process has in hand.
        setting_up: whether that is being set up.
        ready: whether any was.
        running: the test that runs.
        log_start: where its output begins in the shard's log, in bytes.
        open: tests that began and came to no end.
        steps: how often a test or a set-up began or ended.
        tries: by test id, in the order they ended.
        not_run: the reason of each test that was given up before it was started.
        no_retry: the reason of each test that failed and was not run again.
        elsewhere: the host that claimed each test of this shard that was another's to run.
        file_errors: by file.
        groups: in the order of running.
        unsure: the reason of each test that may have run before, unseen.
        malformed: events that lack what their kind promises.
        workers_lost: how many exited without a result.
        op_sets: operators by the key of their set.
        op_traces: by test id, the key of what it called.
        ran_in: what its processes said that tests run in.
        latest: what the last event brought besides.
    """

    shard: int
    attempt: int
    card: str | None = None
    host: str = ""
    fingerprint: str = ""
    fingerprints: set[str] = field(default_factory=set)
    boots: set[str] = field(default_factory=set)
    status: str = ""
    stopped: str = ""
    file: str = ""
    setting_up: bool = False
    ready: bool = False
    running: str | None = None
    log_start: int = 0
    open: dict[str, Begun] = field(default_factory=dict)
    steps: int = 0
    started_at: float | None = None
    ended_at: float = 0.0
    tries: dict[str, list[Try]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    no_retry: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
    file_errors: dict[str, events.FileError] = field(default_factory=dict)
    groups: list[GroupTiming] = field(default_factory=list)
    unsure: dict[str, str] = field(default_factory=dict)
    malformed: int = 0
    workers_lost: int = 0
    op_sets: dict[str, list[str]] = field(default_factory=dict)
    op_traces: dict[str, str] = field(default_factory=dict)
    ran_in: set[RanIn] = field(default_factory=set)
    latest: Latest = NOTHING
    # The number of the tries in the piece that is at work, where that is none of tests that failed.
    _begun_time: int = 1

    @property
    def ids(self) -> set[str]:
        """Every test id the journal names."""
        return self.tries.keys() | self.not_run.keys()

    @property
    def told(self) -> set[str]:
        """Every test id it has any word on, started or not."""
        return self.ids | self.elsewhere.keys() | self.unsure.keys() | self.no_retry.keys()

    @property
    def files(self) -> set[str]:
        """Every file it names."""
        return {one.file for one in self.groups} | self.file_errors.keys()

    def tells_only_of(self, ids: Collection[str]) -> bool:
        """Whether it names no test but these, and no file without one of them."""
        if not all(name in ids for name in self.told):
            return False
        left = self.files
        return not left or set(map(encode_file, left)) <= {name.partition("::")[0] for name in ids}

    @property
    def timeline(self) -> ShardTimeline | None:
        """When it did what; None for a journal without events."""
        if self.started_at is None:
            return None
        return ShardTimeline(
            shard=self.shard,
            attempt=self.attempt,
            card=self.card,
            host=self.host,
            started_at=self.started_at,
            ended_at=self.ended_at,
            status=self.status,
            groups=tuple(self.groups),
        )

    def take(self, event: JournalEvent) -> None:
        """Take the next event; kinds this version does not know are passed over."""
        self.latest = NOTHING
        # A clock that is set back must not turn the order of a journal round.
        self.ended_at = max(event.t, self.ended_at)
        if self.started_at is None:
            self.started_at = self.ended_at
        getattr(self, _METHODS[type(event)])(event)

    def finish(self, *, interrupted: bool) -> None:
        """Settle what is still open: the run was interrupted, or the worker exited without a result."""
        interrupted = self.status == INTERRUPTED or (interrupted and not self.status)
        outcome, message = Verdict.INFRASTRUCTURE, SILENT
        if self.stopped or interrupted:
            outcome, message = Verdict.NOT_RUN, self.stopped or INTERRUPTED
        for name in list(self.open):
            self._close(name, outcome, message=message)
        self._end_group()

    def drain(self) -> dict[str, list[Try]]:
        """Take out the tries that came to an end since the last call, so that their texts are not kept."""
        if not self.tries:
            return {}
        tries, self.tries = self.tries, {}
        return tries

    def _unread(self, event: events.Unread) -> None:
        self.malformed += event.malformed

    def _step(self, *, setting_up: bool) -> None:
        self.steps += 1
        self.setting_up = setting_up

    def _shard_start(self, event: events.ShardStart) -> None:
        self.ran_in.add(ran_in_of(event.back_end, event.torch, event.image))
        self.boots.add(event.boot)
        self.card = event.card or self.card
        self.host = event.host or self.host
        self.fingerprint = event.fingerprint or self.fingerprint
        self.fingerprints |= {self.fingerprint} if self.fingerprint else set()
        self.status = self.stopped = ""

    def _shard_end(self, event: events.ShardEnd) -> None:
        self.status = event.status or "done"
        self.stopped = event.message if self.status == STOPPED else ""
        self.running, self.setting_up = None, False

    def _group_start(self, event: events.GroupStart) -> None:
        self.file = event.file
        self.latest = Latest(begun_file=event.file)
        self.running = None
        self._step(setting_up=True)
        self._end_group()
        now = self.ended_at
        self.groups.append(GroupTiming(file=event.file, setup_s=None, started_at=now, ended_at=now))

    def _group_ready(self, event: events.GroupReady) -> None:
        self.latest, self.ready = Latest(ready_file=event.file), True
        self._step(setting_up=False)
        if not self.groups or self.groups[-1].file != event.file:
            self._end_group()
            now = self.ended_at
            begun = now - event.setup_s
            self.groups.append(GroupTiming(file=event.file, setup_s=None, started_at=begun, ended_at=now))
        self.groups[-1] = replace(self.groups[-1], setup_s=event.setup_s)

    def _group_end(self, _: events.GroupEnd) -> None:
        self._step(setting_up=False)

    def _end_group(self) -> None:
        if self.groups and self.groups[-1].ended_at < self.ended_at:
            self.groups[-1] = replace(self.groups[-1], ended_at=self.ended_at)

    def _piece(self, event: events.Piece) -> None:
        self._begun_time = event.attempt if event.why in _NO_RETRY else 1

    def _start(self, event: events.Start) -> None:
        name, number = event.id, event.number
        if name in self.open:
            self._close(name, Verdict.INFRASTRUCTURE, message=SILENT)
        self.steps += 1
        self.setting_up = False
        self.running, self.latest = name, Latest(began=name)
        self.log_start = event.log
        # A piece of a host that was lost is begun once more, which is no word on the tests in it.
        again = number > 1 and number != self._begun_time
        self.open[name] = Begun(self.ended_at, number, again, event.seed, event.seeded_as or number)

    def _op_set(self, event: events.OpSet) -> None:
        self.op_sets[event.key] = event.ops

    def _end(self, event: events.End) -> None:
        outcome = _ENDS.get(event.outcome)
        # A test that broke off may call more when it does not; one without calls may make them elsewhere.
        if outcome in _WHOLE and self.op_sets.get(event.ops):
            self.op_traces[event.id] = event.ops
        if outcome is None:
            said = f"the worker reported an unknown outcome: {event.outcome!r}"
            self._close(event.id, Verdict.INFRASTRUCTURE, event, message=said)
            return
        if outcome is Verdict.HARDWARE:
            self._blame(event)
        self._close(event.id, outcome, event, message=event.message)

    def _crash(self, event: events.Crash) -> None:
        cause = event.cause or "exit"
        outcome = Verdict.HARDWARE if cause == Verdict.HARDWARE else Verdict.FAILED
        if outcome is Verdict.HARDWARE:
            self._blame(event)
        self._close(event.id, outcome, event, message=event.message, cause=cause)

    def _worker_lost(self, event: events.WorkerLost) -> None:
        message = event.message or "the worker was lost"
        self.workers_lost += 1
        self.latest = Latest(loss=WorkerLoss(id=event.id, message=message))
        for one in list(self.open) if event.id is None else [event.id]:
            self._close(one, Verdict.INFRASTRUCTURE, message=message)
        self.running, self.setting_up = None, False

    def _card_check(self, event: events.CardCheck) -> None:
        held = not event.ended
        # A check after a crash is told of once more, with the crash; its process has the card all the same.
        if not event.ok and (event.why == "order" or held):
            self._blame(event, held=held)

    def _card_fault(self, event: events.CardFault) -> None:
        self._blame(event)

    def _card_lost(self, event: events.CardLost) -> None:
        self.latest = Latest(card_lost=(event.card or self.card or "", event.message))

    def _respawn(self, _: events.Respawn) -> None:
        self.latest = Latest(respawned=True)

    def _blame(
        self, event: events.End | events.Crash | events.CardCheck | events.CardFault, *, held: bool = False
    ) -> None:
        self.latest = Latest(fault=CardFault(message=event.message, ras=event.ras, held=held))

    def _not_run(self, event: events.NotRun) -> None:
        reason = event.message or NO_REASON
        for name in event.ids:
            if name in self.open:
                self._close(name, Verdict.NOT_RUN, message=reason)
            else:
                self.not_run[name] = reason

    def _resumed(self, event: events.Resumed) -> None:
        self.unsure |= dict.fromkeys(event.ids, event.message or NO_REASON)

    def _no_retry(self, event: events.NoRetry) -> None:
        self.no_retry |= dict.fromkeys(event.ids, event.message or NO_REASON)

    def _elsewhere(self, event: events.Elsewhere) -> None:
        self.elsewhere |= dict.fromkeys(event.ids, event.host or "another host")

    def _file_error(self, event: events.FileError) -> None:
        self.setting_up = False
        self.file_errors[event.file] = event

    def _close(
        self,
        name: str,
        outcome: Verdict,
        event: events.End | events.Crash | None = None,
        *,
        message: str,
        cause: str | None = None,
    ) -> None:
        begun, number, again, seed, seeded_as = self.open.pop(name, _UNSEEN)
        self.steps += 1
        if name == self.running:
            self.running = None
        seconds = None if event is None else event.seconds
        if seconds is None:
            seconds = 0.0 if begun is None else self.ended_at - begun
        one = Try(
            outcome=outcome,
            seconds=seconds,
            message=message,
            cause=cause,
            detail="" if event is None else event.detail,
            card=(event.card if event is not None else None) or self.card,
            shard=self.shard,
            started_at=max(self.ended_at - seconds, 0.0) if begun is None else begun,
            number=number,
            again=again,
            leak=event.leak if isinstance(event, events.End) else "",
            job=run_attempt_of(self.attempt),
            seed=seed,
            seeded_as=seeded_as,
            unseeded=event.unseeded if isinstance(event, events.End) else "",
        )
        self.tries.setdefault(name, []).append(one)


def state_of(shard: int, attempt: int, journal: Iterable[JournalEvent]) -> RunState:
    """What one attempt at a shard did, with what is open left open.

    Args:
        shard: its index.
        attempt: from 1.
        journal: its events in the order of the file; one that stands twice counts once (law 6).
    """
    state = RunState(shard=shard, attempt=attempt)
    seen: set[Hashable] = set()
    for event in journal:
        key: Hashable = (type(event), *astuple(event))
        try:
            known = key in seen
        except TypeError:  # it holds a list
            known = (key := repr(event)) in seen
        if not known:
            seen.add(key)
            state.take(event)
    return state


def frame_of(shard: int, attempt: int, journal: Iterable[JournalEvent]) -> RunState:
    """Whose journal it is and whether it came to its end, and nothing of its tests.

    Args:
        shard: its index.
        attempt: from 1.
        journal: as that of `state_of`.
    """
    return state_of(shard, attempt, (event for event in journal if isinstance(event, _OF_SHARD)))


def replay(
    shard: int, attempt: int, journal: Iterable[JournalEvent], *, interrupted: bool = False
) -> RunState:
    """What one attempt at a shard did, with all its tests settled.

    Args:
        shard: its index.
        attempt: from 1.
        journal: as that of `state_of`.
        interrupted: the caller knows that the run was ended early, even where the journal breaks off.
    """
    state = state_of(shard, attempt, journal)
    state.finish(interrupted=interrupted)
    return state


def outcome_in(event: JournalEvent | None) -> str | None:
    """The test whose outcome an event tells; None where it tells none."""
    return event.id or None if isinstance(event, _OUTCOME) else None


def attempt_in(event: JournalEvent, otherwise: int) -> int | None:
    """The attempt that an event begins, `otherwise` where it does not say which; None: it begins none."""
    if not isinstance(event, events.ShardStart):
        return None
    return otherwise if event.attempt is None else event.attempt
