"""What is known of a run while it runs: the fold of its journals' events, counted by test and file. Pure.

It says of every test what the report would say of the same journals, since both read them by
`ci.record.run_state` and settle tries by `ci.record.result`; of tests that ended it keeps no text.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ci.core.text import one_line, tail
from ci.record.events import JournalEvent
from ci.record.result import SILENT, Try, settle
from ci.record.run_state import RunState, attempt_in
from ci.record.verdict import BROKEN, Verdict
from ci.report.live.news import CardLost, Ended, FileBroken, FileEnded, News, Retried, Tally, WorkerLost
from test_selection.plan import Shard

NOT_STARTED = "interrupted before it was started"
NOBODY = "no worker was left to run it"
RATE_WINDOW_S = 30
DETAIL_CHARS = 3000
# So many expected seconds must have ended before what they took outweighs the estimates.
PRIOR_S = 20.0


@dataclass(slots=True, kw_only=True)
class Worker:
    """One attempt at one shard.

    Attributes:
        state: what its journal said; of tries, those that are not told yet.
        since: when the test that runs began, or the set-up, in monotonic seconds.
        over: whether it works no more for the shard.
    """

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
        """The card it has."""
        return self.state.card or ""

    def take(self, event: JournalEvent, now: float) -> None:
        """Take the next event of its journal."""
        steps = self.state.steps
        self.state.take(event)
        if self.state.steps != steps:
            self.since = now


class Told(NamedTuple):
    """What a try has to say to the verdict; a run has few that differ, so each is kept once.

    Attributes:
        attempt: at its shard, in whose journal it stands.
        kept: the try, without its texts and times.
    """

    attempt: int
    kept: Try

    @classmethod
    def of(cls, one: Try, attempt: int) -> Told:
        """What a try in the journal of a shard's attempt has to say."""
        return cls(
            attempt,
            Try(
                outcome=one.outcome,
                message=SILENT if one.message == SILENT else "",
                cause=one.cause,
                shard=one.shard,
                number=one.number,
                again=one.again,
                job=one.job,
            ),
        )


@dataclass(slots=True)
class PlannedTest:
    """A planned test, with its tries and when they began, in the order in which they were told.

    The first try, which nearly always is the only one, costs no list.
    """

    tally: Tally
    expected_s: float
    verdict: Verdict | None = None
    first: Told | None = None
    first_at: float = 0.0
    more: tuple[tuple[Told, float], ...] = ()

    @property
    def tries(self) -> list[tuple[Told, float]]:
        """All of them."""
        return [] if self.first is None else [(self.first, self.first_at), *self.more]

    def add(self, told: Told, started_at: float) -> Verdict:
        """The verdict with one try more."""
        if self.first is None:
            self.first, self.first_at = told, started_at
            if not told.kept.again:
                return told.kept.outcome  # nearly always; every event waits for it
        else:
            self.more += ((told, started_at),)
        return settle("", [told.kept for told, _ in sorted(self.tries, key=_place)], file="").verdict


def _place(row: tuple[Told, float]) -> tuple[float, ...]:
    """Where a try stands in the report, which sorts stably too."""
    (attempt, one), started_at = row
    return one.job, one.number, attempt, started_at, one.shard or 0


