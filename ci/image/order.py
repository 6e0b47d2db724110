"""The order in which components are built: needs first, else as they stand in the file; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class CycleError(Exception):
    """Components that need each other.

    Args:
        cycle: their names, the first again at the end.
    """

    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(" > ".join(cycle))
        self.cycle = list(cycle)


def in_order(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Names so that each comes after those it needs; names that need nothing of each other keep their order.

    Args:
        needs: by name, all of them names of the mapping.

    Raises:
        CycleError: some need each other.
    """
    done: list[str] = []
    for name in needs:
        _visit(name, needs, done, [])
    return done


def _visit(name: str, needs: Mapping[str, Sequence[str]], done: list[str], way: list[str]) -> None:
    if name in done:
        return
    if name in way:
        raise CycleError([*way[way.index(name) :], name])
    for need in needs[name]:
        _visit(need, needs, done, [*way, name])
    done.append(name)
