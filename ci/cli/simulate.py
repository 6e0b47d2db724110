"""The verbs that look ahead: simulate a plan on paper, forecast what more cards bring."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from ci.cli import options
from ci.config import completing
from ci.core.errors import UsageError
from ci.core.text import span
from ci.steps.collecting import noted_source
from ci.steps.folder import RunFolder, find_plan
from ci.steps.forecasting import (
    Days,
    Prospect,
    check_out,
    draw_days,
    draw_forecast,
    forecast_step,
    simulate_step,
)
from ci.steps.ladder import find_lock
from ci.steps.past_durations import past_durations
from ci.steps.selecting import in_scope
from test_selection.catalog import read_catalog
from test_selection.durations import read_durations
from test_selection.files import document_text
from test_selection.plan import read_plan
from test_selection.selection import read_selection
from test_selection.simulate import modes
from test_selection.world import World

MOST_SIGMA = 3.0
MOST_DRAWS = 1000
DAY_S = 24 * 3600.0
In = Annotated[Path | None, typer.Option(help="File to read; default: the run folder's.")]
Out = Annotated[Path | None, typer.Option("--out", help="Drawing to write: .svg or .html.")]


def simulate(
    ctx: typer.Context,
    named: Annotated[
        str, typer.Argument(metavar="PLAN|RUN", help="plan.json, or a run.", autocompletion=completing.runs)
    ] = "latest",
    durations: In = None,
    sigma_file: Annotated[float, typer.Option(help="Sigma of a file's lognormal error.")] = 0.3,
    sigma_test: Annotated[float, typer.Option(help="Sigma of a test's own lognormal error.")] = 0.0,
    speed_sigma: Annotated[float, typer.Option(help="Sigma of the cards' lognormal speeds.")] = 0.1,
    crash_rate: Annotated[float, typer.Option(help="Share of the tests that end their process.")] = 0.0,
    dead_cards: Annotated[int, typer.Option(help="Cards that die on the way.")] = 0,
    startup: Annotated[float, typer.Option(help="Mean seconds until a card has started.")] = 0.0,
    hosts_of: Annotated[int, typer.Option(help="Cards a host.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the draws; the same seed, the same days.")] = 0,
    draws: Annotated[int, typer.Option(help="Days drawn, 1 to 1,000.")] = 5,
    out: Out = None,
    json_output: options.Json = False,
) -> None:
    """Run a plan on paper: estimates that are off, slow, crashing and dying cards; static and stolen.

    Example: spyre-ci simulate runs/nightly --sigma-file 0.3 --dead-cards 2
    """
    _check("--sigma-file", sigma_file, MOST_SIGMA)
    _check("--sigma-test", sigma_test, MOST_SIGMA)
    _check("--speed-sigma", speed_sigma, MOST_SIGMA)
    _check("--crash-rate", crash_rate, 1.0)
    _check("--startup", startup, DAY_S)
    _check("--dead-cards", dead_cards, 4096)
    _check("--hosts-of", hosts_of, 4096, least=1)
    _check("--draws", draws, MOST_DRAWS, least=1)
    check_out(out)
    context = options.make_context(ctx, {}, json_output=json_output)
    plan_file = find_plan(context.runs, named)
    plan = read_plan(plan_file)
    seconds = read_durations(durations or RunFolder(path=plan_file.parent).durations)
    world = World(
        sigma_file=sigma_file,
        sigma_test=sigma_test,
        sigma_speed=speed_sigma,
        crash_rate=crash_rate,
        dead_cards=dead_cards,
        startup_s=startup,
    )
    days = simulate_step(plan, seconds, world, modes(hosts_of), seed=seed, draws=draws)
    if out is not None:
        draw_days(out, days, len(plan.shards))
        context.say(f"drawn: {out}")
    if json_output:
        content = {"plan": str(plan_file), "draws": draws, "ways": [_way(one) for one in days]}
        typer.echo(document_text("simulate", content))
    else:
        context.console.print(_days_table(days))


def forecast(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: In = None,
    selection: In = None,
    durations: In = None,
    within: Annotated[
        float | None, typer.Option(help="Seconds of a wanted makespan: how many cards does it take?")
    ] = None,
    out: Out = None,
    json_output: options.Json = False,
) -> None:
    """Draw makespan against cards for each stage: where more cards stop paying, and what binds.

    Example: spyre-ci forecast --run-dir runs/nightly --within 600 --out forecast.svg
    """
    if within is not None and not 0 < within <= 7 * DAY_S:
        raise UsageError(f"--within is {within:g}", remedy="give seconds above 0, a week at most")
    check_out(out)
    context = options.make_context(ctx, {}, json_output=json_output)
    folder = options.run_folder(run_dir, catalog, selection)
    collected = read_catalog(catalog or folder.catalog)
    if durations is None and folder.durations.is_file():
        durations = folder.durations
    noted = noted_source(context, folder)
    seconds = read_durations(durations) if durations else past_durations(context, collected.device)
    what = in_scope(context, collected, noted, seconds)
    prospects = forecast_step(
        what,
        find_lock(context, what),
        context.settings.model.stages,
        ids=None if selection is None else read_selection(selection).ids,
        within_s=within,
    )
    if out is not None:
        draw_forecast(out, prospects)
        context.say(f"drawn: {out}")
    if json_output:
        typer.echo(document_text("forecast", {"stages": [_stage(one) for one in prospects]}))
    else:
        context.console.print(_forecast_table(prospects, within))
        for one in prospects:
            if one.refusal:
                context.say(f"{one.label}: {one.refusal}")


def _check(flag: str, value: float, most: float, *, least: float = 0) -> None:
    if not least <= value <= most:
        raise UsageError(f"{flag} is {value:g}", remedy=f"give a number from {least:g} to {most:g}")


def _way(one: Days) -> dict[str, Any]:
    return {
        "way": one.mode.name,
        "makespan_s": {"median": one.makespan(0.5), "p95": one.makespan(0.95)},
        "over_bound": {"median": _finite(one.ratio(0.5)), "p95": _finite(one.ratio(0.95))},
        "busy": _mean([day.busy for day in one.outcomes]),
        "not_run": max(len(day.not_run) for day in one.outcomes),
        "stolen": _mean([day.stolen for day in one.outcomes]),
    }


def _days_table(days: list[Days]) -> Table:
    table = Table("way", *(f"makespan {one}" for one in ("median", "p95")))
    for name in ("over bound", "p95", "busy", "not run"):
        table.add_column(name, justify="right")
    for one in days:
        way = _way(one)
        table.add_row(
            one.mode.name,
            span(one.makespan(0.5)),
            span(one.makespan(0.95)),
            _ratio(one.ratio(0.5)),
            _ratio(one.ratio(0.95)),
            f"{way['busy']:.0%}",
            f"{way['not_run']:,}",
        )
    return table


def _forecast_table(prospects: list[Prospect], within: float | None) -> Table:
    heads = ["stage", "tests", "cards", "makespan", "bound by", "longest test", "stops paying at cards"]
    if within is not None:
        heads.append(f"cards for {span(within)}")
    # Without rules between columns it fits a terminal of 80 columns.
    table = Table(*heads, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for one in prospects:
        point = one.at(one.cards) if one.cards else one.at(one.stops)
        cells = [
            one.label.removeprefix("stage "),
            f"{one.tests:,}",
            f"{point.cards:,}",
            span(point.bound_s),
            point.binds,
            span(one.longest_s),
            f"{one.stops:,}",
        ]
        if within is not None:
            cells.append("none" if one.within is None else f"{one.within:,}")
        table.add_row(*cells)
    return table


def _stage(one: Prospect) -> dict[str, Any]:
    return {
        "label": one.label,
        "tests": one.tests,
        "cards": one.cards,
        "longest_s": one.longest_s,
        "stops_paying_at": one.stops,
        "within_cards": one.within,
        "within_s": one.within_s,
        "refusal": one.refusal,
        "points": [{"cards": p.cards, "bound_s": p.bound_s, "binds": p.binds} for p in one.points],
    }


def _mean(values: list[float] | list[int]) -> float:
    return math.fsum(values) / len(values)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) and value > 0 else None


def _ratio(value: float) -> str:
    return f"{value:.3f}" if _finite(value) else "-"
