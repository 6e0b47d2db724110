"""Stores for tests of what is built on them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ci.runner.claims.store import StoreLostError


@dataclass(slots=True)
class Memory:
    """What all hosts of a test share."""

    terms: str | None = None
    kept: dict[str, str] = field(default_factory=dict)
    said: list[tuple[str, str]] = field(default_factory=list)
    puts: int = 0


@dataclass(slots=True)
class MemoryStore:
    """One host's hand in it.

    Attributes:
        lost: whether it does not answer.
        mute: whether what is put is kept and the answer gets lost.
    """

    memory: Memory
    me: str
    heard: int = 0
    lost: bool = False
    mute: bool = False
    closed: bool = False

    def begin(self, terms: str) -> str:
        self._answers()
        self.memory.terms = self.memory.terms or terms
        return self.memory.terms

    def put(self, key: str, value: str) -> str:
        self._answers()
        self.memory.puts += 1
        stands = self.memory.kept.setdefault(key, value)
        if self.mute:
            raise StoreLostError("the answer got lost")
        return stands

    def say(self, line: str) -> None:
        self._answers()
        self.memory.said.append((self.me, line))

    def hear(self) -> list[tuple[str, str]]:
        self._answers()
        new, self.heard = self.memory.said[self.heard :], len(self.memory.said)
        return [(host, line) for host, line in new if host != self.me]

    def close(self) -> None:
        self.closed = True

    def _answers(self) -> None:
        if self.lost:
            raise StoreLostError("it does not answer")
