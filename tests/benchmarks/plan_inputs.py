"""Write a catalog, a selection and durations of made-up tests, to time `spyre-ci plan` on.

Usage: python tests/benchmarks/plan_inputs.py FOLDER --tests 200000 --files 1200 --setup 5 --seed 1
Files get tests by a Pareto share (alpha 1.1), tests log-normal seconds (mu -1.5, sigma 1.5); both seeded.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.durations import Durations, write_durations
from test_selection.selection import Selection, write_selection


def made_up(tests: int, files: int, seed: int) -> tuple[list[CatalogTest], dict[str, float]]:
    """Tests in no order of files, and the seconds of each by id."""
    rnd = random.Random(seed)  # made-up seconds, no secret
    shares = [rnd.paretovariate(1.1) for _ in range(files)]
    rows, seconds = [], {}
    for number, place in enumerate(rnd.choices(range(files), shares, k=tests)):
        file, template = f"test_{place:04}.py", f"test_{number:07}"
        name = f"{file}::TestX::{template}[dtype=float32,op=add]"
        rows.append(
            CatalogTest(
                id=name,
                node=f"{file}::TestXSPYRE::{template}_add_spyre_float32",
                file=file,
                cls="TestX",
                template=template,
                op="add",
                dtype="float32",
            )
        )
        seconds[name] = rnd.lognormvariate(-1.5, 1.5)
    return rows, seconds


def main() -> None:
    """Write `catalog.jsonl.gz`, `selection.json` and `durations.json` into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tests", type=int, default=200_000)
    parser.add_argument("--files", type=int, default=1_200)
    parser.add_argument("--setup", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    tests, seconds = made_up(wanted.tests, wanted.files, wanted.seed)
    files = sorted({test.file for test in tests})
    records = {file: FileRecord(collect_s=wanted.setup) for file in files}
    catalog = Catalog(pytorch="2.13.0", device="spyre", files=records, tests=tests)
    write_catalog(wanted.folder / "catalog.jsonl.gz", catalog)
    ids = [test.id for test in tests]
    write_selection(wanted.folder / "selection.json", Selection(stage=None, percent=100, ids=ids))
    setups = dict.fromkeys(files, wanted.setup)
    write_durations(wanted.folder / "durations.json", Durations(tests=seconds, files=setups))


if __name__ == "__main__":
    main()
