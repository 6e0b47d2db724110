"""A plan of which only single tests matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OneFile:
    """All tests are of one file and one shard; a few need several cards, or run after others."""

    wide: Mapping[str, int] = field(default_factory=dict)
    chains: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def file_of(self, _name: str) -> str:
        return "a.py"

    def shard_of(self, _name: str) -> int:
        return 0

    def cards_of(self, name: str) -> int:
        return self.wide.get(name, 1)

    def before(self, name: str) -> Sequence[str]:
        return self.chains.get(name, ())
