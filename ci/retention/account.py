"""What a prune came to: for people in lines, for machines as `spyre-ci/prune/1`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK
from ci.core.text import counted, escaped, iso_utc, size
from ci.retention.things import Decision, Foreign, Rule
from test_selection.files import schema_name

KIND = "prune"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Something that was to go and did not.

    Attributes:
        kind: of it.
        path: where it is.
        why: and what mends it.
    """

    kind: str
    path: str
    why: str


@dataclass(slots=True, kw_only=True)
class Account:
    """What a prune came to.

    Attributes:
        dry_run: whether it only looked.
        at: when, in seconds since the epoch.
        rules: how much of each kind is kept.
        decisions: what became of each thing that was found, by kind.
        foreign: what is not ours, where ours is.
        failed: what was to go and is still there.
        broken: releases that cannot be read, and why.
        notes: what else is to be known, a sentence each.
        finished: trash of a prune before that was cut off, and is deleted now.
    """

    dry_run: bool
    at: float
    rules: dict[str, Rule] = field(default_factory=dict)
    decisions: dict[str, Sequence[Decision]] = field(default_factory=dict)
    foreign: list[Foreign] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """3 where something was to go and did not, or a release that cannot be read holds things; else 0."""
        return EXIT_INCOMPLETE if self.failed or self.broken else EXIT_OK

    def as_json(self) -> dict[str, Any]:
        """The document that docs/schemas/prune.json describes."""
        every = [one for ones in self.decisions.values() for one in ones]
        return {
            "schema": schema_name(KIND),
            "dry_run": self.dry_run,
            "at": iso_utc(self.at),
            "exit_code": self.exit_code,
            "kinds": {kind: _kind(self.rules[kind], ones) for kind, ones in self.decisions.items()},
            "removed": [_row(one) for one in every if one.goes],
            "kept": [_row(one) for one in every if not one.goes],
            "foreign": [asdict(one) for one in self.foreign],
            "failed": [asdict(one) for one in self.failed],
            "broken_releases": [{"path": path, "why": why} for path, why in self.broken],
            "notes": list(self.notes),
            "finished": list(self.finished),
        }

    def lines(self) -> Iterator[str]:
        """For people, after what went was told line by line."""
        for kind, ones in self.decisions.items():
            yield from self._of_kind(kind, ones)
        for foreign in self.foreign:
            yield escaped(f"left alone: {foreign.path}: {foreign.why}")
        for path, why in self.broken:
            yield escaped(
                f"release that cannot be read: {path}: {why}; until it is mended or moved away, nothing that "
                "a release can name goes"
            )
        for failed in self.failed:
            yield escaped(f"not removed: {failed.path}: {failed.why}")
        yield from map(escaped, self.notes)

    def _of_kind(self, kind: str, ones: Sequence[Decision]) -> Iterator[str]:
        gone = [one for one in ones if one.goes]
        verb = "would go" if self.dry_run else "went"
        freed = f" ({size(sum(one.frees for one in gone))})" if gone else ""
        left = len(ones) - len(gone)
        yield f"{kind}: {len(gone):,} {verb}{freed}, {left:,} {'stays' if left == 1 else 'stay'}"
        reasons = Counter(one.why for one in ones if not one.goes)
        shown = reasons.most_common(8)
        for why, count in shown:
            yield escaped(f"  {count:,} of them: {why}")
        if len(reasons) > len(shown):
            yield f"  {counted(len(reasons) - len(shown), 'more reason')}: --json has each"


def line(decision: Decision) -> str:
    """One thing that goes, for people."""
    one = decision.thing
    return escaped(f"{one.kind}: {one.name}: {decision.why}, {size(decision.frees)}")


def _kind(rule: Rule, ones: Sequence[Decision]) -> dict[str, Any]:
    gone = [one for one in ones if one.goes]
    return {
        "keep_days": rule.keep_days,
        "keep_bytes": rule.keep_bytes,
        "keep_last": rule.keep_last,
        "found": len(ones),
        "bytes": sum(one.thing.bytes for one in ones),
        "removed": len(gone),
        "freed": sum(one.frees for one in gone),
    }


def _row(one: Decision) -> dict[str, Any]:
    thing = one.thing
    return {
        "kind": thing.kind,
        "name": thing.name,
        "path": thing.path,
        "at": None if thing.at is None else iso_utc(thing.at),
        "bytes": thing.bytes,
        "frees": one.frees,
        "why": one.why,
    }
