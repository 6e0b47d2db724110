"""`spyre-ci forecast`: runs a day that cards carry, the cards that runs take, and a run's plan on paper."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from ci.config import completing
from ci.core.errors import UsageError
from ci.core.text import counted, span
from ci.steps import options
from ci.steps.collect import noted_source
from ci.steps.context import Context
from ci.steps.folder import CATALOG_FILE, RunFolder, find_run
from ci.steps.forecast import (
    Days,
    Outlook,
    Request,
    check_out,
    draw,
    latest_catalog,
    op_suite_catalog,
    outlooks,
    plan_days,
)
from ci.steps.plan import past_durations
from ci.steps.select import in_scope
from ci.steps.selection_lock import find_lock
from test_selection.catalog import read_catalog
from test_selection.durations import Durations, read_durations
from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.files import document_text
from test_selection.forecast import DAY_S, Conditions, Forecast, Needed
from test_selection.plan import read_plan
from test_selection.selection import read_selection

MOST_RUNS = 1000
# Three to four a day is what the later stages want.
RUNS = (3.0, 4.0)


def forecast(
    ctx: typer.Context,
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run; default: this folder, else the newest with a catalog.",
            autocompletion=completing.runs,
        ),
    ] = None,
    catalog: options.In = None,
    selection: options.In = None,
    durations: options.In = None,
    startup: Annotated[float, typer.Option(help="Mean seconds until a pod has started.")] = 60,
    queue_wait: Annotated[float, typer.Option(help="Seconds a job waits until it is let in.")] = 0,
    report: Annotated[float, typer.Option(help="Seconds from the last test to the report.")] = 60,
    card_faults: Annotated[float, typer.Option(help="Faults of a card in an hour.")] = 0.0,
    repair: Annotated[float, typer.Option(help="Hours until a card that failed is back.")] = 24,
    pod_cards: Annotated[int, typer.Option(help="Cards of a pod; 0: all share (tests.share).")] = 8,
    runs_per_day: Annotated[
        list[float] | None, typer.Option(help="Runs a day to find cards for; may be given again.")
    ] = None,
    within: Annotated[
        float | None, typer.Option(help="Seconds from submission to report to find cards for.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the drawn days.")] = 0,
    draws: Annotated[int, typer.Option(help="Days drawn, 1 to 1,000.")] = 5,
    out: Annotated[Path | None, typer.Option("--out", help="Drawing to write: .svg or .html.")] = None,
    json_output: options.Json = False,
) -> None:
    """Forecast runs a day, cards needed, and how a plan fares with wrong estimates.

    Example: spyre-ci forecast latest --startup 90 --card-faults 0.0005 --within 3600
    """
    _check("--startup", startup, DAY_S)
    _check("--queue-wait", queue_wait, DAY_S)
    _check("--report", report, DAY_S)
    _check("--card-faults", card_faults, 60)
    _check("--repair", repair, 10_000)
    _check("--pod-cards", pod_cards, 64)
    _check("--draws", draws, 1000, least=1)
    _check("--within", 1 if within is None else within, 7 * DAY_S, least=0.01)
    for runs in runs_per_day or ():
        _check("--runs-per-day", runs, MOST_RUNS, least=0.01)
    check_out(out)
    context = options.make_context(ctx, {}, json_output=json_output)
    request = Request(
        conditions=Conditions(
            queue_s=queue_wait,
            startup_s=startup,
            report_s=report,
            faults_h=card_faults,
            repair_h=repair,
            pod_cards=pod_cards,
        ),
        rounds={f"{runs:g} runs a day": DAY_S / runs for runs in runs_per_day or RUNS}
        | ({} if within is None else {span(within): within}),
        seed=seed,
        draws=draws,
    )
    with tempfile.TemporaryDirectory(prefix="spyre-ci-forecast-") as scratch:
        folder = _folder(context, named, catalog, Path(scratch))
        if durations is None and folder.durations.is_file():
            durations = folder.durations
        seconds = None if durations is None else read_durations(durations)
        found = _outlooks(context, folder, catalog, selection, seconds, request)
        days = (
            plan_days(read_plan(folder.plan), seconds, request) if seconds and folder.plan.is_file() else []
        )
    if out is not None:
        draw(out, found, request, days)
        context.say(f"drawn: {out}")
    if json_output:
        typer.echo(document_text("forecast", _content(found, request, days)))
        return
    context.console.print(_sizes_table(found))
    context.console.print(_needs_table(found, request))
    if days:
        context.console.print(_days_table(days))
    for line in _remarks(found, request):
        context.say(line)


def _folder(context: Context, named: str | None, catalog: Path | None, scratch: Path) -> RunFolder:
    """The run folder that is named, or this one, or the newest with a catalog, or one of the op suite."""
    if named is not None:
        return find_run(context.runs, named, holding=CATALOG_FILE)
    if catalog is not None:
        return options.run_folder(context, None, catalog, holding=CATALOG_FILE)
    here = RunFolder(path=Path.cwd())
    latest = here if here.catalog.is_file() else latest_catalog(context.runs)
    if latest is not None:
        context.say(f"catalog of {latest.run}")
        return latest
    context.say("no run has a catalog yet: the embedded op suite is forecast instead")
    return op_suite_catalog(context, scratch)


def _outlooks(
    context: Context,
    folder: RunFolder,
    catalog: Path | None,
    selection: Path | None,
    seconds: Durations | None,
    request: Request,
) -> list[Outlook]:
    collected = read_catalog(catalog or folder.catalog)
    past = past_durations(context, collected.device) if seconds is None else seconds
    what = in_scope(context, collected, noted_source(context, folder), past)
    ids = None if selection is None else read_selection(selection).ids
    return outlooks(what, find_lock(context, what), context.settings.model.stages, request, ids=ids)


def _check(flag: str, value: float, most: float, *, least: float = 0) -> None:
    if not least <= value <= most:
        raise UsageError(f"{flag} is {value:g}", remedy=f"give a number from {least:g} to {most:,g}")


def _table(*heads: str) -> Table:
    # Without rules between columns it fits a terminal of 80 columns.
    return Table(*heads, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _sizes_table(found: list[Outlook]) -> Table:
    table = _table("share", "cards", "out", "busy", "makespan", "9 in 10", "a day", "9 in 10", "limited by")
    for one in found:
        label = one.label.removeprefix("stage ")
        if not one.sizes:
            table.add_row(label, f"{one.cards or 0:,}", *["-"] * 6, "nothing")
        for size in one.sizes:
            table.add_row(
                label,
                f"{size.cards:,}",
                f"{size.out:.1f}",
                f"{size.busy:,.0f}",
                span(size.makespan(0.5)),
                span(size.makespan(0.9)),
                _number(size.runs(0.5)),
                _number(size.runs(0.9)),
                size.limited_by,
            )
    return table


def _needs_table(found: list[Outlook], request: Request) -> Table:
    table = _table(
        "share", "tests", "longest test", "no gain beyond", *(f"cards for {name}" for name in request.rounds)
    )
    for one in found:
        if one.needs:
            table.add_row(
                one.label.removeprefix("stage "),
                f"{len(one.work.tests):,}",
                span(one.work.longest_s),
                f"{one.no_gain_beyond:,}",
                *map(_need_cell, one.needs),
            )
    return table


def _need_cell(one: Needed) -> str:
    if one.found is None:
        return "none"
    return f"{one.found.cards:,} ({span(one.found.round_s(0.9))})"


def _days_table(days: list[Days]) -> Table:
    table = _table("work stealing", "makespan", "9 in 10", "over bound", "busy", "not run", "stolen")
    for one in days:
        way = _way(one)
        ratio = one.ratio(0.5)
        table.add_row(
            one.mode,
            span(one.makespan(0.5)),
            span(one.makespan(0.9)),
            f"{ratio:.3f}" if _finite(ratio) else "-",
            f"{way['busy']:.0%}",
            f"{way['not_run']:,}",
            f"{way['stolen']:,.0f}",
        )
    return table


def _remarks(found: list[Outlook], request: Request) -> list[str]:
    """What the tables leave out: guesses, and why no number of cards will do."""
    lines = [
        f"{one.label}: {name}: {need.refusal}"
        for one in found
        for name, need in zip(request.rounds, one.needs, strict=False)
        if need.refusal
    ]
    whole = found[-1]
    if whole.guessed:
        lines.append(
            f"guessed: {counted(whole.guessed, 'test')} of {len(whole.work.tests):,} count as "
            f"{UNKNOWN_TEST_S:g} s each, for no run has measured anything like them; "
            "run them once, or import a history"
        )
    return lines


def _content(found: list[Outlook], request: Request, days: list[Days]) -> dict[str, Any]:
    conditions = request.conditions
    return {
        "conditions": asdict(conditions) | {"availability": conditions.availability},
        "seed": request.seed,
        "draws": request.draws,
        "shares": [
            {
                "label": one.label,
                "tests": len(one.work.tests),
                "work_s": one.work.total_s,
                "longest_s": one.work.longest_s,
                "guessed": one.guessed,
                "no_gain_beyond": one.no_gain_beyond,
                "sizes": [_size(size) for size in one.sizes],
                "needed": [_need(name, need) for name, need in zip(request.rounds, one.needs, strict=False)],
            }
            for one in found
        ],
        "plan": [_way(one) for one in days],
    }


def _size(one: Forecast) -> dict[str, Any]:
    return {
        "cards": one.cards,
        "up": one.up,
        "out": one.out,
        "busy": one.busy,
        "bound_s": one.bound_s,
        "makespan_s": {"median": one.makespan(0.5), "p90": one.makespan(0.9)},
        "round_s": {"median": one.round_s(0.5), "p90": one.round_s(0.9)},
        "runs_a_day": {"median": _finite(one.runs(0.5)), "p90": _finite(one.runs(0.9))},
        "pods_replaced": sum(day.replaced for day in one.days),
        "limited_by": one.limited_by,
    }


def _need(name: str, one: Needed) -> dict[str, Any]:
    return {
        "what": name,
        "allowed_s": one.allowed_s,
        "cards": None if one.found is None else one.found.cards,
        "round_s": None if one.found is None else one.found.round_s(0.9),
        "refusal": one.refusal or None,
    }


def _way(one: Days) -> dict[str, Any]:
    return {
        "way": one.mode,
        "makespan_s": {"median": one.makespan(0.5), "p90": one.makespan(0.9)},
        "over_bound": {"median": _finite(one.ratio(0.5)), "p90": _finite(one.ratio(0.9))},
        "busy": _mean([day.busy for day in one.outcomes]),
        "not_run": max(len(day.not_run) for day in one.outcomes),
        "stolen": _mean([day.stolen for day in one.outcomes]),
    }


def _mean(values: list[float] | list[int]) -> float:
    return math.fsum(values) / len(values)


def _number(value: float) -> str:
    return f"{value:,.1f}" if math.isfinite(value) else "-"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) and value > 0 else None
