"""What the workers of a run do: each attempt at a shard is a stream of events. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ci.record.events import JournalEvent
from ci.record.run_state import RunState, attempt_in


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
