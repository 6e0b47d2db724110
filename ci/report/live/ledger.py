"""Keep the tests of a run and what became of each so far; texts only of what is still to be told. Pure."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ci.core.text import one_line, tail
from ci.record.events import JournalEvent
from ci.record.result import SILENT, Try, fold, known_outcomes, last_ordered
from ci.record.run_state import RunState, attempt_in
from ci.record.verdict import BROKEN, Verdict
from ci.report.live.news import MAX_HELD, Ended, News, Tally
from test_selection.plan import Shard

RATE_WINDOW_S = 30
_Row = tuple[int, int, int, float, int, int, bool, bool, Verdict]
DETAIL_CHARS = 3000
# Details of failures that wait for their files' ends; beyond, the reason must do.
MAX_DETAILS = 1000


@dataclass(slots=True, kw_only=True)
class Stream:
    """One attempt at one shard: a worker at work.

    Attributes:
        shard: its index.
        state: what its journal said; of tries, those that are not told yet.
            since: when the test that runs began, or the set-up, in monotonic seconds.
        over: whether the worker works no more for the shard.
    """

    shard: int
    state: RunState
    since: float = 0.0
    over: bool = False

    @property
    def busy(self) -> bool:
        """Whether a test runs or a file is being set up."""
        state = self.state
        return not (self.over or state.status) and (state.running is not None or state.setting_up)

    @property
    def card(self) -> str:
        """The card of the worker."""
        return self.state.card or ""

    @property
    def running(self) -> str | None:
        """The id that runs."""
        return self.state.running

    @property
    def setting_up(self) -> bool:
        """Whether the file is being set up."""
        return self.state.setting_up

    @property
    def file(self) -> str:
        """The file it has in hand."""
        return self.state.file

    def take(self, event: JournalEvent, now: float) -> None:
        """Take the next event of its journal."""
        steps = self.state.steps
        self.state.take(event)
        if self.state.steps != steps:
            self.since = now


class Streams:
    """All attempts at the shards of a run, and for each shard the one at work."""

    def __init__(self) -> None:
        """Begin with nobody at work."""
        self._known: dict[tuple[int, int], Stream] = {}
        self._current: dict[int, Stream] = {}

    def values(self) -> Collection[Stream]:
        """Every attempt there was."""
        return self._known.values()

    @property
    def at_work(self) -> list[Stream]:
        """The workers that do something."""
        return [stream for stream in self._current.values() if stream.busy]

    def of(self, shard: int, event: JournalEvent) -> Stream:
        """The attempt that an event is of; `shard_start` begins one, or goes back to it."""
        stream = self._current.get(shard)
        otherwise = stream.state.attempt if stream is not None else 1
        begun = attempt_in(event, otherwise)
        if stream is not None and begun is None:
            return stream
        attempt = otherwise if begun is None else begun
        if stream is not None:
            stream.over = True
        stream = self._known.get((shard, attempt))
        if stream is None:
            stream = Stream(shard=shard, state=RunState(shard=shard, attempt=attempt))
            self._known[shard, attempt] = stream
        stream.over = False
        self._current[shard] = stream
        return stream


class Pace:
    """Counts what is settled and what it took.

    Attributes:
        began_at: monotonic seconds.
        told_s: seconds expected of the tests that ran to their ends.
        ran_s: seconds these took.
    """

    def __init__(self, now: float) -> None:
        """Begin at `now`, in monotonic seconds."""
        self.began_at = now
        self.told_s = self.ran_s = 0.0
        self._seconds: deque[list[float]] = deque()

    def ran(self, *, expected_s: float, took_s: float) -> None:
        """A test ran to its end."""
        self.told_s += expected_s
        self.ran_s += took_s

    def settled(self, now: float) -> None:
        """A test has a verdict."""
        second = float(int(now))
        if not self._seconds or self._seconds[-1][0] != second:
            self._forget(now)
            self._seconds.append([second, 0])
        self._seconds[-1][1] += 1

    def rate(self, now: float) -> float:
        """Tests that were settled in a second, over the last half minute or since the beginning."""
        self._forget(now)
        span = min(max(now - self.began_at, 1.0), RATE_WINDOW_S)
        return sum(count for _, count in self._seconds) / span

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - RATE_WINDOW_S:
            self._seconds.popleft()


@dataclass(slots=True)
class PlannedTest:
    """A planned test.

    Its tries are (job, number, attempt of the shard, began, shard, order of ending, ordered again, without an
    end, outcome): as the report sorts them, whichever is told of first.
    """

    tally: Tally
    expected_s: float
    verdict: Verdict | None = None
    tries: tuple[_Row, ...] = ()

    def add(self, one: Try, *, attempt: int, shard: int, order: int) -> Verdict:
        """The verdict with one try more.

        Args:
            one: the try.
            attempt: of the shard in whose journal it stands.
            shard: that one's index.
            order: which of all tries it is that ended.
        """
        began = one.started_at or 0.0
        silent = one.message == SILENT
        row = (one.job, one.number, attempt, began, shard, order, one.again, silent, one.outcome)
        self.tries = (*self.tries, row)
        if len(self.tries) == 1 and not one.again:
            return one.outcome
        jobs = itertools.groupby(sorted(self.tries), key=lambda tried: tried[0])
        return fold([outcome for _, tries in jobs for outcome in _outcomes(list(tries))])


def _outcomes(tries: Sequence[_Row]) -> list[Verdict]:
    """What the tries of one job came to."""
    last = last_ordered((number, again) for _, number, *_, again, _, _ in tries)
    return known_outcomes(
        (number, again, Verdict.FAILED if silent and number < last else outcome)
        for _, number, *_, again, silent, outcome in tries
    )


class Ledger:
    """Every test that is to run here, by id.

    Attributes:
        tests: by id.
        files: by name.
        unended: those of them with tests that have no verdict.
        counts: how many tests have each verdict.
        settled: how many have any.
        pace: how fast that went.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        expected_s: Mapping[str, float],
        setup_s: Mapping[str, float],
        others: Mapping[str, str],
        now: float,
    ) -> None:
        """Begin with nothing settled; see `ci.report.live.state.State`."""
        self.tests: dict[str, PlannedTest] = {}
        self.files: dict[str, Tally] = {}
        self.counts: Counter[Verdict] = Counter()
        self.settled = 0
        self.pace = Pace(now)
        self._others, self._expected_s, self._setup_s = others, expected_s, setup_s
        self._order = self._details = 0
        for shard in shards:
            self._plan(shard)
        self.unended = {name: tally for name, tally in self.files.items() if tally.planned}

    @property
    def planned(self) -> int:
        """How many tests are to run here."""
        return len(self.tests)

    def find(self, name: str) -> PlannedTest | None:
        """A test that is to run here; one of another host's that is run here is taken over."""
        if name not in self.tests and name in self._others:
            self._adopt(name)
        return self.tests.get(name)

    def hand_over(self, ids: Iterable[str], now: float) -> Iterator[News]:
        """Tests that were planned for this host are another's to tell of."""
        for name in ids:
            test = self.tests.get(name)
            if test is None or test.verdict is not None:
                continue
            del self.tests[name]
            tally = test.tally
            tally.planned -= 1
            tally.left_s -= test.expected_s
            if not tally.planned:
                self.unended.pop(tally.file, None)
            elif tally.settled == tally.planned:
                yield from self._end_file(tally, now)

    def drain(self, stream: Stream, now: float) -> Iterator[News]:
        """What the journal's reader made of the last event, test by test."""
        state = stream.state
        state.no_retry.clear()  # the report's to tell of
        given_up, state.not_run = state.not_run, {}
        for name, ended in state.drain().items():
            if (test := self.tests.get(name)) is not None:
                for one in ended:
                    yield from self._ended(name, test, one, stream, now)
        for name, message in given_up.items():
            if (test := self.tests.get(name)) is not None and test.verdict is None:
                yield from self.give_up(name, test, stream.shard, message, now)

    def give_up(
        self, name: str, test: PlannedTest, shard: int | None, message: str, now: float
    ) -> Iterator[News]:
        """A test is not run."""
        message = one_line(message)
        self._settle(test, Verdict.NOT_RUN, now)
        test.tally.reason(Verdict.NOT_RUN, message)
        yield Ended(
            id=name,
            file=test.tally.file,
            shard=shard,
            outcome=Verdict.NOT_RUN,
            verdict=Verdict.NOT_RUN,
            message=message,
            attempt=0,
        )
        if test.tally.settled == test.tally.planned:
            yield from self._end_file(test.tally, now)

    def _plan(self, shard: Shard) -> None:
        ids = shard.ids
        known = [self._expected_s[name] for name in ids if name in self._expected_s]
        unknown = len(ids) - len(known)
        otherwise = max(shard.expected_s - sum(known), 0.0) / unknown if unknown else 0.0
        for group in shard.groups:
            tally = self.files.get(group.file)
            if tally is None:
                tally = Tally(file=group.file, setup_s=self._setup_s.get(group.file, 0.0))
                self.files[group.file] = tally
            for name in group.ids:
                if name not in self.tests:
                    self._add(name, tally, self._expected_s.get(name, otherwise))

    def _adopt(self, name: str) -> None:
        """A test that was planned for another host is run here."""
        file = self._others[name]
        tally = self.files.setdefault(file, Tally(file=file))
        self._add(name, tally, self._expected_s.get(name, 0.0))
        if tally.ended_at is None:
            self.unended[file] = tally

    def _add(self, name: str, tally: Tally, seconds: float) -> None:
        self.tests[name] = PlannedTest(tally, seconds)
        tally.planned += 1
        tally.left_s += seconds
        tally.longest_s = max(tally.longest_s, seconds)

    def _ended(self, name: str, test: PlannedTest, one: Try, stream: Stream, now: float) -> Iterator[News]:
        self._order += 1
        verdict = test.add(one, attempt=stream.state.attempt, shard=stream.shard, order=self._order)
        if len(test.tries) == 1:
            self._ran(test, one)
        late = test.tally.ended_at is not None
        self._settle(test, verdict, now)
        told = Ended(
            id=name,
            file=test.tally.file,
            shard=stream.shard,
            outcome=one.outcome,
            verdict=verdict,
            seconds=one.seconds,
            card=one.card or stream.card,
            attempt=max(one.number, len(test.tries)),
            message=one_line(one.message) if one.message else "",
            detail=tail(one.detail, DETAIL_CHARS) if one.detail else "",
            cause=one.cause,
            late=late,
        )
        if not late:
            self._hold(test.tally, told)
        yield told
        yield from self._end_file(test.tally, now) if test.tally.settled == test.tally.planned else ()

    def _ran(self, test: PlannedTest, one: Try) -> None:
        if one.outcome in BROKEN or one.outcome is Verdict.SKIPPED:
            return  # a crash after a second, or a hang, says nothing of how fast tests are
        test.tally.told_s += test.expected_s
        test.tally.ran_s += one.seconds
        self.pace.ran(expected_s=test.expected_s, took_s=one.seconds)

    def _settle(self, test: PlannedTest, verdict: Verdict, now: float) -> None:
        tally = test.tally
        if test.verdict is None:
            self.settled += 1
            tally.settled += 1
            tally.left_s -= test.expected_s
            self.pace.settled(now)
        else:
            self.counts[test.verdict] -= 1
            tally.counts[test.verdict] -= 1
        test.verdict = verdict
        self.counts[verdict] += 1
        tally.counts[verdict] += 1

    def _hold(self, tally: Tally, told: Ended) -> None:
        """Keep what is to be read below the file's line."""
        if told.outcome is Verdict.SKIPPED:
            tally.reason(told.outcome, told.message)
        if told.outcome not in BROKEN or told.id in tally.held or len(tally.held) >= MAX_HELD:
            return
        self._details += 1
        tally.held[told.id] = told if self._details <= MAX_DETAILS else replace(told, detail="")

    def _end_file(self, tally: Tally, now: float) -> Iterator[News]:
        if tally.ended_at is not None:
            return
        tally.ended_at = now
        del self.unended[tally.file]
        self._details = max(0, self._details - len(tally.held))
        yield tally.let_go()
