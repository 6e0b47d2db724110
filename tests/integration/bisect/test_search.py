"""Searches over a real history of 64 commits, each try a process in a tree that Git wrote."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci.bisect.answers import Answer, Said
from ci.bisect.asking import Finding, Limits, finding
from ci.bisect.belief import Tally
from ci.bisect.commits import line_between
from ci.bisect.record import Record
from ci.bisect.search import Search
from ci.bisect.trees import Trees
from ci.core.process import finish_command
from tests.unit.bisect.hands import QUESTION

from .conftest import Maker, Project

_ASK = "import shout, sys; sys.exit(shout.shout('a') != 'A')"


@dataclass(kw_only=True)
class Asking:
    """Hands that ask the code of a tree in a process; what is broken fails at a rate."""

    project: Project
    trees: Trees
    rate: float = 1.0
    draw: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311  # no secret
    known: dict[int, bool] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ready(self, position: int) -> int:
        with self.lock:
            if position not in self.known:
                tree = self.trees.make(self.project.commits[position])
                ended = finish_command([sys.executable, "-S", "-c", _ASK], timeout_s=60, cwd=tree)
                self.known[position] = ended.code == 0
                self.trees.drop(tree)
        return position

    def attempt(self, made: int, position: int, tries: int) -> Sequence[Answer]:
        assert made == position
        with self.lock:
            failed = [not self.known[position] and self.draw.random() < self.rate for _ in range(tries)]
        return [Answer(said=Said.FAILED if one else Said.PASSED) for one in failed]

    def put_down(self) -> None:
        """All trees are dropped at once."""


def search(
    project: Project,
    work: Path,
    *,
    workers: int = 1,
    rate: float = 1.0,
    seed: int = 0,
    known: dict[int, bool] | None = None,
) -> tuple[Record, Finding]:
    trees = Trees(work, project.folder)
    commits = line_between(project.folder, project.commits[0], project.commits[-1]).commits
    record = Record(question=QUESTION, commits=commits)
    record.history = {0: Tally(passed=3), record.last: Tally(failed=3)}
    draw = random.Random(seed)  # noqa: S311  # no secret
    hands = Asking(project=project, trees=trees, rate=rate, draw=draw, known={} if known is None else known)
    Search(
        record=record, hands=hands, limits=Limits(), workers=workers, save=lambda _: None,
        told=lambda _: None, drawn=lambda _: None, clock=lambda: 0.0,
    ).run()  # fmt: skip
    trees.close()
    assert not work.exists()
    return record, finding(record.belief(), Limits())


@pytest.mark.parametrize(("workers", "most"), [(1, 7), (4, 3)])
@pytest.mark.parametrize("broken", [pytest.param(1, marks=pytest.mark.nightly), 40])
def test_the_planted_commit_is_found_in_the_fewest_rounds(
    made: Maker, tmp_path: Path, broken: int, workers: int, most: int
) -> None:
    record, found = search(made(broken=broken), tmp_path / "work", workers=workers)
    assert (found.kind, found.first, found.sure) == ("found", broken, True)
    assert len(record.rounds) <= most
    assert workers > 1 or record.steps <= most


@pytest.mark.nightly
def test_a_third_of_tries_failing_is_found_with_every_seed_of_twenty(made: Maker, tmp_path: Path) -> None:
    project, known = made(broken=23), dict[int, bool]()
    for seed in range(20):
        _, found = search(project, tmp_path / "work", rate=0.3, seed=seed, known=known)
        assert (found.kind, found.first) == ("found", 23), seed
        assert found.sure
        assert found.probability >= 0.99
    # They were asked of real trees.
    assert {position >= 23 for position, passed in known.items() if not passed} == {True}
