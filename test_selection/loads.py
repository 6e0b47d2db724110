"""What is to be packed: the tests of each file, longest first, with what they and the set-up cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.limits import NO_LIMITS, Limits

Chains = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoad:
    """The tests of one file, longest first (ties by id), and what they and the file's set-up cost.

    A chain stands as one test, under the id of its first. A test that runs alone is a load of its own, and
    so are the tests of a file that need another number of cards.

    Attributes:
        file: the test file.
        setup_s: seconds to import and collect the file, paid by every shard that touches it.
        seconds: seconds of each test, descending.
        ids: the test id of each test, in the order of `seconds`.
        total_s: the sum of `seconds`.
        cards: how many cards each of them needs at once.
        alone: the one test wants a process of its own.
        borrows: the file has tests on more cards, beside which these may run without a set-up of their own.
    """

    file: str
    setup_s: float
    seconds: tuple[float, ...]
    ids: tuple[str, ...]
    total_s: float
    cards: int = 1
    alone: bool = False
    borrows: bool = False

    @property
    def whole_s(self) -> float:
        """Seconds of the whole file on one shard."""
        return self.setup_s + self.total_s


def file_loads(
    tests: Iterable[CatalogTest],
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    limits: Limits = NO_LIMITS,
    chains: Chains | None = None,
) -> list[FileLoad]:
    """Gather tests by file, in the order of the files' names; the order of `tests` does not count.

    Args:
        tests: what is to be split.
        test_s: seconds by test id; a test without gets what an unknown test is given.
        file_s: set-up seconds by file; a file without costs nothing to set up.
        limits: which tests run alone and how many cards each needs.
        chains: what `gather_chains` returned for the same tests.
    """
    by_file: dict[str, list[str]] = {}
    for test in tests:
        by_file.setdefault(test.file, []).append(test.id)
    plain = not chains and not limits.alone and not limits.cards
    limits = replace(limits, alone=frozenset(limits.alone))
    followers = {name for chain in (chains or {}).values() for name in chain[1:]}
    loads: list[FileLoad] = []
    for file in sorted(by_file):
        setup = file_s.get(file, 0.0)
        names = sorted(by_file[file])
        if plain:
            loads.append(_load(file, setup, names, [test_s.get(name, UNKNOWN_TEST_S) for name in names]))
        else:
            rows = [name for name in names if name not in followers]
            loads += _limited(file, setup, rows, test_s, limits=limits, chains=chains or {})
    return loads


def gather_chains(tests: Iterable[CatalogTest], limits: Limits) -> dict[str, tuple[str, ...]]:
    """The ids of each chain of each file in their order, by the first of them; chains of one are left out.

    Raises:
        UsageError: a test of a chain is to run alone as well.
    """
    if not limits.in_order:
        return {}
    files = {test.id: test.file for test in tests}
    rows: dict[tuple[str, str], list[str]] = {}
    for name, chain in limits.in_order.items():
        if name in files:
            rows.setdefault((files[name], chain), []).append(name)
    alone = set(limits.alone)
    for (file, chain), names in rows.items():
        if len(names) > 1 and (both := alone.intersection(names)):
            raise UsageError(
                f"{min(both)!r} is to run alone and in the chain {chain!r} of {len(names)} tests of {file}",
                where="in_order",
                remedy="take it out of one of the two",
            )
    return {names[0]: tuple(names) for names in rows.values() if len(names) > 1}


def _load(
    file: str,
    setup: float,
    names: Sequence[str],
    seconds: Sequence[float],
    cards: int = 1,
    *,
    alone: bool = False,
    borrows: bool = False,
) -> FileLoad:
    # Names come sorted and the sort is stable in reverse too, so equal seconds stay in order of ids.
    order = sorted(range(len(names)), key=seconds.__getitem__, reverse=True)
    ordered = tuple(map(seconds.__getitem__, order))
    return FileLoad(
        file=file,
        setup_s=setup,
        seconds=ordered,
        ids=tuple(map(names.__getitem__, order)),
        total_s=math.fsum(ordered),
        cards=cards,
        alone=alone,
        borrows=borrows,
    )


def _limited(
    file: str,
    setup: float,
    names: Iterable[str],
    test_s: Mapping[str, float],
    *,
    limits: Limits,
    chains: Chains,
) -> list[FileLoad]:
    # By the cards they need, those that run alone each by itself and behind the others.
    by_cards: dict[tuple[str, int], tuple[list[str], list[float]]] = {}
    for name in names:
        chain = chains.get(name, (name,))
        cards = max(limits.cards.get(one, 1) for one in chain)
        rows = by_cards.setdefault((name if name in limits.alone else "", cards), ([], []))
        rows[0].append(name)
        rows[1].append(math.fsum(test_s.get(one, UNKNOWN_TEST_S) for one in chain))
    widest = max((cards for single, cards in by_cards if not single), default=1)
    return [
        _load(file, setup, *rows, cards, alone=bool(single), borrows=not single and cards < widest)
        for (single, cards), rows in sorted(by_cards.items())
    ]
