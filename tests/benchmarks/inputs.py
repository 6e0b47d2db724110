"""What is measured: tests with seconds, from PyTorch's class times or made up, each by a seeded rule."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from test_selection.catalog import CatalogTest

VARIABLE = "SPYRE_CI_BENCH_CLASS_SECONDS"
SEED = 20260129
# A class is cut into tests of this mean, and its tests' seconds spread by this sigma.
MEAN_TEST_S = 0.4
SPREAD = 1.0
# Made-up tests last so long at most that none binds, for then neither packing nor stealing is what is
# measured: in a file that takes twice as long as expected (sigma 0.3 does that to one in a hundred), on a
# card 10 % slow, with 15 s of set-up, the longest ends after (20 * 2 + 15) * 1.1 = 61 s, below the least
# bound of 2,048 shards, 67 s. Days with tests of a minute, which do bind, are a line of their own.
MOST_TEST_S = 20.0
LONG_TEST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Tests, the seconds of each by test id, and the files they lie in."""

    name: str
    tests: list[CatalogTest]
    test_s: dict[str, float]

    @property
    def files(self) -> list[str]:
        """Every file, by name."""
        return sorted({test.file for test in self.tests})

    def file_s(self, setup_s: float) -> dict[str, float]:
        """The same set-up for every file."""
        return dict.fromkeys(self.files, setup_s)

    @property
    def seconds(self) -> float:
        """Seconds of all tests, without set-up."""
        return math.fsum(self.test_s.values())


def class_times(where: str | None, environ: dict[str, str] | None = None) -> Path | None:
    """The file of class times: the one named, else the environment's; None where neither is there."""
    named = where or (os.environ if environ is None else environ).get(VARIABLE)
    return Path(named) if named and Path(named).is_file() else None


def from_class_times(path: Path, configuration: str | None = None) -> Work:
    """PyTorch's measured class seconds spread to tests.

    A class of S seconds becomes max(1, round(S / 0.4)) tests, whose shares of S are
    lognormal (sigma 1) draws of a generator seeded by this module, in the order of file and class.
    """
    data = path.read_bytes()
    tables = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    # The run on CPU stands for the tree; the others have tests that need their hardware.
    name = configuration or min(tables, key=lambda one: ("cuda" in one or "rocm" in one, one))
    rng = random.Random(SEED)
    return _work(name, _spread_classes(tables[name], rng))


def _spread_classes(
    table: dict[str, dict[str, float]], rng: random.Random
) -> Iterator[tuple[str, str, float]]:
    for file in sorted(table):
        for cls in sorted(table[file]):
            total = max(table[file][cls], 0.0)
            count = max(1, round(total / MEAN_TEST_S))
            weights = [rng.lognormvariate(0.0, SPREAD) for _ in range(count)]
            scale = total / math.fsum(weights)
            for number, weight in enumerate(weights):
                yield f"{file}.py", f"{cls}::test_{number:04}", weight * scale


def heavy_tail(
    tests: int = 200_000, files: int = 1_200, seed: int = SEED, *, most_s: float = MOST_TEST_S
) -> Work:
    """Made-up tests: the sizes of files and the seconds of tests both have heavy tails.

    Files weigh Pareto (shape 1.1) draws; tests last lognormal draws (median 0.25 s, sigma 1.3), one in a
    hundred ten times as long, `most_s` at most.
    """
    rng = random.Random(seed)
    weights = [rng.paretovariate(1.1) for _ in range(files)]
    picks = rng.choices(range(files), weights=weights, k=tests - files)
    counts = [1] * files
    for pick in picks:
        counts[pick] += 1

    def rows() -> Iterator[tuple[str, str, float]]:
        for number, count in enumerate(counts):
            for one in range(count):
                seconds = rng.lognormvariate(math.log(0.25), 1.3) * (10 if rng.random() < 0.01 else 1)
                yield f"test_{number:04}.py", f"TestCase::test_{one:06}", min(seconds, most_s)

    name = "heavy tail" if most_s <= MOST_TEST_S else f"tests of {most_s:g} s"
    return _work(f"{name}, {tests:,} tests", rows())


def fine_grained(tests: int = 200_000, files: int = 1_200, seed: int = SEED) -> Work:
    """Made-up tests none of which binds: 0.2 to 0.8 s each, so that packing is what is measured."""
    rng = random.Random(seed)
    weights = [rng.paretovariate(1.3) for _ in range(files)]
    picks = [*range(files), *rng.choices(range(files), weights=weights, k=tests - files)]
    rows = (
        (f"test_{pick:04}.py", f"TestCase::test_{number:06}", rng.uniform(0.2, 0.8))
        for number, pick in enumerate(sorted(picks))
    )
    return _work(f"no test binds, {tests:,} tests", rows)


def about_ops(tests: int, files: int = 1_200, seed: int = SEED) -> list[CatalogTest]:
    """Tests of 600 ops, 12 dtypes and a template for every 40 tests, to build a ladder of."""
    rng = random.Random(seed)
    found = []
    for number in range(tests):
        template, op, dtype = f"test_{number // 40:06}", rng.randrange(600), rng.randrange(12)
        file = f"test_{number // 40 % files:04}.py"
        identity = f"{file}::TestX::{template}[dtype=d{dtype},op=o{op},n={number}]"
        found.append(
            CatalogTest(
                id=identity,
                node=identity,
                file=file,
                cls="TestX",
                template=template,
                op=f"o{op}",
                dtype=f"d{dtype}",
            )
        )
    return found


def _work(name: str, rows: Iterable[tuple[str, str, float]]) -> Work:
    tests, test_s = [], {}
    for file, rest, seconds in rows:
        identity = f"{file}::{rest}"
        tests.append(CatalogTest(id=identity, node=identity, file=file))
        test_s[identity] = seconds
    return Work(name=name, tests=tests, test_s=test_s)
