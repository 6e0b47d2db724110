"""Dealing whole files out, where so few files a shard are allowed that none may be cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

from test_selection.cards import Cards
from test_selection.errors import UsageError
from test_selection.layout import Layout
from test_selection.loads import FileLoad


def deal_whole_files(loads: Sequence[FileLoad], cards: Cards, max_files: int | None) -> Layout:
    """Give each file, widest and longest first, to the shard that ends soonest and has room for a file.

    Raises:
        UsageError: wide shards leave too few cards for the other files.
    """
    by_file: dict[str, list[int]] = {}
    for number, load in enumerate(loads):
        by_file.setdefault(load.file, []).append(number)
    width = {file: max(loads[number].cards for number in rows) for file, rows in by_file.items()}
    widths, speeds = _open(sorted(width.values(), reverse=True), cards, max_files or len(by_file))
    layout = Layout(loads, widths, speeds, max_files)

    def whole(file: str) -> float:
        return sum(loads[number].whole_s for number in by_file[file])

    for file in sorted(by_file, key=lambda one: (-width[one], -whole(one), one)):
        rows = by_file[file]
        free = [shard for shard in range(len(widths)) if all(layout.takes(shard, number) for number in rows)]
        if not free:
            raise _no_room(len(by_file), cards.count, max_files)
        shard = min(free, key=lambda one: ((layout.work[one] + whole(file)) / speeds[one], one))
        for number in rows:
            layout.add(shard, number, range(len(loads[number].ids)))
    return layout


def _open(needed: Sequence[int], cards: Cards, max_files: int) -> tuple[list[int], list[float]]:
    """Shards for files of these widths, descending: as few as hold them, then one on each card left."""
    left = cards.left()
    widths: list[int] = []
    speeds: list[float] = []
    for at in range(0, len(needed), max_files):
        if left.best_speed(needed[at]) <= 0:
            raise _no_room(len(needed), cards.count, max_files)
        widths.append(needed[at])
        speeds.append(left.take(needed[at]))
    while left.count:
        widths.append(1)
        speeds.append(left.take(1))
    return widths, speeds


def _no_room(files: int, cards: int, max_files: int | None) -> UsageError:
    return UsageError(
        f"{files} files, some on several cards at once, do not fit on {cards} cards "
        f"with at most {max_files} files a shard",
        where="max_files",
        remedy=f"allow {math.ceil(files / cards) + 1} files a shard or more, or plan for more cards",
    )
