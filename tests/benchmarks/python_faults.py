"""Faults of PyTorch's own Python code: does the choice of tests by the functions they call catch them?

    SPYRE_CI__RUN__TRACE_FUNCTIONS=true spyre-ci pytorch --percent 12
    python tests/benchmarks/python_faults.py RUN --faults 150 --seed 1 --log python.jsonl

RUN is the folder of that run. A fault is put into one file of a copy of torch, made of links besides; the
truth is a fresh process with that copy which runs every test.
"""

from __future__ import annotations

import ast
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ci.changes.evidence import find_evidence
from ci.changes.measure import read_log
from ci.changes.mutants import Fault, faults_of
from ci.changes.source_change import SourceChange
from ci.core.commands import finish_command
from test_selection.catalog import read_catalog
from test_selection.change import WHOLE_FILE, rank_tests
from test_selection.op_map import is_function, read_op_map
from test_selection.selection import read_selection

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.benchmarks import fault_table  # noqa: E402  # run by its path

RUN_S = 300
WORKERS = 2
# Runs every test; or says which functions of torch run before the first one.
_RUN = """
import json, sys
from tests.benchmarks.forked_runs import ForkedRuns
nodes = json.load(open(sys.argv[1]))
failed = ForkedRuns(nodes).run_here(lambda: None, list(nodes))
json.dump(failed, open(sys.argv[2], "w"))
"""
_IMPORT = """
import json, sys
seen = set()
sys.setprofile(lambda frame, event, _: seen.add((frame.f_code.co_filename, frame.f_code.co_qualname)))
from tests.benchmarks.forked_runs import ForkedRuns
ForkedRuns({})
sys.setprofile(None)
json.dump(sorted(seen), open(sys.argv[2], "w"))
"""


class OneFile(SourceChange):
    """A change of one file of torch."""

    def __init__(self, path: str, old: bytes, new: bytes) -> None:
        super().__init__(folder=Path(), base="base", head="head", words="", files=(path,))
        object.__setattr__(self, "texts", {self.base: old, self.head: new})

    def python_files(self, tree: str, below: str = "") -> dict[str, bytes]:  # noqa: ARG002  # it has one
        return {self.files[0]: self.__dict__["texts"][tree]}


class Bench:
    def __init__(self, run: Path, scratch: Path) -> None:
        catalog = {test.id: test for test in read_catalog(run / "catalog.jsonl.gz").tests}
        self.op_map = read_op_map(run / "opmap.json.gz")
        self.tests = [catalog[name] for name in read_selection(run / "selection.json").ids]
        self.scratch = scratch
        self.torch = Path(str(find_spec("torch").origin)).parent  # type: ignore[union-attr]  # it is installed
        called = {op for op in self.op_map.ops if is_function(op)}
        # What no test calls and no import runs has no fault that a run could find.
        at_import = {
            f"{Path(file).relative_to(self.torch.parent)}:{name.partition('.<locals>')[0]}"
            for file, name in self._child(_IMPORT, None) or ()
            if file.startswith(f"{self.torch}/")
        }
        self.reached = called | at_import
        files = {one.partition(":")[0] for one in called}
        self.sources = {path: (self.torch.parent / path).read_bytes() for path in files}
        began = time.monotonic()
        self.before = self.run(None)
        self.run_s = time.monotonic() - began
        self.tests = [test for test in self.tests if test.id not in self.before]

    def run(self, fault: Fault | None) -> set[str]:
        """The tests that fail; all of them where none can start."""
        failed = self._child(_RUN, fault)
        return {test.id for test in self.tests} if failed is None else set(failed)

    def _child(self, program: str, fault: Fault | None) -> list[Any] | None:
        """What a program writes that has torch with a fault; None where it does not get so far."""
        nodes = {test.id: test.node for test in self.tests}
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            top = Path(folder)
            (top / "nodes.json").write_text(json.dumps(nodes))
            if fault is not None:
                link_all_but(self.torch.parent, top, Path(fault.file))
                (top / fault.file).write_text(fault.text, encoding="utf-8")
            environ = {**os.environ, "PYTHONPATH": f"{top}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
            words = [sys.executable, "-c", program, str(top / "nodes.json"), str(top / "said.json")]
            finish_command(words, timeout_s=RUN_S, env=environ, cwd=top)
            try:
                said: list[Any] = json.loads((top / "said.json").read_text())
            except (OSError, ValueError):
                return None
            return said

    def sample(self, number: int, seed: int) -> list[Fault]:
        """Faults of functions that run."""
        every: list[Fault] = []
        for file, text in sorted(self.sources.items()):
            places = {
                line for name, lines in functions(text) if f"{file}:{name}" in self.reached for line in lines
            }
            every += [one for one in faults_of(file, text) if one.start[0] in places]
        random.Random(seed).shuffle(every)
        return every[:number]

    def run_all(self, faults: Sequence[Fault], log: Path) -> list[frozenset[str]]:
        """The tests that fail with each fault; runs go on side by side, and the log has them in turn."""
        known = read_log(log)
        with ThreadPoolExecutor(WORKERS) as pool:
            runs = {one.name: pool.submit(self.run, one) for one in faults if one.name not in known}
            try:
                return fault_table.run_all(
                    faults, lambda fault: runs[fault.name].result(), log, run_s=self.run_s / WORKERS
                )
            finally:
                pool.shutdown(cancel_futures=True)

    def row(self, fault: Fault, failed: frozenset[str]) -> fault_table.Row:
        change = OneFile(fault.file, self.sources[fault.file], fault.text.encode())
        evidence = find_evidence(change, self.op_map, tests="", test_files=(), docs=())
        ranked = rank_tests(self.tests, evidence, self.op_map)
        return fault_table.row(ranked, failed, sorted(evidence.functions))


def functions(text: bytes) -> Iterator[tuple[str, range]]:
    """The functions and methods of a module, each with its lines."""
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        start = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in inner:
            if isinstance(one, ast.FunctionDef):
                yield start + one.name, range(one.lineno, (one.end_lineno or one.lineno) + 1)


def link_all_but(top: Path, target: Path, path: Path) -> None:
    """Links to all that is beside a file in each folder on the way to it."""
    for folder in list(path.parents)[-2::-1]:
        (target / folder).mkdir(exist_ok=True)
        for entry in (top / folder).iterdir():
            if not path.is_relative_to(folder / entry.name) and entry.name != "__pycache__":
                (target / folder / entry.name).symlink_to(entry)


def main() -> None:
    given = fault_table.read_options(__doc__, faults=150, log="python.jsonl")
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(given.run, Path(scratch))
        faults = bench.sample(given.faults, given.seed)
        print(f"{len(bench.before)} tests fail without a fault and are left out; {len(bench.tests)} stay")
        runs = bench.run_all(faults, given.log)
        # A fault that no test starts with is found by any choice.
        told = [(fault, ids) for fault, ids in zip(faults, runs, strict=True) if len(ids) < len(bench.tests)]
        found = [bench.row(fault, failed) if failed else fault_table.SURVIVED for fault, failed in told]
    print(f"with {len(faults) - len(told)} faults no test passes: they are left out")
    once = sum(any(key.endswith(WHOLE_FILE) for key in one.ops) for one in found if one.measured.failed)
    print(f"in code that runs once a process: {once}")
    for line in fault_table.lines(found, [fault for fault, _ in told], len(bench.tests)):
        print(line)


if __name__ == "__main__":
    main()
