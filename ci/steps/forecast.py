"""Looking ahead: what cards carry of each stage, and a run's own plan on paper. Nothing here needs a card."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.config.stage_model import Stage
from ci.core.errors import NothingToRunError, UsageError
from ci.report.charts import Line, Stretch, as_page, line_chart, time_bars
from ci.runner.environment_info import installed_torch
from ci.runner.source import op_suite
from ci.steps.collect import collect_step
from ci.steps.context import Context
from ci.steps.folder import CATALOG_FILE, RunFolder
from ci.steps.selection_lock import UsedLock
from ci.steps.share import ShareRequest, share_of
from test_selection.catalog import CatalogTest
from test_selection.durations import Durations
from test_selection.estimates import Source, estimate, estimate_files, quantile
from test_selection.files import write_text
from test_selection.forecast import (
    Conditions,
    Forecast,
    Needed,
    Work,
    doublings,
    forecast,
    needed,
    no_gain_beyond,
    paper_round,
)
from test_selection.loads import file_loads
from test_selection.lock import members
from test_selection.plan import Plan
from test_selection.scope import apply_scope
from test_selection.selection_order import By
from test_selection.simulate import Outcome, modes, simulate
from test_selection.simulated_day import Randomness, draw_truth
from test_selection.stage import InScope

# The sizes of the roll-out, for whom they are the question.
SIZES = (24, 128, 512, 1024, 2048)
ALL = "all"
SHOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is forecast.

    Attributes:
        conditions: of the cluster.
        rounds: wanted seconds from submission to report, by what they are called.
        seed: of the draws.
        draws: how many days are drawn.
    """

    conditions: Conditions
    rounds: Mapping[str, float]
    seed: int
    draws: int

    def randomness(self, number: int) -> Randomness:
        """The draws of a day."""
        return random.Random(f"{self.seed}-{number}")  # noqa: S311  # a seeded draw, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A share of the tests: what sizes carry of it, and the cards that wanted rounds take.

    Attributes:
        label: of a stage of the roll-out, a selection, or all.
        work: the tests and what they take.
        guessed: tests whose seconds nobody has measured anything like.
        cards: the stage's own; None for the others.
        sizes: what so many cards carry.
        needs: how many cards each wanted round takes.
        no_gain_beyond: cards from which twice as many bring less than a tenth.
        line: cards and seconds of a round on paper, for the chart.
    """

    label: str
    work: Work
    guessed: int
    cards: int | None
    sizes: tuple[Forecast, ...] = ()
    needs: tuple[Needed, ...] = ()
    no_gain_beyond: int = 1
    line: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """A way to run, and what became of the plan on each drawn day."""

    mode: str
    outcomes: tuple[Outcome, ...]

    def makespan(self, share: float) -> float:
        """The makespan that this share of the days did not exceed, in seconds."""
        return quantile([one.makespan_s for one in self.outcomes], share)

    def ratio(self, share: float) -> float:
        """The same for makespan over that day's bound."""
        return quantile([one.ratio for one in self.outcomes], share)


def op_suite_catalog(context: Context, folder: Path) -> RunFolder:
    """A folder with the catalog of the embedded op suite, collected now: for who has no run yet.

    Raises:
        DeviceError: torch is not installed.
        SpyreCiError: of `collect_step`.
    """
    torch = installed_torch()
    source = op_suite(torch.git_sha or torch.version)
    share = share_of(context, ShareRequest(percent=100, files=("test_op_suite.py",)))
    found = RunFolder(path=folder)
    collect_step(context, source, share, found)
    return found


def latest_catalog(runs: Path) -> RunFolder | None:
    """The run folder whose catalog is the newest; None where there is none."""
    catalogs = sorted(runs.glob(f"*/{CATALOG_FILE}"), key=lambda path: path.stat().st_mtime_ns)
    return RunFolder(path=catalogs[-1].parent) if catalogs else None


def outlooks(
    what: InScope,
    used: UsedLock,
    stages: Mapping[int, Stage],
    request: Request,
    *,
    ids: Sequence[str] | None = None,
) -> list[Outlook]:
    """What the roll-out's rows and the sizes in general carry; of `ids` alone where they are given.

    Raises:
        NothingToRunError: nothing is in scope.
    """
    inside = apply_scope(what.catalog, what.rules).in_scope
    if not inside:
        raise NothingToRunError("nothing is in scope", remedy="check `scope` in the settings and the catalog")
    past = what.durations or Durations()
    # Over all of them at once: what a test is like does not depend on the share it is in.
    seconds = estimate(what.catalog.tests, past, among=what.catalog.tests)
    file_s = estimate_files(what.catalog, past)

    def outlook(label: str, tests: Sequence[CatalogTest], sizes: Sequence[int], own: int | None) -> Outlook:
        test_s = {test.id: seconds[test.id].seconds for test in tests}
        work = Work(tests=tests, test_s=test_s, file_s=file_s, loads=file_loads(tests, test_s, file_s))
        guessed = sum(seconds[test.id].source is Source.GUESS for test in tests)
        one = Outlook(label=label, work=work, guessed=guessed, cards=own)
        return _forecast(one, request, sizes) if tests else one

    @functools.cache
    def of_stage(percent: float, by: By, cards: int) -> Outlook:
        tests: list[CatalogTest] = []
        if percent > 0:
            tests = members(inside, used.lock, percent=percent, by=by, must_run=what.must_run)
        return outlook("", tests, (cards,), cards)

    if ids is not None:
        wanted = set(ids)
        chosen = [test for test in what.catalog.tests if test.id in wanted]
        return [outlook("selection", chosen, SIZES, None)]
    found = [
        replace(of_stage(row.percent, row.by, row.cards), label=f"stage {number}: {row.percent:g} %")
        for number, row in sorted(stages.items())
    ]
    return [*found, outlook(ALL, inside, SIZES, None)]


