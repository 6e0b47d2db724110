"""Measure what a choice of tests by change catches: source gets a fault, and a full run is the truth."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ci.changes.mutants import Fault, faults_of
from ci.core.text import counted
from test_selection.change import EVIDENCE, RankedTests, keep_share
from test_selection.recall import Recall

BUDGETS = (EVIDENCE, "2%", "5%", "25%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What became of one fault.

    Attributes:
        failed: how many tests fail with it and did not before; 0: it survived, and says nothing.
        everything: True if any test may break by its change, so that all are chosen.
        caught: by budget, how many of the failing tests it keeps.
        shares: by budget, the share of tests that it keeps besides those that are always in, 0 to 1.
    """

    failed: int
    everything: bool
    caught: Mapping[str, int]
    shares: Mapping[str, float]


def sample_faults(sources: Mapping[str, bytes], *, number: int, seed: int) -> list[Fault]:
    """Draw faults from every one that the mutation operators make; the same for the same seed.

    Args:
        sources: by file, its content.
        number: how many.
        seed: of the draw.

    Raises:
        BadFileError: a file does not parse, or is not UTF-8.
    """
    every = [fault for file, content in sorted(sources.items()) for fault in faults_of(file, content)]
    Random(seed).shuffle(every)  # noqa: S311  # a sample is no secret
    return every[:number]


def weigh(ranked: RankedTests, failed: Collection[str]) -> Measured:
    """Compare what each budget keeps with what fails.

    Args:
        ranked: the order that its diff gives.
        failed: the tests that fail with it and did not before.
    """
    kept = {one: ranked.named if one == EVIDENCE else keep_share(ranked, float(one[:-1])) for one in BUDGETS}
    return Measured(
        failed=len(failed),
        everything=bool(ranked.everything),
        caught={one: len(set(ids).intersection(failed)) for one, ids in kept.items()},
        shares={one: len(set(ids) - ranked.always) / len(ranked.ids) for one, ids in kept.items()},
    )


def run_faults(
    faults: Sequence[Fault],
    run: Callable[[Fault], Collection[str]],
    log: Path,
    *,
    say: Callable[[str], None],
) -> list[frozenset[str]]:
    """Run every test with each fault in turn; a fault that the log has is not run again.

    Args:
        faults: to run with.
        run: puts a fault in, runs every test, and says which fail that did not before.
        log: takes a line a fault, so that a measurement that was ended goes on.
        say: told of the progress.

    Returns:
        By fault, the ids that fail.
    """
    known = read_log(log)
    left = [fault for fault in faults if fault.name not in known]
    with log.open("ab", buffering=0) as stream:
        if log.read_bytes()[-1:] not in {b"", b"\n"}:
            stream.write(b"\n")  # else the next row would be lost with the one that was cut off
        for done, fault in enumerate(left, len(faults) - len(left) + 1):
            known[fault.name] = frozenset(run(fault))
            row = {"fault": fault.name, "failed": sorted(known[fault.name])}
            stream.write(json.dumps(row).encode() + b"\n")
            say(f"{done} of {len(faults)}: {fault.name}: {counted(len(row['failed']), 'test')} failed")
    return [known[fault.name] for fault in faults]


def read_log(path: Path) -> dict[str, frozenset[str]]:
    """The runs of a log, by the fault's name; a line that is none, such as one cut off, counts as not run."""
    found = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            row = json.loads(line)
            found[row["fault"]] = frozenset(row["failed"])
    return found


def recall_of(measured: Iterable[Measured]) -> dict[str, Recall]:
    """What each budget caught of the faults that a full run found.

    Where any test may break, every budget's choice is all tests, which says nothing of choosing.
    """
    killed = [one for one in measured if one.failed and not one.everything]
    return {
        budget: Recall(
            faults=len(killed),
            caught=sum(one.caught[budget] > 0 for one in killed),
            median_share=statistics.median(one.shares[budget] for one in killed),
            mean_share=statistics.fmean(one.shares[budget] for one in killed),
        )
        for budget in BUDGETS
        if killed
    }
