"""Faults of an example back end: does the choice of tests by the change catch them, and how soon?

    python tests/benchmarks/change_faults.py RUN --faults 600 --seed 1 --log faults.jsonl

RUN is the folder of a reported run of the op suite, whose op map says what each test calls. Every fault is
a real diff of a source file in a repository; the truth is a full run of the tests with it, in a fork.
"""

from __future__ import annotations

import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from ci.changes.evidence import find_evidence
from ci.changes.measure import BUDGETS, sample_faults
from ci.changes.mutants import Fault
from ci.changes.source_change import change_of_commits
from ci.core.git import git
from test_selection.catalog import CatalogTest, read_catalog
from test_selection.change import EVIDENCE, Evidence, RankedTests, rank_tests
from test_selection.op_map import OpMap, read_op_map
from test_selection.selection import read_selection

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
from tests.benchmarks import fault_table  # noqa: E402  # run by its path
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
        self.sources = {f"example_backend/{name}": (self.package / name).read_bytes() for name in SOURCES}
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
            (self.repository / fault.file).write_bytes(self.sources[fault.file])

    def evidence(self, fault: Fault) -> Evidence:
        """What the fault's diff says of tests."""
        (self.repository / fault.file).write_text(fault.text)
        try:
            change = change_of_commits(self.repository, "HEAD")
            return find_evidence(change, self.op_map, tests="", test_files=(), docs=())
        finally:
            (self.repository / fault.file).write_bytes(self.sources[fault.file])


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


def stale(op_map: OpMap) -> dict[str, OpMap]:
    """The op map as it may be when tests have changed since."""
    shuffled = random.Random(0).sample(sorted(op_map.of), len(op_map.of))
    gone, renamed = (set(shuffled[: math.ceil(len(shuffled) * share)]) for share in (0.1, 0.05))
    without = {name: place for name, place in op_map.of.items() if name not in gone}
    others = {f"{name}_then" if name in renamed else name: place for name, place in op_map.of.items()}
    return {
        "10 % of the traces gone": replace(op_map, of=without),
        "5 % of the tests renamed": replace(op_map, of=others),
    }


def main() -> None:
    given = fault_table.read_options(__doc__, faults=600, log="faults.jsonl")
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(given.run, Path(scratch))
        faults = sample_faults(bench.sources, number=given.faults, seed=given.seed)
        print(f"{len(bench.before)} tests fail without a fault and are left out; {len(bench.tests)} stay")
        truth = fault_table.run_all(faults, bench.run, given.log, run_s=bench.run_s)
        known = {"": bench.op_map, **stale(bench.op_map)}
        found: dict[str, list[fault_table.Row]] = {name: [] for name in known}
        others = []
        for fault, failed in zip(faults, truth, strict=True):
            evidence = bench.evidence(fault)
            for name, op_map in known.items():
                ranked = rank_tests(bench.tests, evidence, op_map)
                found[name].append(fault_table.row(ranked, failed, sorted(evidence.ops)))
            if failed:
                ranked = rank_tests(bench.tests, evidence, bench.op_map)
                others.append(baselines(bench.tests, ranked, sorted(evidence.ops), failed))
    own = {one.ops[0] for one in found[""] if one.measured.failed and len(one.ops) == 1}
    print(f"{len(own)} families of ops with faults of their own")
    for line in fault_table.lines(found.pop(""), faults, len(bench.tests)):
        print(line)
    for name, rows in found.items():
        # With an op map that is out of date more changes may break any test, and count like the others.
        measured = [replace(one.measured, everything=False) for one in rows]
        print(f"{name}: {fault_table.words(measured, EVIDENCE)}")
    for name in others[0]:
        print(f"{name:>24}: {sum(row[name] for row in others)}/{len(others)} changes")


if __name__ == "__main__":
    main()