class State:
    """What is known of the run now.

    Attributes:
        shards: how many shards.
        cards: the names of all cards.
        lost: why, by the names of the cards that do no more.
        tests: those that are to run here, by id.
        files: what is known of each file, by name.
        unended: those of them with tests that have no verdict.
        counts: how many tests have each verdict.
        settled: how many have any.
        told_s: seconds expected of the tests that ran to their ends.
        ran_s: seconds these took.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        cards: Iterable[str],
        expected_s: Mapping[str, float],
        setup_s: Mapping[str, float],
        now: float,
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Begin with nothing done.

        Args:
            shards: those that run here.
            cards: the names of the cards.
            expected_s: seconds expected by id; of others, what their shard has left for them.
            setup_s: seconds expected of setting files up.
            now: monotonic seconds.
            others: by id, the file of tests that are planned for other hosts and may be taken from them.
        """
        self.cards = tuple(cards)
        self.shards = len(shards)
        self.lost: dict[str, str] = {}
        self.tests: dict[str, PlannedTest] = {}
        self.files: dict[str, Tally] = {}
        self.counts: Counter[Verdict] = Counter()
        self.settled = 0
        self.told_s = self.ran_s = 0.0
        self._expected_s, self._setup_s, self._others = expected_s, setup_s, others or {}
        self._workers: dict[tuple[int, int], Worker] = {}
        self._current: dict[int, Worker] = {}
        self._told: dict[Told, Told] = {}
        self._began_at = now
        # Seconds in which tests were settled, each with how many.
        self._recent: deque[list[int]] = deque(maxlen=RATE_WINDOW_S + 1)
        for shard in shards:
            self._plan(shard)
        self.unended = {name: tally for name, tally in self.files.items() if tally.planned}

    @property
    def planned(self) -> int:
        """How many tests are to run here."""
        return len(self.tests)

    @property
    def left(self) -> int:
        """Tests without a verdict."""
        return self.planned - self.settled

    @property
    def able(self) -> tuple[str, ...]:
        """The cards that are not lost."""
        return tuple(card for card in self.cards if card not in self.lost)

    @property
    def at_work(self) -> list[Worker]:
        """The workers that do something."""
        return [worker for worker in self._current.values() if worker.busy]

    def verdict(self, name: str) -> Verdict | None:
        """Of a planned test, so far."""
        return self.tests[name].verdict

    def expected_s(self, name: str) -> float:
        """Seconds expected of a test; 0 of one nobody planned."""
        test = self.tests.get(name)
        return test.expected_s if test is not None else 0.0

    def rate(self, now: float) -> float:
        """Tests that were settled in a second, over the last half minute or since the beginning."""
        span = min(max(now - self._began_at, 1.0), RATE_WINDOW_S)
        return sum(count for second, count in self._recent if second >= now - RATE_WINDOW_S) / span

    def seconds_left(self, now: float) -> float | None:
        """Seconds until every test is settled; None where no card is left to settle them.

        The seconds left, corrected by what ended tests took (a file's own where it has some), over the cards;
        never less than the longest thing that one card must do by itself.

        Args:
            now: monotonic seconds.
        """
        if not self.left:
            return 0.0
        cards = len(self.able)
        if not cards:
            return None
        pace = (self.ran_s + PRIOR_S) / (self.told_s + PRIOR_S)
        total = longest = 0.0
        scales: dict[str, float] = {}
        for name, tally in self.unended.items():
            scale = (tally.ran_s + PRIOR_S * pace) / (tally.told_s + PRIOR_S)
            scales[name] = scale
            total += max(tally.left_s, 0.0) * scale
            if tally.began_at is None:
                total += tally.setup_s
                longest = max(longest, tally.setup_s + tally.longest_s * scale)
        for worker in self.at_work:
            state, elapsed = worker.state, now - worker.since
            if state.running is not None and self.verdict(state.running) is None:
                expected = self.expected_s(state.running) * scales.get(state.file, pace)
                total -= min(elapsed, expected)
                longest = max(longest, expected - elapsed)
            elif state.setting_up and state.file in self.files:
                remaining = max(self.files[state.file].setup_s - elapsed, 0.0)
                total += remaining
                longest = max(longest, remaining)
        return max(total / min(cards, self.left), longest, 0.0)

    def take(self, shard: int, event: JournalEvent, now: float) -> list[News]:
        """Take the next event of a shard's journal and tell what it changed.

        Args:
            shard: the shard's index.
            event: as `ci.record.journal` has it; what this version does not know is passed over.
            now: monotonic seconds.
        """
        worker = self._worker(shard, event)
        worker.take(event, now)
        return [*self._about_worker(worker, now), *self._drain(worker, now)]

    def finish(self, now: float, *, interrupted: bool) -> list[News]:
        """The run is over: settle what is open, as the report does.

        Args:
            now: monotonic seconds.
            interrupted: whether it was ended early.
        """
        news: list[News] = []
        for worker in self._workers.values():
            worker.state.finish(interrupted=interrupted)
            worker.over = True
            news += self._drain(worker, now)
        stopped = next((one.state.stopped for one in self._workers.values() if one.state.stopped), "")
        message = stopped or (NOT_STARTED if interrupted else NOBODY)
        for name, test in self.tests.items():
            if test.verdict is None:
                news += self._give_up(name, test, message, now)
        return news

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

    def _add(self, name: str, tally: Tally, seconds: float) -> None:
        self.tests[name] = PlannedTest(tally, seconds)
        tally.planned += 1
        tally.left_s += seconds
        tally.longest_s = max(tally.longest_s, seconds)

    def _find(self, name: str) -> PlannedTest | None:
        """A test that is to run here; one of another host's that is run here is taken over."""
        if name not in self.tests and name in self._others:
            file = self._others[name]
            tally = self.files.setdefault(file, Tally(file=file))
            self._add(name, tally, self._expected_s.get(name, 0.0))
            if tally.ended_at is None:
                self.unended[file] = tally
        return self.tests.get(name)

    def _hand_over(self, ids: Iterable[str], now: float) -> Iterator[News]:
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
            else:
                yield from self._end_file(tally, now)

    def _worker(self, shard: int, event: JournalEvent) -> Worker:
        """The attempt that an event is of; `shard_start` begins one, or goes back to it."""
        current = self._current.get(shard)
        otherwise = current.state.attempt if current is not None else 1
        begun = attempt_in(event, otherwise)
        if current is not None:
            if begun is None:
                return current
            current.over = True
        attempt = otherwise if begun is None else begun
        made = Worker(state=RunState(shard=shard, attempt=attempt))
        worker = self._current[shard] = self._workers.setdefault((shard, attempt), made)
        worker.over = False
        return worker

    def _about_worker(self, worker: Worker, now: float) -> Iterator[News]:
        state, card = worker.state, worker.card
        latest = state.latest
        if latest.began is not None:
            yield from self._began(worker, latest.began, now)
        if latest.begun_file in self.files:
            self.files[latest.begun_file].begin(card, now)
        for file, error in state.file_errors.items():
            yield FileBroken(file=file, card=card, message=one_line(error.message))
        state.file_errors.clear()
        if (loss := latest.loss) is not None:
            yield WorkerLost(shard=state.shard, card=card, id=loss.id, message=one_line(loss.message))
        if state.elsewhere:
            yield from self._hand_over(list(state.elsewhere), now)
            state.elsewhere.clear()
        if latest.card_lost is not None:
            lost, message = latest.card_lost[0], one_line(latest.card_lost[1])
            self.lost.update(dict.fromkeys(lost.split("+"), message))
            yield CardLost(card=lost, message=message)

    def _began(self, worker: Worker, name: str, now: float) -> Iterator[News]:
        test = self._find(name)
        if test is None:
            return
        test.tally.begin(worker.card, now)
        number = worker.state.open[name].number
        if number > 1:
            yield Retried(id=name, file=test.tally.file, card=worker.card, attempt=number)

    def _drain(self, worker: Worker, now: float) -> Iterator[News]:
        """What the fold made of the last event, test by test."""
        state = worker.state
        state.no_retry.clear()  # the report's to tell of
        given_up, state.not_run = state.not_run, {}
        for name, ended in state.drain().items():
            if (test := self.tests.get(name)) is not None:
                for one in ended:
                    yield from self._end(name, test, one, worker, now)
        for name, message in given_up.items():
            if (test := self.tests.get(name)) is not None and test.verdict is None:
                yield from self._give_up(name, test, message, now)

    def _end(self, name: str, test: PlannedTest, one: Try, worker: Worker, now: float) -> Iterator[News]:
        """A try came to its end."""
        state = worker.state
        tries = test.tries
        told = Told.of(one, state.attempt)
        repeated = any((was.kept.outcome, was.kept.cause) == (one.outcome, one.cause) for was, _ in tries)
        verdict = test.add(self._told.setdefault(told, told), one.started_at or 0.0)
        # A crash after a second, or a hang, says nothing of how fast tests are.
        if not tries and one.outcome not in BROKEN | {Verdict.SKIPPED}:
            for counted in (test.tally, self):
                counted.told_s += test.expected_s
                counted.ran_s += one.seconds
        # A retry that is truncated leaves its test what the first try made it.
        same = verdict is one.outcome
        if same and verdict in {Verdict.SKIPPED, Verdict.NOT_RUN} and test.tally.ended_at is None:
            test.tally.reason(verdict, one_line(one.message))
        self._settle(test, verdict, now)
        yield Ended(
            id=name,
            file=test.tally.file,
            outcome=one.outcome,
            verdict=verdict,
            seconds=one.seconds,
            card=one.card or worker.card,
            attempt=max(one.number, len(tries) + 1),
            message=one_line(one.message) if one.message else "",
            detail=tail(one.detail, DETAIL_CHARS) if one.detail else "",
            cause=one.cause,
            repeated=repeated,
        )
        yield from self._end_file(test.tally, now)

    def _give_up(self, name: str, test: PlannedTest, message: str, now: float) -> Iterator[News]:
        """A test is not run."""
        message, outcome = one_line(message), Verdict.NOT_RUN
        self._settle(test, outcome, now)
        test.tally.reason(outcome, message)
        yield Ended(
            id=name, file=test.tally.file, outcome=outcome, verdict=outcome, message=message, attempt=0
        )
        yield from self._end_file(test.tally, now)

    def _settle(self, test: PlannedTest, verdict: Verdict, now: float) -> None:
        tally = test.tally
        if test.verdict is None:
            self.settled += 1
            tally.settled += 1
            tally.left_s -= test.expected_s
            self._count(now)
        else:
            self.counts[test.verdict] -= 1
            tally.counts[test.verdict] -= 1
        test.verdict = verdict
        self.counts[verdict] += 1
        tally.counts[verdict] += 1

    def _end_file(self, tally: Tally, now: float) -> Iterator[News]:
        """Tell of a file once, when the last of its tests is settled."""
        if tally.settled == tally.planned and tally.ended_at is None:
            tally.ended_at = now
            del self.unended[tally.file]
            yield FileEnded(tally=tally)

    def _count(self, now: float) -> None:
        """A test was settled in this second."""
        if not self._recent or self._recent[-1][0] != int(now):
            self._recent.append([int(now), 0])
        self._recent[-1][1] += 1
