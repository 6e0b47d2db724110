"""The state of a run, folded from the events of its journals as they are written. Pure.

It says of every test what the report would say of the same journals, since both read them by
`ci.record.run_state` and `ci.record.verdict`; of tests that ended it keeps a number or two and no text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ci.core.text import one_line
from ci.live.ledger import Ledger, Stream, Streams
from ci.live.news import CardLost, FileBroken, News, Retried, Tally, WorkerLost
from ci.record.events import JournalEvent
from ci.record.verdict import Verdict
from test_selection.plan import Shard

NOT_STARTED = "interrupted before it was started"
NOBODY = "nobody was left to run it"


class State:
    """What is known of the run now.

    Attributes:
        shards: how many shards.
        cards: the names of all cards.
        lost: why, by the names of the cards that do no more.
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
        self._ledger = Ledger(shards, expected_s=expected_s, setup_s=setup_s, others=others or {}, now=now)
        self._streams = Streams()

    @property
    def planned(self) -> int:
        """How many tests are to run here."""
        return self._ledger.planned

    @property
    def settled(self) -> int:
        """How many tests have a verdict."""
        return self._ledger.settled

    @property
    def left(self) -> int:
        """Tests without a verdict."""
        return self.planned - self.settled

    @property
    def counts(self) -> Counter[Verdict]:
        """How many tests have each verdict."""
        return self._ledger.counts

    @property
    def files(self) -> Mapping[str, Tally]:
        """What is known of each file, by name."""
        return self._ledger.files

    @property
    def unended(self) -> Mapping[str, Tally]:
        """The files with tests that have no verdict."""
        return self._ledger.unended

    @property
    def told_s(self) -> float:
        """Seconds expected of the tests that ran to their ends."""
        return self._ledger.pace.told_s

    @property
    def ran_s(self) -> float:
        """Seconds these took."""
        return self._ledger.pace.ran_s

    @property
    def able(self) -> tuple[str, ...]:
        """The cards that are not lost."""
        return tuple(card for card in self.cards if card not in self.lost)

    @property
    def at_work(self) -> list[Stream]:
        """The workers that do something."""
        return self._streams.at_work

    def verdict(self, name: str) -> Verdict | None:
        """Of a planned test, so far."""
        return self._ledger.tests[name].verdict

    def expected_s(self, name: str) -> float:
        """Seconds expected of a test; 0 of one nobody planned."""
        test = self._ledger.tests.get(name)
        return test.expected_s if test is not None else 0.0

    def rate(self, now: float) -> float:
        """Tests that were settled in a second, over the last half minute or since the beginning."""
        return self._ledger.pace.rate(now)

    def take(self, shard: int, event: JournalEvent, now: float) -> list[News]:
        """Take the next event of a shard's journal and tell what it changed.

        Args:
            shard: the shard's index.
            event: as `ci.record.journal` has it; what this version does not know is passed over.
            now: monotonic seconds.
        """
        stream = self._streams.of(shard, event)
        stream.take(event, now)
        return [*self._about_worker(stream, now), *self._ledger.drain(stream, now)]

    def finish(self, now: float, *, interrupted: bool) -> list[News]:
        """The run is over: settle what is open, as the report does.

        Args:
            now: monotonic seconds.
            interrupted: whether it was ended early.
        """
        news: list[News] = []
        for stream in self._streams.values():
            stream.state.finish(interrupted=interrupted)
            stream.over = True
            news += self._ledger.drain(stream, now)
        stopped = next((one.state.stopped for one in self._streams.values() if one.state.stopped), "")
        message = stopped or (NOT_STARTED if interrupted else NOBODY)
        for name, test in self._ledger.tests.items():
            if test.verdict is None:
                news += self._ledger.give_up(name, test, None, message, now)
        return news

    def _about_worker(self, stream: Stream, now: float) -> Iterator[News]:
        state, shard, card = stream.state, stream.shard, stream.card
        latest = state.latest
        if latest.began is not None:
            yield from self._began(stream, latest.began, now)
        if latest.begun_file in self.files:
            self.files[latest.begun_file].begin(card, now)
        for file, error in state.file_errors.items():
            yield FileBroken(file=file, shard=shard, card=card, message=one_line(error.message))
        state.file_errors.clear()
        if (loss := latest.loss) is not None:
            yield WorkerLost(shard=shard, card=card, id=loss.id, message=one_line(loss.message))
        if state.elsewhere:
            yield from self._ledger.hand_over(list(state.elsewhere), now)
            state.elsewhere.clear()
        if latest.card_lost is not None:
            lost, message = latest.card_lost[0], one_line(latest.card_lost[1])
            self.lost.update(dict.fromkeys(lost.split("+"), message))
            yield CardLost(card=lost, message=message)

    def _began(self, stream: Stream, name: str, now: float) -> Iterator[News]:
        test = self._ledger.find(name)
        if test is None:
            return
        test.tally.begin(stream.card, now)
        number = stream.state.open[name].number
        if number > 1:
            file = test.tally.file
            yield Retried(id=name, file=file, shard=stream.shard, card=stream.card, attempt=number)
