"""Measure what a choice of tests by change catches: source gets a fault, and a full run is the truth."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

from ci.changes.mutants import mutants
from ci.core.text import counted
from test_selection.change import EVIDENCE, RankedTests, keep_share
from test_selection.recall import Recall

BUDGETS = (EVIDENCE, "2%", "5%", "25%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of a source file.

    Attributes:
        file: that it is in, from the repository's top.
        line: of the fault.
        kind: of the mutation.
        text: the file with it.
    """

    file: str
    line: int
    kind: str
    text: str

    @property
    def name(self) -> str:
        """What tells it from all others of one source tree."""
        return f"{self.file}:{self.line} {self.kind} {sha256(self.text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What became of one fault.

    Attributes:
        failed: how many tests fail with it and did not before; 0: it survived, and says nothing.
        everything: True if the choice was every test.
        first: the place of the first failing test in the order, from 1.
        always: the share of tests that are in whatever changes, 0 to 1.
        caught: by budget, how many of the failing tests it keeps.
        shares: by budget, the share of tests that it keeps besides those, 0 to 1.
        ops: families that the change names.
    """

    failed: int
    everything: bool = False
    first: int = 0
    always: float = 0.0
    caught: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    ops: Sequence[str] = ()


def sample_faults(sources: Mapping[str, str], *, number: int, seed: int) -> list[Fault]:
    """Draw faults from every one that the mutation operators make; the same for the same seed.

    Args:
        sources: by file, its text.
        number: how many.
        seed: of the draw.
    """
    every = [(file, one) for file, text in sorted(sources.items()) for one in mutants(text)]
    Random(seed).shuffle(every)  # noqa: S311  # a sample is no secret
    return [
        Fault(file=file, line=one.start[0], kind=one.kind, text=one.put_into(sources[file]))
        for file, one in every[:number]
    ]


def weigh(ranked: RankedTests, failed: Collection[str], ops: Sequence[str]) -> Measured:
    """Compare what each budget keeps with what fails.

    Args:
        ranked: the order that its diff gives.
        failed: the tests that fail with it and did not before.
        ops: families that the diff names.
    """
    kept = {one: ranked.named if one == EVIDENCE else keep_share(ranked, float(one[:-1])) for one in BUDGETS}
    total = len(ranked.ids)
    return Measured(
        failed=len(failed),
        everything=bool(ranked.everything),
        first=next((place for place, name in enumerate(ranked.ids, 1) if name in failed), 0),
        always=len(ranked.always) / total,
        caught={one: len(set(names).intersection(failed)) for one, names in kept.items()},
        shares={one: len(set(names) - ranked.always) / total for one, names in kept.items()},
        ops=ops,
    )


def run_faults(
    faults: Sequence[Fault],
    run: Callable[[Fault], Collection[str]],
    log: Path,
    *,
    say: Callable[[str], None],
    workers: int = 1,
) -> list[frozenset[str]]:
    """Run every test with each fault in turn; a fault that the log has is not run again.

    Args:
        faults: to run with.
        run: puts a fault in, runs every test, and says which fail that did not before.
        log: takes a line a fault, so that a measurement that was ended goes on.
        say: told of the progress.
        workers: how many run at once.

    Returns:
        By fault, the ids that fail.
    """
    known = _read_log(log)
    left = [fault for fault in faults if fault.name not in known]
    with log.open("a", encoding="utf-8") as stream, ThreadPoolExecutor(workers) as pool:
        # A run that forks does so from this thread.
        runs = pool.map(run, left) if workers > 1 else map(run, left)
        for number, (fault, failed) in enumerate(zip(left, runs, strict=True), 1):
            known[fault.name] = frozenset(failed)
            stream.write(json.dumps({"fault": fault.name, "failed": sorted(failed)}) + "\n")
            stream.flush()
            done, count = len(faults) - len(left) + number, counted(len(failed), "test")
            say(f"{done} of {len(faults)}: {fault.name}: {count} failed")
    return [known[fault.name] for fault in faults]


def _read_log(path: Path) -> dict[str, frozenset[str]]:
    """The runs of a log; a last line that was cut off counts as not run."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            found[row["fault"]] = frozenset(row["failed"])
    return found


def recall_of(measured: Iterable[Measured]) -> dict[str, Recall]:
    """What each budget caught of the faults that a full run found."""
    killed = [one for one in measured if one.failed]
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
