"""`nox -s bench`: planner and runner beside other tools', the HUD beside its databases, a job of pods."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.benchmarks import (
    bench_changes,
    bench_compare,
    bench_hud_pages,
    bench_hud_rows,
    bench_jobs,
    bench_planner,
    bench_runner,
    bench_trivial,
    inputs,
)

PARTS = ("planner", "hud", "jobs", "compare", "changes", "trivial", "journal", "runner")
# These want neither torch nor pytest's helpers.
ALONE = {"planner", "hud", "jobs", "compare"}
FULL, QUICK = (100, 1_000), (4, 25)
QUICK_FILES = 3


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Every measurement that was asked for, by its name, and what was skipped with the reason."""
    wanted = {part for part in PARTS if part in (options.only or PARTS)}
    found: dict[str, Any] = {"skipped": []}
    if "planner" in wanted:
        found["planner"] = bench_planner.run(options)
    if "hud" in wanted:
        found |= _hud(options, found["skipped"])
    if "jobs" in wanted:
        found["jobs"] = bench_jobs.measure(*((64, 6_000) if options.quick else (2_048, 200_000)))
    if "compare" in wanted:
        found["compare"] = bench_compare.measure(5_000 if options.quick else 200_000)
    if wanted <= ALONE:
        return found
    if reason := _missing("torch", "xdist"):
        found["skipped"] += [f"{part}: {reason}" for part in PARTS if part in wanted - ALONE]
        return found
    return found | _with_torch(options, wanted, found["skipped"])


def _with_torch(options: argparse.Namespace, wanted: set[str], skipped: list[str]) -> dict[str, Any]:
    """What runs tests."""
    found: dict[str, Any] = {}
    if "changes" in wanted:
        tests, percent = (5_000, 1) if options.quick else (200_000, 50)
        found["changes"] = bench_changes.measure(tests=tests, percent=percent, rounds=options.rounds)
    if "trivial" in wanted:
        files, tests = QUICK if options.quick else FULL
        found["trivial"] = bench_trivial.measure(files=files, tests=tests, rounds=options.rounds)
    tree = os.environ.get("PYTORCH_TREE", "")
    if both := wanted & {"journal", "runner"}:
        if tree:
            # Importing files is most of what a round takes.
            usual = bench_runner.FILES[: QUICK_FILES if options.quick else None]
            found["runner"] = bench_runner.measure(
                Path(tree).resolve(),
                rounds=options.rounds,
                percent=options.percent,
                files=options.files.split(",") if options.files else usual,
                walls="runner" in both,
                journal="journal" in both,
            )
        else:
            skipped += [f"{part}: PYTORCH_TREE names no PyTorch tree" for part in sorted(both)]
    return found


def _hud(options: argparse.Namespace, skipped: list[str]) -> dict[str, Any]:
    """Rows and pages of the HUD, where its databases are here."""
    if reason := _missing("chdb", "clickhouse_connect"):
        skipped.append(f"hud: {reason}")
        return {}
    rows, of_run, requests = (20_000, 200, 2) if options.quick else (1_000_000, 200_000, 50)
    return {
        "hud": bench_hud_rows.measure(rows=rows, rounds=options.rounds),
        "pages": bench_hud_pages.measure(tests=rows, tests_of_run=of_run, rounds=requests),
    }


def _missing(*names: str) -> str:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} cannot be imported" if missing else ""


def show(found: dict[str, Any]) -> None:
    """The document as tables."""
    for reason in found["skipped"]:
        print(f"skipped: {reason}")
    modules = {
        "planner": bench_planner,
        "hud": bench_hud_rows,
        "pages": bench_hud_pages,
        "jobs": bench_jobs,
        "compare": bench_compare,
        "changes": bench_changes,
        "trivial": bench_trivial,
        "runner": bench_runner,
    }
    for part, module in modules.items():
        if part in found:
            module.show(found[part])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this; may be repeated")
    parser.add_argument("--quick", action="store_true", help="small inputs, to see that it works")
    parser.add_argument("--rounds", type=int, default=3, help="how often the runner and pytest take turns")
    parser.add_argument("--percent", type=float, default=5.0, help="how much of the PyTorch tree's files")
    parser.add_argument("--files", help="these files of it")
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
