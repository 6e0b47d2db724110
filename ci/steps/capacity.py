"""The capacity of a cluster for the roll-out: rows of stages and of sizes in general, and cards needed."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.config.stage_model import Stage
from ci.core.errors import NothingToRunError
from ci.report.charts import Line, line_chart
from ci.runner.installed import installed_torch
from ci.runner.source import op_suite
from ci.steps.collecting import collect_step
from ci.steps.context import Context
from ci.steps.folder import CATALOG_FILE, RunFolder
from ci.steps.forecasting import write_charts
from ci.steps.ladder import InScope, Places
from ci.steps.share import share_of
from test_selection.capacity import DAY_S, Conditions, Work, paper_round
from test_selection.capacity_days import Capacity, Needed, capacity, needed
from test_selection.catalog import CatalogTest
from test_selection.durations import Source, estimate, estimate_files
from test_selection.forecast import doublings
from test_selection.loads import file_loads
from test_selection.lock import members
from test_selection.scope import apply_scope
from test_selection.world import Randomness

# The sizes of the roll-out, for whom they are the question.
SIZES = (24, 128, 512, 1024, 2048)
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is forecast: conditions, runs a day, the seed of the draws and how many days are drawn."""

    conditions: Conditions
    runs: tuple[float, ...]
    seed: int
    draws: int

    def randomness(self, number: int) -> Randomness:
        """The draws of a day."""
        return random.Random(f"{self.seed}-{number}")  # noqa: S311  # a seeded draw, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A share of the tests: what sizes carry of it, and what runs a day take.

    Attributes:
        label: of a stage of the roll-out, or all.
        tests: how many.
        work_s: card-seconds of the tests, without set-up.
        guessed: tests whose seconds nobody has measured anything like.
        cards: the stage's own; None for all.
        sizes: what so many cards carry.
        needs: how many cards each wanted number of runs a day takes.
        line: cards and seconds of a round on paper, for the chart.
    """

    label: str
    tests: int
    work_s: float
    guessed: int
    cards: int | None
    sizes: tuple[Capacity, ...]
    needs: tuple[Needed, ...]
    line: tuple[tuple[float, float], ...]


def op_suite_catalog(context: Context, folder: Path) -> RunFolder:
    """A folder with the catalog of the embedded op suite, collected now: for who has no run yet.

    Raises:
        DeviceError: torch is not installed.
        SpyreCiError: of `collect_step`.
    """
    torch = installed_torch()
    source = op_suite(torch.git_sha or torch.version)
    share = share_of(context, stage=None, percent=100, files=["test_op_suite.py"], keyword=None, ids=())
    found = RunFolder(path=folder)
    collect_step(context, source, share, found)
    return found


def latest_catalog(runs: Path) -> RunFolder | None:
    """The run folder whose catalog is the newest; None where there is none."""
    catalogs = sorted(runs.glob(f"*/{CATALOG_FILE}"), key=lambda path: path.stat().st_mtime_ns)
    return RunFolder(path=catalogs[-1].parent) if catalogs else None


def outlooks(what: InScope, places: Places, stages: Mapping[int, Stage], asked: Asked) -> list[Outlook]:
    """What the roll-out's rows and the sizes in general carry.

    Raises:
        NothingToRunError: nothing is in scope.
    """
    inside = apply_scope(what.catalog, what.rules).in_scope
    if not inside:
        raise NothingToRunError("nothing is in scope", remedy="check `scope` in the settings and the catalog")
    # Over all of them at once: what a test is like does not depend on the share it is in.
    seconds = estimate(inside, what.durations, among=what.catalog.tests)
    file_s = estimate_files(what.catalog, what.durations)

    def outlook(label: str, tests: Sequence[CatalogTest], sizes: Sequence[int], own: int | None) -> Outlook:
        test_s = {test.id: seconds[test.id].seconds for test in tests}
        loads = file_loads(tests, test_s, file_s)
        work = Work(tests=tests, test_s=test_s, file_s=file_s, loads=loads)
        guessed = sum(seconds[test.id].source is Source.GUESS for test in tests)
        return _outlook(label, work, guessed, asked, sizes=sizes, own=own)

    found: list[Outlook] = []
    known: dict[tuple[float, str, int], Outlook] = {}
    for number, row in sorted(stages.items()):
        label = f"stage {number}: {row.percent:g} %"
        key = (row.percent, row.by, row.cards)
        if key not in known:
            share = (
                members(inside, places.lock, percent=row.percent, by=row.by, must_run=what.must_run)
                if row.percent > 0
                else []
            )
            known[key] = outlook(label, share, (row.cards,), row.cards)
        found.append(replace(known[key], label=label))
    return [*found, outlook(ALL, inside, SIZES, None)]


def _outlook(
    label: str, work: Work, guessed: int, asked: Asked, *, sizes: Sequence[int], own: int | None
) -> Outlook:
    conditions = asked.conditions

    @functools.cache
    def at(cards: int) -> Capacity:
        return capacity(work, cards, conditions, draws=asked.draws, randomness=asked.randomness)

    def at_up(up: int) -> Capacity:
        return at(conditions.owned(up))

    return Outlook(
        label=label,
        tests=len(work.tests),
        work_s=work.total_s,
        guessed=guessed,
        cards=own,
        sizes=tuple(map(at, sizes)) if work.tests else (),
        needs=tuple(needed(work, runs, conditions, at=at_up) for runs in asked.runs) if work.tests else (),
        line=tuple(
            (float(cards), paper_round(work.loads, cards, conditions)) for cards in doublings(max(SIZES))
        )
        if work.tests
        else (),
    )


def draw_outlooks(out: Path, found: Sequence[Outlook], asked: Asked) -> None:
    """Draw the round against cards: on paper for each share, as drawn for sizes, and what is wanted."""
    lines = [
        Line(label=one.label, points=one.line, mark=None if one.cards is None else float(one.cards))
        for one in found
        if one.line
    ]
    whole = found[-1]
    lines.append(
        Line(
            label=f"{ALL}, nine days of ten",
            points=tuple((float(size.cards), size.round_s(0.9)) for size in whole.sizes),
        )
    )
    lines += [
        Line(label=f"{runs:g} runs a day", points=((1.0, DAY_S / runs), (float(max(SIZES)), DAY_S / runs)))
        for runs in asked.runs
    ]
    chart = line_chart(
        "From submission to report, against cards",
        lines,
        x_label="cards",
        y_label="from submission to report",
        mark_label="the stage's own cards",
    )
    write_charts(out, "Capacity", [chart])
