"""Two checkouts measured in turns: each number that the second prints as a ratio to the first's.

    python tests/benchmarks/beside.py ../before . tests/benchmarks/bench.py --only compare --rounds 1 --json

In each checkout its own script runs, in its own `.venv` where there is one, and prints a JSON document. Who
begins changes from turn to turn. A ratio is one of medians; nineteen in twenty draws of a bootstrap stay
below its upper limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TIMEOUT_S = 3600
DRAWS, LEVEL, SEED = 2000, 0.95, 33
# What a ratio may be at most, its upper limit included, before it is called slower.
BAR = 1.10


def numbers(found: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a document, by its keys."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from numbers(value, f"{name} {key}".strip())
    elif isinstance(found, list):
        for place, value in enumerate(found):
            yield from numbers(value, f"{name} {place}")
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield name, found


def measure(checkout: Path, words: Sequence[str]) -> dict[str, float]:
    """The numbers that a script prints in a checkout."""
    own = checkout / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # our own command
        [python, *words],
        cwd=checkout, env=environ, timeout=TIMEOUT_S, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return dict(numbers(json.loads(done.stdout)))


def ratio(before: Sequence[float], now: Sequence[float]) -> tuple[float, float]:
    """The ratio of medians, and the upper end of its interval."""
    rng = random.Random(SEED)
    draws = sorted(
        statistics.median(rng.choices(now, k=len(now)))
        / statistics.median(rng.choices(before, k=len(before)))
        for _ in range(DRAWS)
    )
    return statistics.median(now) / statistics.median(before), draws[round(LEVEL * DRAWS) - 1]


def main() -> None:
    """Measure in turns, and print the numbers that both have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("now", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("script", nargs=argparse.REMAINDER, help="what runs in each, with its words")
    options = parser.parse_args()
    checkouts = (options.before.resolve(), options.now.resolve())
    taken: tuple[list[dict[str, float]], ...] = ([], [])
    for number in range(options.turns):
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            taken[place].append(measure(checkouts[place], options.script))
        print(f"turn {number + 1} of {options.turns}", file=sys.stderr, flush=True)
    print(f"{'before':>12}{'now':>12}{'ratio':>8}{'at most':>9}")
    for name in taken[0][0]:
        before, now = ([row[name] for row in rows if name in row] for rows in taken)
        if len(before) == len(now) == options.turns and min(before) > 0:
            of, most = ratio(before, now)
            middle = "".join(f"{statistics.median(row):>12.4g}" for row in (before, now))
            print(f"{middle}{of:>8.2f}{most:>9.2f}{'  slower' if most > BAR else ''}  {name}")


if __name__ == "__main__":
    main()
