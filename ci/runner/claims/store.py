"""What hosts share: a place that keeps the first value of a key, and what every host says."""

from __future__ import annotations

from typing import Protocol


class StoreLostError(Exception):
    """The store does not answer, or is no longer the one it was."""


class Store(Protocol):
    """A place that all hosts of a run reach; every method may raise `StoreLostError`."""

    def begin(self, terms: str) -> str:
        """Join the run: the terms it was begun with, which are these for the first host."""
        ...

    def put(self, key: str, value: str) -> str:
        """Keep `value` under `key` unless something stands there; what stands there then.

        Atomic over all hosts; a host that does not know whether it was heard may ask again.
        """
        ...

    def say(self, line: str) -> None:
        """Add a line to what this host says."""
        ...

    def hear(self) -> list[tuple[str, str]]:
        """What other hosts said since the last call, as (host, line); of one host, in its order.

        What is there and of no host comes with an empty name.
        """
        ...

    def close(self) -> None:
        """Let go of it; what was put and said stays."""
        ...
