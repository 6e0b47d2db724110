"""What changed between two sets of tests: who came, went, moved in, moved out; by file. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from test_selection.ids import file_of

SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: what it is called.
        known: the tests there are, selected or not; None where nobody knows.
        selected: by stage or other name, the tests that are in; empty where nothing is selected from `known`.
    """

    name: str
    known: Collection[str] | None
    selected: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Tests known on both sides that are in on one of them only."""

    share: str
    moved_in: list[str]
    moved_out: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """From A to B: tests only B knows, tests only A knows, and who moved in which share; ids are sorted."""

    a: str
    b: str
    came: list[str]
    went: list[str]
    moves: list[Moved]


def compare(a: Side, b: Side) -> Difference:
    """What B has that A has not, and the other way round; shares are compared where both have them."""
    old, new = set(a.known or ()), set(b.known or ())
    if a.known is None or b.known is None:
        old = new = set()
    changed = old ^ new
    moves = []
    for name in a.selected:
        if name in b.selected:
            before, after = set(a.selected[name]), set(b.selected[name])
            moves.append(
                Moved(
                    share=name,
                    moved_in=sorted(after - before - changed),
                    moved_out=sorted(before - after - changed),
                )
            )
    return Difference(a=a.name, b=b.name, came=sorted(new - old), went=sorted(old - new), moves=moves)


def difference_lines(difference: Difference) -> list[str]:
    """The difference for people: counts by file and the first few ids."""
    lines = [f"from {difference.a} to {difference.b}"]
    lines += _part("came", difference.came)
    lines += _part("went", difference.went)
    for one in difference.moves:
        label = f"{one.share}: " if one.share else ""
        lines += _part(f"{label}moved in", one.moved_in)
        lines += _part(f"{label}moved out", one.moved_out)
    return lines if len(lines) > 1 else [*lines, "nothing changed"]


def difference_json(difference: Difference) -> dict[str, Any]:
    """The difference for machines: every id, by file."""
    return {
        "a": difference.a,
        "b": difference.b,
        "came": by_file(difference.came),
        "went": by_file(difference.went),
        "shares": [
            {
                "share": one.share,
                "moved_in": by_file(one.moved_in),
                "moved_out": by_file(one.moved_out),
            }
            for one in difference.moves
        ],
    }


def by_file(ids: Iterable[str]) -> dict[str, list[str]]:
    """Ids by the file they are of, as it is called on disk."""
    found: dict[str, list[str]] = {}
    for name in ids:
        found.setdefault(file_of(name), []).append(name)
    return found


def few(ids: Sequence[str]) -> str:
    """The first few ids, and that there are more."""
    return ", ".join(ids[:SHOWN]) + (" …" if len(ids) > SHOWN else "")


def _part(title: str, ids: Sequence[str]) -> list[str]:
    if not ids:
        return []
    # For people a file is called as in its ids, which hold no control characters.
    counts = Counter(name.partition("::")[0] for name in ids)
    files = (
        f"  {count:>9,} {file}" for file, count in sorted(counts.items(), key=lambda row: (-row[1], row))
    )
    return [f"{title}: {len(ids):,}, such as {few(ids)}", *files]
