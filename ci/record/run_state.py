"""Replaying one journal: every try of every test it tells of, and when its shard did what. Pure.

A journal is evidence, not truth: it may end anywhere, hold an event twice, or hold events whose
counterpart was torn away. Whatever it holds, each test that was started gets its tries.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ci.record.environment import RanIn, ran_in_of
from ci.record.journal import OUTCOMES, Event, count_of, run_attempt_of, seconds_of, seed_of, text_of
from ci.record.verdict import SILENT, Try, Verdict
from test_selection.ids import encode_file

# Why a piece was given out that says nothing against the tests in it.
_NO_RETRY = frozenset({"plan", "stolen"})
_ENDS = {name: Verdict(name) for name in (*OUTCOMES, Verdict.HARDWARE)}
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTiming:
    """When a worker was busy with the tests of one file.

    Attributes:
        file: the test file.
        setup_s: seconds of its import and collection; None when it never became ready.
        started_at: seconds since the epoch.
        ended_at: seconds since the epoch; the journal's last word where the group has no end.
    """

    file: str
    setup_s: float | None
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTimeline:
    """What one attempt at one shard did, and when (seconds since the epoch).

    Attributes:
        shard: its index.
        attempt: from 1.
        card: the accelerator it held.
        host: where it ran.
        started_at: its first event.
        ended_at: its last event.
        status: done, interrupted, or empty where the journal breaks off.
        groups: in the order of running.
    """

    shard: int
    attempt: int
    card: str | None
    host: str
    started_at: float
    ended_at: float
    status: str
    groups: tuple[GroupTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileError:
    """A file that could not be imported where its tests were to run."""

    file: str
    message: str
    detail: str
    shard: int


@dataclass(slots=True)
class Replay:
    """What one attempt's journal says; filled by `replay`.

    Attributes:
        shard: the shard's index.
        attempt: from 1.
        fingerprint: of the plan it ran; empty where its first line was torn.
        tries: by canonical id, in the order they were started.
        not_run: the reason of each test that was given up before it was started.
        no_retry: the reason of each test that failed and was not run again.
        elsewhere: the host that claimed each test of this shard that was another's to run.
        file_errors: by file.
        groups: in the order of running.
        unsure: the reason of each test that may have run before, unseen.
        malformed: events that lack what their kind promises.
        ran_in: what its processes said that tests run in.
    """

    shard: int
    attempt: int
    card: str | None = None
    host: str = ""
    fingerprint: str = ""
    status: str = ""
    started_at: float | None = None
    ended_at: float = 0.0
    tries: dict[str, list[Try]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    no_retry: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
    file_errors: dict[str, FileError] = field(default_factory=dict)
    groups: list[GroupTiming] = field(default_factory=list)
    unsure: dict[str, str] = field(default_factory=dict)
    malformed: int = 0
    ran_in: set[RanIn] = field(default_factory=set)
    _open: dict[str, tuple[float, int, bool, int | None, int]] = field(default_factory=dict)
    # The number of the tries in the piece that is at work, where that is none of tests that failed.
    _begun_time: int = 1

    @property
    def ids(self) -> set[str]:
        """Every canonical id the journal names."""
        return self.tries.keys() | self.not_run.keys()

    @property
    def told(self) -> set[str]:
        """Every canonical id it has any word on, started or not."""
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

    def take(self, event: Event) -> None:
        """Take the next event; kinds this version does not know are passed over."""
        moment = seconds_of(event.get("t"), self.ended_at)
        # A clock that is set back must not turn the order of a journal round.
        self.ended_at = max(moment, self.ended_at)
        self.started_at = self.ended_at if self.started_at is None else self.started_at
        try:
            self._dispatch(event)
        except (KeyError, TypeError):
            self.malformed += 1

    def finish(self, *, interrupted: bool) -> None:
        """Settle what is still open: the run was interrupted, or the worker went without a word."""
        interrupted = self.status == INTERRUPTED or (interrupted and not self.status)
        for name in list(self._open):
            if interrupted:
                self._close(name, {}, Verdict.NOT_RUN, message=INTERRUPTED)
            else:
                self._close(name, {}, Verdict.INFRASTRUCTURE, message=SILENT)
        self._end_group()

    def _dispatch(self, event: Event) -> None:
        match event["e"]:
            case "shard_start" | "shard_end":
                self._shard(event)
            case "group_start" | "group_ready":
                self._group(event)
            case "piece":
                self._piece(event)
            case "start":
                self._start(event)
            case "end":
                self._end(event)
            case "crash":
                self._crash(event)
            case "worker_lost":
                self._worker_lost(event)
            case "resumed" | "not_run" | "no_retry" | "elsewhere":
                self._of_several(event)
            case "file_error":
                self._file_error(event)

    def _shard(self, event: Event) -> None:
        if event["e"] == "shard_start":
            self.ran_in.add(ran_in_of(event))
        self.card = text_of(event.get("card")) or self.card
        self.host = text_of(event.get("host")) or self.host
        self.fingerprint = text_of(event.get("fingerprint")) or self.fingerprint
        self.status = text_of(event.get("status")) or self.status

    def _group(self, event: Event) -> None:
        if event["e"] == "group_start":
            self._group_start(event)
        else:
            self._group_ready(event)

    def _group_start(self, event: Event) -> None:
        file = _name(event["file"])
        self._end_group()
        now = self.ended_at
        self.groups.append(GroupTiming(file=file, setup_s=None, started_at=now, ended_at=now))

    def _group_ready(self, event: Event) -> None:
        file, setup_s = _name(event["file"]), seconds_of(event["setup_s"], 0.0)
        if not self.groups or self.groups[-1].file != file:
            self._end_group()
            now = self.ended_at
            begun = now - setup_s
            self.groups.append(GroupTiming(file=file, setup_s=None, started_at=begun, ended_at=now))
        self.groups[-1] = replace(self.groups[-1], setup_s=setup_s)

    def _end_group(self) -> None:
        if self.groups and self.groups[-1].ended_at < self.ended_at:
            self.groups[-1] = replace(self.groups[-1], ended_at=self.ended_at)

    def _start(self, event: Event) -> None:
        name = _name(event["id"])
        if name in self._open:
            self._close(name, {}, Verdict.INFRASTRUCTURE, message=SILENT)
        number = count_of(event.get("try", 1))
        # A piece of a host that was lost is begun once more, which is no word on the tests in it.
        again = number > 1 and number != self._begun_time
        seeded_as = count_of(event.get("as", number))
        self._open[name] = self.ended_at, number, again, seed_of(event.get("seed")), seeded_as

    def _piece(self, event: Event) -> None:
        self._begun_time = count_of(event.get("attempt", 1)) if event.get("why") in _NO_RETRY else 1

    def _end(self, event: Event) -> None:
        name, outcome = _name(event["id"]), event["outcome"]
        if isinstance(outcome, str) and outcome in _ENDS:
            self._close(name, event, _ENDS[outcome])
        else:
            said = f"the worker told of an outcome nobody knows: {outcome!r}"
            self._close(name, event, Verdict.INFRASTRUCTURE, message=said)

    def _crash(self, event: Event) -> None:
        cause = text_of(event.get("cause")) or "exit"
        outcome = Verdict.HARDWARE if cause == Verdict.HARDWARE else Verdict.FAILED
        self._close(_name(event["id"]), event, outcome, cause=cause)

    def _worker_lost(self, event: Event) -> None:
        lost = list(self._open) if event.get("id") is None else [_name(event["id"])]
        message = text_of(event.get("message")) or "the worker was lost"
        for name in lost:
            self._close(name, event, Verdict.INFRASTRUCTURE, message=message)

    def _of_several(self, event: Event) -> None:
        reason = text_of(event.get("message")) or "no reason given"
        names = _names(event["ids"])
        if event["e"] == "resumed":
            self.unsure.update(dict.fromkeys(names, reason))
            return
        if event["e"] == "no_retry":
            self.no_retry.update(dict.fromkeys(names, reason))
            return
        if event["e"] == "elsewhere":
            self.elsewhere.update(dict.fromkeys(names, text_of(event.get("host")) or "another host"))
            return
        for name in names:
            if name in self._open:
                self._close(name, event, Verdict.NOT_RUN, message=reason)
            else:
                self.not_run[name] = reason

    def _file_error(self, event: Event) -> None:
        file = _name(event["file"])
        message, detail = text_of(event.get("message")), text_of(event.get("detail"))
        self.file_errors[file] = FileError(file=file, message=message, detail=detail, shard=self.shard)

    def _close(
        self,
        name: str,
        event: Event,
        outcome: Verdict,
        *,
        message: str | None = None,
        cause: str | None = None,
    ) -> None:
        begun, number, again, seed, seeded_as = self._open.pop(name, (None, 1, False, None, 1))
        ran = 0.0 if begun is None else self.ended_at - begun
        seconds = seconds_of(event.get("seconds"), ran)
        one = Try(
            outcome=outcome,
            seconds=seconds,
            message=text_of(event.get("message")) if message is None else message,
            cause=cause,
            detail=text_of(event.get("detail")),
            card=text_of(event.get("card")) or self.card,
            shard=self.shard,
            started_at=max(self.ended_at - seconds, 0.0) if begun is None else begun,
            number=number,
            again=again,
            leak=text_of(event.get("leak")),
            job=run_attempt_of(self.attempt),
            seed=seed,
            seeded_as=seeded_as,
            unseeded=text_of(event.get("unseeded")),
        )
        self.tries.setdefault(name, []).append(one)


def replay(shard: int, attempt: int, events: Iterable[Event], *, interrupted: bool = False) -> Replay:
    """What one attempt at a shard did.

    Args:
        shard: its index.
        attempt: from 1.
        events: in the order of the file; one that stands twice counts once (law 6).
        interrupted: the caller knows that the run was ended early, even where the journal breaks off.
    """
    state = Replay(shard=shard, attempt=attempt)
    seen: set[Hashable] = set()
    for event in events:
        key = _identity(event)
        if key not in seen:
            seen.add(key)
            state.take(event)
    state.finish(interrupted=interrupted)
    return state


_IDENTITY = ("e", "t", "id", "file", "outcome", "cause", "why", "attempt", "try")


def _identity(event: Event) -> Hashable:
    key = tuple(event.get(part) for part in _IDENTITY)
    if "ids" not in event:
        try:
            hash(key)
        except TypeError:  # a malformed event may hold a list where a name belongs
            return repr(key)
        return key
    return repr((key, event["ids"]))


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is not text")
    return value


def _names(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError("ids is not a list")
    return [_name(one) for one in value]
