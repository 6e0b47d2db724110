"""`spyre-ci flakes`: the flaky tests of the history, ranked, and what to quarantine of them."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Annotated

import typer

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, UsageError
from ci.core.text import counted, one_line
from ci.report.flakes import FORGIVEN_DAYS, LIMIT_PERCENT, Flakes, FlakyTest, find_flakes, propose
from ci.report.history import DAY_S
from ci.report.quarantine import day_of
from ci.steps import options
from ci.steps.context import Context
from ci.steps.mark_failures import protected
from test_selection.files import document_text


def flakes(
    ctx: typer.Context,
    device: options.Device = None,
    days: Annotated[int, typer.Option(min=1, max=36500, help="How far back.")] = 30,
    limit: Annotated[int, typer.Option(min=0, help="How many are shown; 0: all.")] = 20,
    fail_above: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=100,
            help="End with 1 unless fewer are flaky; with 0, unless none is.",
        ),
    ] = None,
    proposing: Annotated[
        bool, typer.Option("--propose", help="Print quarantine entries to paste, as YAML.")
    ] = False,
    issue: Annotated[str, typer.Option(help="Issue of proposed entries.")] = "",
    owner: Annotated[str, typer.Option(help="Owner of proposed entries.")] = "",
    json_output: options.Json = False,
) -> None:
    """Rank flaky tests over the history; --fail-above PERCENT makes it a check.

    Example: spyre-ci flakes --days 14 --fail-above 5
    """
    if proposing and json_output:
        raise UsageError("both --propose and --json are given", remedy="give one of them")
    if fail_above is not None and math.isnan(fail_above):
        raise UsageError("--fail-above is nan", remedy="give a number from 0 to 100")
    context = options.make_context(ctx, {"device.name": device}, json_output=proposing or json_output)
    name, now = context.settings.model.device.name, context.clock()
    found = find_flakes(context.history, device=name, since=now - days * DAY_S)
    shown = list(found.tests[: limit or None])
    context.say(f"{name}, {days} days: {found.line(LIMIT_PERCENT if fail_above is None else fail_above)}")
    if json_output:
        content = {
            "ran": found.ran,
            "flaky": len(found.tests),
            "percent": round(found.percent, 4),
            "broken_runs": found.broken,
        }
        typer.echo(document_text("flakes", {**content, "tests": [one.as_json() for one in shown]}))
    elif proposing:
        expires = day_of(now) + timedelta(days=FORGIVEN_DAYS)
        chosen = _worth_it(context, shown)
        typer.echo(propose(chosen, issue=issue, owner=owner, expires=expires), nl=False)
    else:
        _show(context, found, shown, now)
    raise typer.Exit(_code(found, fail_above))


def _show(context: Context, found: Flakes, shown: list[FlakyTest], now: float) -> None:
    for one in shown:
        context.say(f"  {one.line(now)}")
    if hidden := len(found.tests) - len(shown):
        context.say(f"  {hidden:,} more; --limit 0 shows all")


def _worth_it(context: Context, tests: list[FlakyTest]) -> list[FlakyTest]:
    """What a quarantine would help: not a sick card, and not what is in it already."""
    sick = [one for one in tests if one.blame == "card"]
    if sick:
        context.say(
            f"left out: {counted(len(sick), 'test')} that fails on one card, such as {one_line(sick[0].id)}"
        )
    there = protected(context, [one.id for one in tests])
    if there:
        context.say(f"left out: {counted(len(there), 'test')} quarantined already")
    return [one for one in tests if one.blame != "card" and one.id not in there]


def _code(found: Flakes, fail_above: float | None) -> int:
    """Nothing that ran is no proof of anything."""
    if fail_above is None:
        return EXIT_OK
    if not found.ran:
        return EXIT_INCOMPLETE
    return EXIT_OK if found.below(fail_above) else EXIT_TEST_FAILED
