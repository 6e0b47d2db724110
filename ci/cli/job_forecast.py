"""`spyre-ci job forecast`: runs a day that the roll-out's cards carry, and cards that runs a day take."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from ci.cli import options
from ci.core.errors import UsageError
from ci.core.text import counted, span
from ci.steps.capacity import Asked, Outlook, draw_outlooks, latest_catalog, op_suite_catalog, outlooks
from ci.steps.collecting import noted_source
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.forecasting import check_out
from ci.steps.ladder import find_lock
from ci.steps.past_durations import past_durations
from ci.steps.selecting import in_scope
from test_selection.capacity import DAY_S, Conditions
from test_selection.capacity_days import Capacity, Needed
from test_selection.catalog import read_catalog
from test_selection.durations import UNKNOWN_TEST_S, read_durations
from test_selection.files import document_text

MOST_RUNS = 1000
In = Annotated[Path | None, typer.Option(help="File to read; default: the run folder's.")]
# Three to four a day is what the later stages want.
RUNS = (3.0, 4.0)


def forecast(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: In = None,
    durations: In = None,
    startup: Annotated[float, typer.Option(help="Mean seconds until a pod has started.")] = 60,
    queue_wait: Annotated[float, typer.Option(help="Seconds a job waits until it is let in.")] = 0,
    report: Annotated[float, typer.Option(help="Seconds from the last test to the report.")] = 60,
    card_faults: Annotated[float, typer.Option(help="Faults of a card in an hour.")] = 0.0,
    repair: Annotated[float, typer.Option(help="Hours until a card that failed is back.")] = 24,
    pod_cards: Annotated[int, typer.Option(help="Cards of a pod; 0: all share (tests.share).")] = 8,
    runs_per_day: Annotated[
        list[float] | None, typer.Option(help="Runs a day to find cards for; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draws; the same seed, the same days.")] = 0,
    draws: Annotated[int, typer.Option(help="Days drawn, 1 to 1,000.")] = 5,
    out: Annotated[Path | None, typer.Option("--out", help="Drawing to write: .svg or .html.")] = None,
    json_output: options.Json = False,
) -> None:
    """Put pod start-up, queue wait and card faults over the roll-out: runs a day, and cards they take.

    Example: spyre-ci job forecast --run-dir runs/nightly --startup 90 --card-faults 0.0005 --repair 24
    """
    _check("--startup", startup, DAY_S)
    _check("--queue-wait", queue_wait, DAY_S)
    _check("--report", report, DAY_S)
    _check("--card-faults", card_faults, 60)
    _check("--repair", repair, 10_000)
    _check("--pod-cards", pod_cards, 64)
    _check("--draws", draws, 1000, least=1)
    for runs in runs_per_day or ():
        _check("--runs-per-day", runs, MOST_RUNS, least=0.01)
    check_out(out)
    context = options.make_context(ctx, {}, json_output=json_output)
    asked = Asked(
        conditions=Conditions(
            queue_s=queue_wait,
            startup_s=startup,
            report_s=report,
            faults_h=card_faults,
            repair_h=repair,
            pod_cards=pod_cards,
        ),
        runs=tuple(runs_per_day or RUNS),
        seed=seed,
        draws=draws,
    )
    with tempfile.TemporaryDirectory(prefix="spyre-ci-forecast-") as scratch:
        found = _outlooks(
            context, _folder(context, run_dir, catalog, Path(scratch)), catalog, durations, asked
        )
    if out is not None:
        draw_outlooks(out, found, asked)
        context.say(f"drawn: {out}")
    if json_output:
        typer.echo(document_text("job-forecast", _content(found, asked)))
        return
    context.console.print(_sizes_table(found))
    context.console.print(_needs_table(found, asked))
    for line in _remarks(found):
        context.say(line)


def _folder(context: Context, run_dir: Path | None, catalog: Path | None, scratch: Path) -> RunFolder:
    """The run folder that is named, else the newest with a catalog, else one of the op suite, made now."""
    if run_dir is not None or catalog is not None:
        return options.run_folder(run_dir, catalog)
    if (latest := latest_catalog(context.runs)) is not None:
        context.say(f"catalog of {latest.run}")
        return latest
    context.say("no run has a catalog yet: the embedded op suite is forecast instead")
    return op_suite_catalog(context, scratch)


def _outlooks(
    context: Context, folder: RunFolder, catalog: Path | None, durations: Path | None, asked: Asked
) -> list[Outlook]:
    collected = read_catalog(catalog or folder.catalog)
    if durations is None and folder.durations.is_file():
        durations = folder.durations
    seconds = read_durations(durations) if durations else past_durations(context, collected.device)
    what = in_scope(context, collected, noted_source(context, folder), seconds)
    return outlooks(what, find_lock(context, what), context.settings.model.stages, asked)


def _check(flag: str, value: float, most: float, *, least: float = 0) -> None:
    if not least <= value <= most:
        raise UsageError(f"{flag} is {value:g}", remedy=f"give a number from {least:g} to {most:,g}")


def _sizes_table(found: list[Outlook]) -> Table:
    heads = ("share", "cards", "out", "busy", "makespan", "9 in 10", "a day", "9 in 10", "bound by")
    table = Table(*heads, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for one in found:
        label = one.label.removeprefix("stage ")
        if not one.sizes:
            table.add_row(label, f"{one.cards:,}", *["-"] * 6, "nothing")
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
                size.binds,
            )
    return table


def _needs_table(found: list[Outlook], asked: Asked) -> Table:
    heads = ["share", "tests", *(f"cards for {runs:g} a day" for runs in asked.runs)]
    table = Table(*heads, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for one in found:
        if one.needs:
            table.add_row(one.label.removeprefix("stage "), f"{one.tests:,}", *map(_need_cell, one.needs))
    return table


def _need_cell(one: Needed) -> str:
    if one.found is None:
        return "none"
    return f"{one.found.cards:,} (a run in {span(one.found.round_s(0.9))})"


def _remarks(found: list[Outlook]) -> list[str]:
    """What the tables leave out: guesses, and why no number of cards will do."""
    lines = [
        f"{one.label}: {need.runs:g} a day: {need.refusal}"
        for one in found
        for need in one.needs
        if need.refusal
    ]
    whole = found[-1]
    if whole.guessed:
        lines.append(
            f"guessed: {counted(whole.guessed, 'test')} of {whole.tests:,} count as {UNKNOWN_TEST_S:g} s "
            "each, for no run has measured anything like them; run them once, or import a history"
        )
    return lines


def _content(found: list[Outlook], asked: Asked) -> dict[str, Any]:
    conditions = asked.conditions
    return {
        "conditions": {
            "queue_s": conditions.queue_s,
            "startup_s": conditions.startup_s,
            "report_s": conditions.report_s,
            "faults_h": conditions.faults_h,
            "repair_h": conditions.repair_h,
            "availability": conditions.availability,
            "pod_cards": conditions.pod_cards,
        },
        "seed": asked.seed,
        "draws": asked.draws,
        "shares": [
            {
                "label": one.label,
                "tests": one.tests,
                "work_s": one.work_s,
                "guessed": one.guessed,
                "sizes": [_size(size) for size in one.sizes],
                "needed": [_need(need) for need in one.needs],
            }
            for one in found
        ],
    }


def _size(one: Capacity) -> dict[str, Any]:
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
        "binds": one.binds,
    }


def _need(one: Needed) -> dict[str, Any]:
    cards = None if one.found is None else one.found.cards
    round_s = None if one.found is None else one.found.round_s(0.9)
    return {"runs_a_day": one.runs, "cards": cards, "round_s": round_s, "refusal": one.refusal or None}


def _number(value: float) -> str:
    return f"{value:,.1f}" if math.isfinite(value) else "-"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
