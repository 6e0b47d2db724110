"""The state of a run, folded from the events of its journals as they are written. Pure.

It says of every test what the report would say of the same journals, since both read them by
`ci.report.replay` and `ci.report.verdict`; of tests that ended it keeps a number or two and no text.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.live.news import (
    BAD,
    MAX_HELD,
    CardLost,
    Ended,
    FileBroken,
    News,
    Retried,
    Tally,
    WorkerLost,
)
from ci.report.replay import Replay
from ci.report.text import one_line, tail
from ci.report.verdict import Try, Verdict, fold_known
from test_selection.plan import Shard

RATE_WINDOW_S = 30
DETAIL_CHARS = 3000
# Details of failures that wait for their files' ends; beyond, the reason must do.
MAX_DETAILS = 1000
NOT_STARTED = "interrupted before it was started"
NOBODY = "nobody was left to run it"
_Row = tuple[int, int, float, int, int, bool, Verdict]


@dataclass(slots=True)
class _Test:
    """A planned test.

    Its tries are (number, attempt of the shard, began, shard, order of ending, ordered again, outcome).
    """

    tally: Tally
    expected_s: float
    verdict: Verdict | None = None
    tries: tuple[_Row, ...] = ()


@dataclass(slots=True, kw_only=True)
class Stream:
    """One attempt at one shard: a worker at work.

    Attributes:
        shard: its index.
        card: of the worker.
        file: it has in hand.
        running: the id that runs.
        since: when that began, or the set-up, in monotonic seconds.
        setting_up: whether the file is being set up.
        over: whether the worker works no more for the shard.
    """

    shard: int
    replay: Replay
    card: str = ""
    file: str = ""
    running: str | None = None
    since: float = 0.0
    setting_up: bool = False
    over: bool = False

    @property
    def busy(self) -> bool:
        """Whether a test runs or a file is being set up."""
        return not self.over and (self.running is not None or self.setting_up)


class State:
    """What is known of the run now.

    Attributes:
        planned: how many tests are to run here.
        shards: how many shards.
        cards: the names of all cards.
        lost: why, by the names of the cards that do no more.
        counts: how many tests have each verdict.
        settled: how many have any.
        files: by name.
        unended: those of them with tests that have no verdict.
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
        self._others, self._expected_s = others or {}, expected_s
        self.lost: dict[str, str] = {}
        self.counts: Counter[Verdict] = Counter()
        self.settled = 0
        self.files: dict[str, Tally] = {}
        self.told_s = self.ran_s = 0.0
        self.shards = len(shards)
        self.began_at = now
        self._tests: dict[str, _Test] = {}
        self._streams: dict[tuple[int, int], Stream] = {}
        self._current: dict[int, Stream] = {}
        self._order = 0
        self._details = 0
        self._seconds: deque[list[float]] = deque()
        for shard in shards:
            self._plan(shard, expected_s, setup_s)
        self.planned = len(self._tests)
        self.unended = {name: tally for name, tally in self.files.items() if tally.planned}

    def _plan(self, shard: Shard, expected_s: Mapping[str, float], setup_s: Mapping[str, float]) -> None:
        ids = shard.ids
        known = [expected_s[name] for name in ids if name in expected_s]
        unknown = len(ids) - len(known)
        otherwise = max(shard.expected_s - sum(known), 0.0) / unknown if unknown else 0.0
        for group in shard.groups:
            tally = self.files.get(group.file)
            if tally is None:
                tally = Tally(file=group.file, setup_s=setup_s.get(group.file, 0.0))
                self.files[group.file] = tally
            for name in group.ids:
                if name in self._tests:
                    continue
                seconds = expected_s.get(name, otherwise)
                self._tests[name] = _Test(tally, seconds)
                tally.planned += 1
                tally.left_s += seconds
                tally.longest_s = max(tally.longest_s, seconds)

    @property
    def left(self) -> int:
        """Tests without a verdict."""
        return self.planned - self.settled

    @property
    def able(self) -> tuple[str, ...]:
        """The cards that are not lost."""
        return tuple(card for card in self.cards if card not in self.lost)

    @property
    def at_work(self) -> list[Stream]:
        """The workers that do something."""
        return [stream for stream in self._current.values() if stream.busy]

    def verdict(self, name: str) -> Verdict | None:
        """Of a planned test, so far."""
        return self._tests[name].verdict

    def expected_s(self, name: str) -> float:
        """Seconds expected of a test; 0 of one nobody planned."""
        test = self._tests.get(name)
        return test.expected_s if test is not None else 0.0

    def rate(self, now: float) -> float:
        """Tests that were settled in a second, over the last half minute or since the beginning."""
        self._forget(now)
        span = min(max(now - self.began_at, 1.0), RATE_WINDOW_S)
        return sum(count for _, count in self._seconds) / span

    def take(self, shard: int, event: Mapping[str, Any], now: float) -> list[News]:
        """Take the next event of a shard's journal and tell what it changed.

        Args:
            shard: the shard's index.
            event: as `ci.runner.journal` has it; what this version does not know is passed over.
            now: monotonic seconds.
        """
        kind = event.get("e")
        stream = self._stream(shard, event if kind == "shard_start" else {})
        news: list[News] = []
        if kind == "start":
            news += self._starts(stream, event, now)
        elif kind not in ("end", "crash"):
            news += self._about_worker(stream, kind, event, now)
        stream.replay.take(event if isinstance(event, dict) else dict(event))
        if stream.replay.tries or stream.replay.not_run:
            news += self._drain(stream, now)
        if kind in ("end", "crash") and event.get("id") == stream.running:
            stream.running = None
        return news

    def finish(self, now: float, *, interrupted: bool) -> list[News]:
        """The run is over: settle what is open, as the report does.

        Args:
            now: monotonic seconds.
            interrupted: whether it was ended early.
        """
        news: list[News] = []
        for stream in self._streams.values():
            stream.replay.finish(interrupted=interrupted)
            stream.over = True
            news += self._drain(stream, now)
        for name, test in self._tests.items():
            if test.verdict is None:
                news += self._give_up(name, test, None, NOT_STARTED if interrupted else NOBODY, now)
        return news

    def _stream(self, shard: int, began: Mapping[str, Any]) -> Stream:
        stream = self._current.get(shard)
        if stream is not None and not began:
            return stream
        otherwise = stream.replay.attempt if stream is not None else 1
        attempt = began.get("attempt", otherwise)
        attempt = attempt if isinstance(attempt, int) else otherwise
        if stream is not None:
            stream.over = True
        stream = self._streams.get((shard, attempt))
        if stream is None:
            stream = Stream(shard=shard, replay=Replay(shard=shard, attempt=attempt))
            self._streams[shard, attempt] = stream
        stream.over = False
        self._current[shard] = stream
        return stream

    def _starts(self, stream: Stream, event: Mapping[str, Any], now: float) -> Iterator[News]:
        name, number = event.get("id"), event.get("try", 1)
        if isinstance(name, str) and name in self._others and name not in self._tests:
            self._adopt(name)
        test = self._tests.get(name) if isinstance(name, str) else None
        if test is None or not isinstance(name, str):
            return
        stream.running, stream.since, stream.setting_up = name, now, False
        stream.file = test.tally.file
        _begin(test.tally, stream.card, now)
        if isinstance(number, int) and number > 1:
            yield Retried(id=name, file=test.tally.file, shard=stream.shard, card=stream.card, attempt=number)

    def _about_worker(
        self, stream: Stream, kind: Any, event: Mapping[str, Any], now: float
    ) -> Iterator[News]:
        file, message = _text(event.get("file")), one_line(_text(event.get("message")))
        match kind:
            case "shard_start":
                stream.card = _text(event.get("card"))
            case "shard_end":
                stream.over, stream.running, stream.setting_up = True, None, False
            case "group_start" if file:
                stream.file, stream.setting_up, stream.since, stream.running = file, True, now, None
                if (tally := self.files.get(file)) is not None:
                    _begin(tally, stream.card, now)
            case "group_ready" | "group_end":
                stream.setting_up, stream.since = False, now
            case "file_error":
                stream.setting_up = False
                yield FileBroken(file=file, shard=stream.shard, card=stream.card, message=message)
            case "worker_lost":
                name = event.get("id")
                stream.running = None
                stream.setting_up = False
                yield WorkerLost(
                    shard=stream.shard,
                    card=stream.card,
                    id=name if isinstance(name, str) else None,
                    message=message,
                )
            case "elsewhere":
                yield from self._hand_over(event.get("ids"), now)
            case "card_lost":
                card = _text(event.get("card")) or stream.card
                self.lost.update(dict.fromkeys(card.split("+"), message))
                yield CardLost(card=card, message=message)
            case _:
                pass

    def _adopt(self, name: str) -> None:
        """A test that was planned for another host is run here."""
        file, seconds = self._others[name], self._expected_s.get(name, 0.0)
        tally = self.files.setdefault(file, Tally(file=file))
        self._tests[name] = _Test(tally, seconds)
        tally.planned += 1
        tally.left_s += seconds
        tally.longest_s = max(tally.longest_s, seconds)
        self.planned += 1
        if tally.ended_at is None:
            self.unended[file] = tally

    def _hand_over(self, ids: Any, now: float) -> Iterator[News]:
        """Tests that were planned for this host are another's to tell of."""
        for name in ids if isinstance(ids, list) else ():
            test = self._tests.get(name) if isinstance(name, str) else None
            if test is None or test.verdict is not None:
                continue
            del self._tests[name]
            tally = test.tally
            tally.planned -= 1
            tally.left_s -= test.expected_s
            self.planned -= 1
            if not tally.planned:
                self.unended.pop(tally.file, None)
            elif tally.settled == tally.planned:
                yield from self._end_file(tally, now)

    def _drain(self, stream: Stream, now: float) -> Iterator[News]:
        """What the journal's reader made of the last event, test by test."""
        replay = stream.replay
        if replay.tries:
            tries = list(replay.tries.items())
            replay.tries.clear()
            for name, ended in tries:
                if (test := self._tests.get(name)) is not None:
                    for one in ended:
                        yield from self._ended(name, test, one, stream, now)
        if replay.not_run:
            given_up = list(replay.not_run.items())
            replay.not_run.clear()
            for name, message in given_up:
                test = self._tests.get(name)
                if test is not None and test.verdict is None:
                    yield from self._give_up(name, test, stream.shard, message, now)

    def _ended(self, name: str, test: _Test, one: Try, stream: Stream, now: float) -> Iterator[News]:
        self._order += 1
        began = one.started_at or 0.0
        row = (one.number, stream.replay.attempt, began, stream.shard, self._order, one.again, one.outcome)
        test.tries = (*test.tries, row)
        if len(test.tries) == 1:
            self._ran(test, one)
        if len(test.tries) == 1 and not one.again:
            verdict = one.outcome
        else:
            verdict = fold_known((tried[0], *tried[-2:]) for tried in sorted(test.tries))
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

    def _ran(self, test: _Test, one: Try) -> None:
        if one.outcome in BAD or one.outcome is Verdict.SKIPPED:
            return  # a crash after a second, or a hang, says nothing of how fast tests are
        test.tally.told_s += test.expected_s
        test.tally.ran_s += one.seconds
        self.told_s += test.expected_s
        self.ran_s += one.seconds

    def _give_up(self, name: str, test: _Test, shard: int | None, message: str, now: float) -> Iterator[News]:
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

    def _settle(self, test: _Test, verdict: Verdict, now: float) -> None:
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

    def _hold(self, tally: Tally, told: Ended) -> None:
        """Keep what is to be read below the file's line."""
        if told.outcome is Verdict.SKIPPED:
            tally.reason(told.outcome, told.message)
        if told.outcome not in BAD or told.id in tally.held or len(tally.held) >= MAX_HELD:
            return
        self._details += 1
        tally.held[told.id] = told if self._details <= MAX_DETAILS else _without_detail(told)

    def _end_file(self, tally: Tally, now: float) -> Iterator[News]:
        if tally.ended_at is not None:
            return
        tally.ended_at = now
        del self.unended[tally.file]
        self._details = max(0, self._details - len(tally.held))
        yield tally.let_go()

    def _count(self, now: float) -> None:
        second = float(int(now))
        if not self._seconds or self._seconds[-1][0] != second:
            self._forget(now)
            self._seconds.append([second, 0])
        self._seconds[-1][1] += 1

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - RATE_WINDOW_S:
            self._seconds.popleft()


def _begin(tally: Tally, card: str, now: float) -> None:
    if tally.began_at is None:
        tally.began_at = now
    if card:
        tally.cards[card] = None


def _without_detail(told: Ended) -> Ended:
    return Ended(
        id=told.id, file=told.file, shard=told.shard, outcome=told.outcome, verdict=told.verdict,
        seconds=told.seconds, card=told.card, attempt=told.attempt, message=told.message, cause=told.cause,
    )  # fmt: skip


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