def _forecast(one: Outlook, request: Request, sizes: Sequence[int]) -> Outlook:
    """The outlook with what cards carry of it."""
    work, conditions = one.work, request.conditions

    @functools.cache
    def at(cards: int) -> Forecast:
        return forecast(work, cards, conditions, draws=request.draws, randomness=request.randomness)

    def at_up(up: int) -> Forecast:
        return at(conditions.owned(up))

    return replace(
        one,
        sizes=tuple(map(at, sizes)),
        needs=tuple(needed(work, allowed, conditions, at=at_up) for allowed in request.rounds.values()),
        no_gain_beyond=no_gain_beyond(work.loads, max(SIZES)),
        line=tuple(
            (float(cards), paper_round(work.loads, cards, conditions)) for cards in doublings(max(SIZES))
        ),
    )


def plan_days(plan: Plan, durations: Durations, request: Request) -> list[Days]:
    """Run a plan on paper on drawn days: static, and with work stealing per host and among all cards."""
    conditions = request.conditions
    ways = modes(conditions.pod_cards or len(plan.shards))
    test_s, file_s = durations.tests, durations.files
    days = []
    for number in range(request.draws):
        truth = draw_truth(
            plan.file_of,
            len(plan.shards),
            test_s=test_s,
            file_s=file_s,
            off=conditions,
            randomness=request.randomness(number),
        )
        days.append(simulate(plan, truth, test_s=test_s, file_s=file_s, ways=ways.values()))
    return [Days(mode=name, outcomes=tuple(day[number] for day in days)) for number, name in enumerate(ways)]


def draw(out: Path, found: Sequence[Outlook], request: Request, days: Sequence[Days]) -> None:
    """Draw the round against cards, and the plan's first day in each way: an `.html` page or `.svg` files."""
    charts = [_curves(found, request), *(_day(one) for one in days)]
    if out.suffix == ".html":
        write_text(out, as_page("Forecast", charts))
        return
    for number, chart in enumerate(charts):
        write_text(out if number == 0 else out.with_stem(f"{out.stem}-{number + 1}"), chart)


def check_out(out: Path | None) -> None:
    """Refuse a drawing that is neither SVG nor HTML.

    Raises:
        UsageError: the name says something else.
    """
    if out is not None and out.suffix not in {".svg", ".html"}:
        raise UsageError(f"--out is {str(out)!r}", remedy="name a file that ends in .svg or .html")


def _curves(found: Sequence[Outlook], request: Request) -> str:
    """On paper for each share, as drawn for sizes, and what is wanted."""
    lines = [
        Line(label=one.label, points=one.line, mark=None if one.cards is None else float(one.cards))
        for one in found
        if one.line
    ]
    points = tuple((float(size.cards), size.round_s(0.9)) for size in found[-1].sizes)
    lines.append(Line(label=f"{found[-1].label}, nine days of ten", points=points))
    lines += [
        Line(label=name, points=((1.0, allowed), (float(max(SIZES)), allowed)))
        for name, allowed in request.rounds.items()
    ]
    return line_chart(
        "From submission to report, against cards",
        lines,
        x_label="cards",
        y_label="from submission to report",
        mark_label="the stage's own cards",
    )


def _day(days: Days) -> str:
    """What each shard's worker did on the first day; at most 64, evenly picked."""
    outcome = days.outcomes[0]
    shards = outcome.cards
    picked = [shards * row // min(shards, SHOWN) for row in range(min(shards, SHOWN))]
    rows = {card: row for row, card in enumerate(picked)}
    stretches = []
    for segment in outcome.segments:
        if (row := rows.get(segment.card)) is not None:
            kind = "tests" if segment.card == segment.shard else "stolen"
            stretches.append(Stretch(row=row, begin=segment.starts_at, end=segment.ready_at, kind="setup"))
            stretches.append(Stretch(row=row, begin=segment.ready_at, end=segment.ends_at, kind=kind))
    title = f"{days.mode}: {outcome.makespan_s:.1f} s, {outcome.ratio:.2f} times the bound"
    title += f" ({len(rows)} of {shards:,} shards)" if len(rows) < shards else ""
    return time_bars(title, stretches, rows=[f"shard {card}" for card in picked], end=outcome.makespan_s)
