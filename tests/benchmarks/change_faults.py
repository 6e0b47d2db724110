"""Faults of an example back end: does the choice of tests by the change catch them, and how soon?

    python tests/benchmarks/change_faults.py RUN --faults 600 --seed 1 --log faults.jsonl

RUN is the folder of a reported run of the op suite, whose op map says what each test calls. Every fault is
a real diff of a source file in a repository; the truth is a full run of the tests with it, in a fork.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from ci.changes.evidence import find_evidence
from ci.changes.measure import BUDGETS, Fault, Measured, recall_of, run_faults, sample_faults, weigh
from ci.changes.source_change import change_of_commits
from ci.core.git import git
from test_selection.catalog import CatalogTest, read_catalog
from test_selection.change import RankedTests, rank_tests, recall_interval
from test_selection.op_map import OpMap, read_op_map
from test_selection.selection import read_selection

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
from tests.benchmarks.forked_runs import ForkedRuns, finish, installing  # noqa: E402  # run by its path

SOURCES = ("helpers.py", "pointwise.py", "binary.py", "reductions.py", "decompositions.py")
RUN_S = 120


class Bench:
    def __init__(self, run: Path, scratch: Path) -> None:
        catalog = {test.id: test for test in read_catalog(run / "catalog.jsonl.gz").tests}
        self.op_map: OpMap = read_op_map(run / "opmap.json.gz")
        self.tests = [catalog[name] for name in read_selection(run / "selection.json").ids]
        self.runs = ForkedRuns({test.id: test.node for test in self.tests})
        self.repository = scratch / "repository"
        self.package = self.repository / "example_backend"
        shutil.copytree(
            HERE.parent / "example_backend", self.package, ignore=shutil.ignore_patterns("__pycache__")
        )
        for words in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"],
        ):
            git(self.repository, *words)
        self.sources = {f"example_backend/{name}": (self.package / name).read_text() for name in SOURCES}
        began = time.monotonic()
        self.before = self.run_all()
        self.run_s = time.monotonic() - began
        self.tests = [test for test in self.tests if test.id not in self.before]

    def run_all(self) -> set[str]:
        ids = [test.id for test in self.tests]
        parts = [ids[::2], ids[1::2]]
        begun = [self.runs.start(installing(self.repository), part) for part in parts]
        return {
            name
            for (pid, pipe), part in zip(begun, parts, strict=True)
            for name in finish(pid, pipe, part, RUN_S)
        }

    def run(self, fault: Fault) -> set[str]:
        (self.repository / fault.file).write_text(fault.text)
        try:
            return self.run_all()
        finally:
            (self.repository / fault.file).write_text(self.sources[fault.file])

    def rank(self, fault: Fault) -> tuple[RankedTests, list[str]]:
        """The order that the fault's diff gives, and the ops that it names."""
        (self.repository / fault.file).write_text(fault.text)
        try:
            change = change_of_commits(self.repository, "HEAD")
            evidence = find_evidence(change, self.op_map, tests="", test_files=(), docs=())
        finally:
            (self.repository / fault.file).write_text(self.sources[fault.file])
        return rank_tests(self.tests, evidence, self.op_map), sorted(evidence.ops)


def baselines(
    tests: Sequence[CatalogTest], ranked: RankedTests, ops: Sequence[str], failed: frozenset[str]
) -> dict[str, bool]:
    """Whether a fault is caught by other choices: the catalog's op, or as many tests by hash or at random."""
    named = len(ranked.named)
    by_hash = sorted((test.id for test in tests), key=lambda name: sha256(name.encode()).digest())
    drawn = random.Random(by_hash[0] + "".join(ops)).sample(by_hash, named)
    plain = {op.strip("_").replace(".", "_") for op in ops}
    of_op = [
        test.id
        for test in tests
        if test.op and test.op.replace(".", "_").removeprefix("nn_functional_") in plain
    ]
    found = {"op field": of_op, "hash order, same size": by_hash[:named], "random, same size": drawn}
    for budget in BUDGETS[1:]:
        found[f"hash order, {budget}"] = by_hash[: math.ceil(len(by_hash) * float(budget[:-1]) / 100)]
    return {name: not failed.isdisjoint(ids) for name, ids in found.items()}


def table(found: Sequence[Measured], others: Mapping[str, Mapping[str, bool]], tests: int) -> list[str]:
    killed = [one for one in found if one.failed]
    own = {one.ops[0] for one in killed if len(one.ops) == 1}
    lines = [
        f"{len(found)} faults, {len(killed)} found by a full run of {tests} tests",
        f"{len(own)} families of ops with faults of their own",
        f"resolved to any test: {sum(one.everything for one in killed)}",
    ]
    for budget, recall in recall_of(found).items():
        tests_of = sum(one.failed for one in killed)
        caught = sum(one.caught[budget] for one in killed)
        low, _ = recall_interval(recall.caught, recall.faults)
        rate, share = 100 * recall.caught / recall.faults, 100 * caught / tests_of
        shares = f"median {100 * recall.median_share:.2f} %, mean {100 * recall.mean_share:.2f} %"
        changes = f"{recall.caught}/{recall.faults} changes ({rate:.2f} %, at least {100 * low:.2f} %)"
        lines.append(f"{budget:>9}: {changes}, {share:.2f} % of {tests_of} failing tests; share {shares}")
    for name in sorted({name for rows in others.values() for name in rows}):
        hits = [rows[name] for rows in others.values()]
        lines.append(f"{name:>24}: {sum(hits)}/{len(hits)} changes")
    firsts = sorted(one.first for one in killed)
    ninth = firsts[math.ceil(0.9 * len(firsts)) - 1]
    place = f"90th percentile {ninth} ({100 * ninth / tests:.2f} % of {tests})"
    lines.append(f"first failing test: median {statistics.median(firsts):g}, {place}")
    lines.append(f"always in: {100 * statistics.fmean(one.always for one in killed):.2f} % of the tests")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--faults", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, default=Path("faults.jsonl"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(given.run, Path(scratch))
        faults = sample_faults(bench.sources, number=given.faults, seed=given.seed)
        print(f"{len(bench.before)} tests fail without a fault and are left out; {len(bench.tests)} stay")
        minutes = len(faults) * bench.run_s / 60
        print(f"{len(faults)} faults, {bench.run_s:.1f} s a full run: about {minutes:.0f} minutes")
        truth = run_faults(faults, bench.run, given.log, say=lambda text: print(text, flush=True))
        found, others = [], {}
        for fault, failed in zip(faults, truth, strict=True):
            ranked, ops = bench.rank(fault)
            found.append(weigh(ranked, failed, ops))
            if failed:
                others[fault.name] = baselines(bench.tests, ranked, ops, failed)
        for line in table(found, others, len(bench.tests)):
            print(line)


if __name__ == "__main__":
    main()
