"""Seeding: the generators that tests draw from get the seed of the test before its set-up.

PyTorch's own TestCase seeds once more in its `setUp`, with a number of its own; what draws before, or stands
in another kind of test, has the seed from here.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from test_selection.seeds import seed_of_test

SAID = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeding:
    """How tests are seeded.

    Attributes:
        run: the run's seed; None: nothing is seeded.
        as_try: by id, the try whose seed a test has, where that is not the one it is.
    """

    run: int | None = None
    as_try: Mapping[str, int] = field(default_factory=dict)

    def of(self, name: str, attempt: int) -> int | None:
        """The seed of a try of a test; None where nothing is seeded."""
        if self.run is None:
            return None
        return seed_of_test(self.run, name, self.as_try.get(name, attempt))


def seeding_of(spec: Mapping[str, Any]) -> Seeding:
    """How a child seeds, by what its worker was told."""
    return Seeding(run=spec.get("seed"), as_try=spec.get("as_try") or {})


def seed_all(seed: int, modules: Mapping[str, Any] | None = None) -> str:
    """Seed Python's, numpy's and torch's generators, of what is imported, and say what could not be.

    Nothing is imported for it, and nothing that goes wrong is raised: it is no matter of the test (law 4).

    Args:
        seed: 0 to 2**32 - 1.
        modules: what is imported; None: of this process.

    Returns:
        Why some could not be seeded, in a line; empty where all were.
    """
    there = sys.modules if modules is None else modules
    said = []
    seeded = (("random", "seed", random), ("numpy", "random.seed", None), ("torch", "manual_seed", None))
    for name, path, ours in seeded:
        if (module := ours or there.get(name)) is None:
            continue
        try:
            seeds: Callable[[int], object] = attrgetter(path)(module)
            seeds(seed)
        except Exception as error:  # noqa: BLE001  # a test may have put anything there
            said.append(f"{name}: {type(error).__name__}: {error}")
    return " ".join("; ".join(said).split())[:SAID]
