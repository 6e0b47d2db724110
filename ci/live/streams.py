"""What the workers of a run do: each attempt at a shard is a stream of events. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ci.record.run_state import Replay


@dataclass(slots=True, kw_only=True)
class Stream:
    """One attempt at one shard: a worker at work.

    Attributes:
        shard: its index.
        replay: what its journal said that is not told yet.
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

    def begins(self, name: str, file: str, now: float) -> None:
        """A test begins."""
        self.running, self.since, self.setting_up, self.file = name, now, False, file

    def ends(self, name: object) -> None:
        """A test ended."""
        if name == self.running:
            self.running = None

    def follow(self, kind: object, event: Mapping[str, Any], now: float) -> None:
        """What the worker does now, by any other event of its journal."""
        match kind:
            case "shard_start":
                self.card = text_of(event, "card")
            case "shard_end":
                self.over, self.running, self.setting_up = True, None, False
            case "group_start" if file := text_of(event, "file"):
                self.file, self.setting_up, self.since, self.running = file, True, now, None
            case "group_ready" | "group_end":
                self.setting_up, self.since = False, now
            case "file_error":
                self.setting_up = False
            case "worker_lost":
                self.running, self.setting_up = None, False
            case _:
                pass


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

    def of(self, shard: int, event: Mapping[str, Any]) -> Stream:
        """The attempt that an event is of; `shard_start` begins one, or goes back to it."""
        stream = self._current.get(shard)
        begins = event.get("e") == "shard_start"
        if stream is not None and not begins:
            return stream
        otherwise = stream.replay.attempt if stream is not None else 1
        attempt = event.get("attempt", otherwise) if begins else otherwise
        attempt = attempt if isinstance(attempt, int) else otherwise
        if stream is not None:
            stream.over = True
        stream = self._known.get((shard, attempt))
        if stream is None:
            stream = Stream(shard=shard, replay=Replay(shard=shard, attempt=attempt))
            self._known[shard, attempt] = stream
        stream.over = False
        self._current[shard] = stream
        return stream


def text_of(event: Mapping[str, Any], key: str) -> str:
    """What an event has under a key; empty where that is no text."""
    value = event.get(key)
    return value if isinstance(value, str) else ""
