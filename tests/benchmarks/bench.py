"""`nox -s bench`: the planner beside other tools', the runner beside pytest, and what its parts cost."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.benchmarks import bench_planner, bench_runner, bench_trivial, inputs

PARTS = ("planner", "trivial", "journal", "runner")
FULL, QUICK = (100, 1_000), (4, 25)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Every measurement that was asked for, by its name, and what was skipped with the reason."""
    wanted = {part for part in PARTS if part in (options.only or PARTS)}
    found: dict[str, Any] = {"skipped": []}
    if "planner" in wanted:
        found["planner"] = bench_planner.run(options)
    if wanted <= {"planner"}:
        return found
    if reason := _cannot_run():
        found["skipped"] += [f"{part}: {reason}" for part in PARTS if part in wanted - {"planner"}]
        return found
    if "trivial" in wanted:
        files, tests = QUICK if options.quick else FULL
        found["trivial"] = bench_trivial.measure(files=files, tests=tests, rounds=options.rounds)
    tree = os.environ.get("PYTORCH_TREE", "")
    if both := wanted & {"journal", "runner"}:
        if tree:
            found["runner"] = bench_runner.measure(
                Path(tree).resolve(),
                rounds=options.rounds,
                percent=options.percent,
                files=options.files.split(","),
                walls="runner" in both,
                journal="journal" in both,
            )
        else:
            found["skipped"] += [f"{part}: PYTORCH_TREE names no PyTorch tree" for part in sorted(both)]
    return found


def _cannot_run() -> str:
    missing = [name for name in ("torch", "xdist") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} cannot be imported" if missing else ""


def show(found: dict[str, Any]) -> None:
    """The document as tables."""
    for reason in found["skipped"]:
        print(f"skipped: {reason}")
    for part, module in (("planner", bench_planner), ("trivial", bench_trivial), ("runner", bench_runner)):
        if part in found:
            module.show(found[part])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this; may be repeated")
    parser.add_argument("--quick", action="store_true", help="small inputs, to see that it works")
    parser.add_argument("--rounds", type=int, default=3, help="how often the runner and pytest take turns")
    parser.add_argument("--percent", type=float, default=5.0, help="how much of the PyTorch tree's files")
    parser.add_argument("--files", default=",".join(bench_runner.FILES), help="these files of it")
    parser.add_argument("--class-seconds", help=f"PyTorch's class times; default: ${inputs.VARIABLE}")
    parser.add_argument("--draws", type=int, default=1, help="days drawn for each plan")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    found = run(options)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
