"""Looking ahead: a plan run on paper, and what more cards would bring. Nothing here needs a card."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.config.stage_model import Stage
from ci.core.errors import UsageError
from ci.report.charts import Line, Stretch, as_page, line_chart, time_bars
from ci.steps.ladder import InScope, Places
from test_selection.bound import longest_test, lower_bound
from test_selection.catalog import CatalogTest
from test_selection.durations import Durations, estimate_files, estimate_tests
from test_selection.files import write_text
from test_selection.forecast import Point, cards_within, curve, doublings, stops_paying
from test_selection.loads import FileLoad, file_loads
from test_selection.lock import members
from test_selection.pack import make_plan
from test_selection.plan import Plan
from test_selection.scope import apply_scope
from test_selection.simulate import Mode, Outcome, simulate
from test_selection.world import World

MOST_CARDS = 4096
SHOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """A way to run, and what became of the plan on each drawn day."""

    mode: Mode
    outcomes: tuple[Outcome, ...]

    def makespan(self, share: float) -> float:
        """The makespan that this share of the days did not exceed, in seconds."""
        return quantile([one.makespan_s for one in self.outcomes], share)

    def ratio(self, share: float) -> float:
        """The same for makespan over that day's bound."""
        return quantile([one.ratio for one in self.outcomes], share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """One stage: its curve, its own cards, and where more stop paying.

    `within` is the number of cards a wanted makespan takes, verified by a plan of `within_s` seconds, and
    `refusal` says why there is none.
    """

    label: str
    tests: int
    cards: int | None
    points: tuple[Point, ...]
    longest_s: float
    stops: int
    within: int | None = None
    within_s: float | None = None
    refusal: str | None = None

    def at(self, cards: int) -> Point:
        """The point of so many cards."""
        return next(one for one in self.points if one.cards == cards)


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that a share of all values do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def simulate_step(
    plan: Plan, durations: Durations, world: World, ways: Sequence[Mode], *, seed: int, draws: int
) -> list[Days]:
    """Run a plan on paper on `draws` days, each in every way."""
    days = [
        simulate(
            plan,
            test_s=durations.tests,
            file_s=durations.files,
            world=world,
            randomness=random.Random(f"{seed}-{number}"),  # noqa: S311  # a seeded draw, not a secret
            ways=ways,
        )
        for number in range(draws)
    ]
    return [Days(mode=mode, outcomes=tuple(day[number] for day in days)) for number, mode in enumerate(ways)]


def draw_days(out: Path, days: Sequence[Days], shards: int) -> None:
    """Draw the first day of each way: what each shard's worker did when; at most 64, evenly picked."""
    picked = [shards * row // min(shards, SHOWN) for row in range(min(shards, SHOWN))]
    rows = {card: row for row, card in enumerate(picked)}
    charts = []
    end = max((one.outcomes[0].makespan_s for one in days), default=0.0)
    for one in days:
        stretches = []
        for segment in one.outcomes[0].segments:
            if (row := rows.get(segment.card)) is not None:
                kind = "tests" if segment.card == segment.shard else "stolen"
                stretches.append(
                    Stretch(row=row, begin=segment.starts_at, end=segment.ready_at, kind="setup")
                )
                stretches.append(Stretch(row=row, begin=segment.ready_at, end=segment.ends_at, kind=kind))
        ratio = one.outcomes[0].ratio
        title = f"{one.mode.name}: {one.outcomes[0].makespan_s:.1f} s, {ratio:.2f} times the bound"
        title += f" ({len(rows)} of {shards:,} shards)" if len(rows) < shards else ""
        charts.append(time_bars(title, stretches, rows=[f"shard {card}" for card in picked], end=end))
    write_charts(out, "A plan on paper", charts)


def write_charts(out: Path, title: str, charts: Sequence[str]) -> None:
    """Write charts to an `.html` page, or a single one to an `.svg`; several become `.svg` files in a row.

    Raises:
        UsageError: the name ends in neither.
    """
    check_out(out)
    if out.suffix == ".html":
        write_text(out, as_page(title, charts))
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


def stage_tests(what: InScope, places: Places, row: Stage) -> list[CatalogTest]:
    """The tests of a row of the roll-out: those in scope that the ladder has below its share."""
    inside = apply_scope(what.catalog, what.rules).in_scope
    return members(inside, places.lock, percent=row.percent, by=row.by, must_run=what.must_run)


def forecast_step(
    what: InScope,
    places: Places,
    stages: Mapping[int, Stage],
    *,
    ids: Sequence[str] | None = None,
    within_s: float | None = None,
) -> list[Prospect]:
    """The prospects of each stage above 0 %, or of `ids` alone."""
    catalog, durations = what.catalog, what.durations
    file_s = estimate_files(catalog, durations)
    if ids is not None:
        wanted = set(ids)
        chosen: list[tuple[str, int | None, list[CatalogTest]]] = [
            ("selection", None, [test for test in catalog.tests if test.id in wanted])
        ]
    else:
        chosen = [
            (f"stage {number}: {row.percent:g} %", row.cards, stage_tests(what, places, row))
            for number, row in sorted(stages.items())
            if row.percent > 0
        ]
    return [
        _prospect(
            label=label,
            cards=cards,
            tests=tests,
            test_s=estimate_tests(tests, durations, among=catalog.tests),
            file_s=file_s,
            within_s=within_s,
        )
        for label, cards, tests in chosen
    ]


def _prospect(
    *,
    label: str,
    cards: int | None,
    tests: Sequence[CatalogTest],
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    within_s: float | None,
) -> Prospect:
    loads = file_loads(tests, test_s, file_s)
    counts = {*doublings(MOST_CARDS), *([cards] if cards else [])}
    within: int | None = None
    planned_s: float | None = None
    refusal: str | None = None
    if within_s is not None:
        try:
            within, planned_s = _planned_within(loads, tests, test_s, file_s, within_s)
        except UsageError as error:
            refusal = error.what
    return Prospect(
        label=label,
        tests=len(tests),
        cards=cards,
        points=tuple(curve(loads, sorted(counts))),
        longest_s=longest_test(loads),
        stops=stops_paying(loads, MOST_CARDS),
        within=within,
        within_s=planned_s,
        refusal=refusal,
    )


def _planned_within(
    loads: Sequence[FileLoad],
    tests: Sequence[CatalogTest],
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    within_s: float,
) -> tuple[int, float]:
    """The cards the bound asks for, and as many more as it takes until a plan keeps what it promises."""
    count = cards_within(loads, within_s, MOST_CARDS)
    while True:
        plan = make_plan(tests, test_s=test_s, file_s=file_s, shards=count)
        if plan.makespan_s <= within_s:
            return count, plan.makespan_s
        if count >= MOST_CARDS:
            raise UsageError(
                f"{MOST_CARDS:,} cards end after {plan.makespan_s:.1f} s, not within {within_s:g} s "
                f"(bound {lower_bound(loads, MOST_CARDS):.1f} s)",
                remedy="ask for more seconds or a smaller stage",
            )
        count = min(count + max(1, count // 100), MOST_CARDS)


def draw_forecast(out: Path, prospects: Sequence[Prospect]) -> None:
    """Draw makespan against cards, a line a stage, with the stage's own cards marked."""
    lines = [
        Line(
            label=one.label,
            points=tuple((float(point.cards), point.bound_s) for point in one.points),
            mark=None if one.cards is None else float(one.cards),
        )
        for one in prospects
        if one.tests
    ]
    chart = line_chart(
        "Makespan against cards",
        lines,
        x_label="cards",
        y_label="makespan, at the least",
        mark_label="the stage's own cards",
    )
    write_charts(out, "Forecast", [chart])
