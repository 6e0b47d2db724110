"""Make a training set of JSON Lines: merge, take fields, shuffle, keep a test share apart, cut into chunks.

    python data.py --out dataset --field text --seed 7 --test-share 0.1 --chunk 1000 INPUT...

An input is a `.jsonl` file or a folder of them. The same inputs and seed make the same files:
`train-00000.jsonl` and so on, `test.jsonl`, and `dataset.json` with what they were made of. With `--to` they
are put into a bucket, whose keys are in the environment.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the training set that the command line asks for."""
    parser = argparse.ArgumentParser(description="Make a training set of JSON Lines files.")
    parser.add_argument("inputs", nargs="+", type=Path, help="files or folders of them")
    parser.add_argument("--out", required=True, type=Path, help="folder to make")
    parser.add_argument("--to", metavar="s3://BUCKET/PREFIX", help="bucket that takes it, too")
    parser.add_argument("--field", action="append", required=True, help="of each sample; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--test-share", type=float, default=0.1, help="of the samples, not trained on")
    parser.add_argument("--chunk", type=int, default=1000, help="samples in a file")
    asked = parser.parse_args(arguments)
    samples = list(dict.fromkeys(read(asked.inputs, asked.field)))
    # Sorted first: the order does not depend on which file a sample was in.
    samples.sort()
    random.Random(asked.seed).shuffle(samples)  # noqa: S311  # an order is no secret
    tests = max(1, round(len(samples) * asked.test_share))
    if len(samples) <= tests or asked.chunk < 1:
        print(f"{len(samples)} samples leave none to train on", file=sys.stderr)
        return 2
    asked.out.mkdir(parents=True, exist_ok=True)
    write(asked.out / "test.jsonl", samples[:tests])
    rest = iter(samples[tests:])
    chunks = 0
    while chunk := list(itertools.islice(rest, asked.chunk)):
        write(asked.out / f"train-{chunks:05}.jsonl", chunk)
        chunks += 1
    counts = {"train": len(samples) - tests, "test": tests, "chunks": chunks}
    made = {"seed": asked.seed, "fields": asked.field, **counts}
    write(asked.out / "dataset.json", [json.dumps(made)])
    print(json.dumps(made), flush=True)
    if asked.to is not None:
        return subprocess.run(["spyre-ci", "job", "put", asked.out, asked.to], check=False).returncode
    return 0


def read(inputs: Sequence[Path], fields: Sequence[str]) -> Iterator[str]:
    """Read the wanted fields of every sample that has them all, as JSON."""
    for path in inputs:
        for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
            with file.open(encoding="utf-8") as lines:
                for line in lines:
                    sample = json.loads(line)
                    if all(sample.get(field) for field in fields):
                        yield json.dumps({field: sample[field] for field in fields})


def write(path: Path, lines: Sequence[str]) -> None:
    """Write lines to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
