"""`spyre-ci hud`, what the side that reports has: begin, flush, dispatch, forward, identity."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ci.config import Settings, completing
from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.core.errors import EXIT_INCOMPLETE, MissingInputError, UsageError
from ci.hud.callback import MAX_WHOLE
from ci.hud.deliver import FLUSH_BUDGET_S, Delivery, Reporter, begin, flush_run
from ci.hud.flush import Effects
from ci.hud.handed import forward
from ci.hud.handing import hand_over
from ci.hud.naming import FIELDS, name_run
from ci.hud.row_upload import rows_wait
from test_selection.files import document_text

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder, id or `latest`.", autocompletion=completing.runs)
]


def add_client_verbs(app: typer.Typer) -> None:
    """Register them."""
    for verb, function in (
        ("begin", begin_verb),
        ("flush", flush_verb),
        ("dispatch", dispatch_verb),
        ("forward", forward_verb),
        ("identity", identity_verb),
    ):
        app.command(verb)(function)


def begin_verb(ctx: typer.Context, run: Run) -> None:
    """Tell that a run begins which the relay dispatched; for runs that are split over machines.

    Example: spyre-ci hud begin latest
    """
    settings = settings_from_context(ctx)
    # A run that only begins has been planned, and has nothing to send yet.
    run_dir = run_folder(settings.resolve(settings.model.runs), run, holding="run.json")
    if begin(run_dir, _reporter(settings, budget_s=settings.model.report.budget_s)) is None:
        typer.echo("HUD: there is nothing to tell yet: the run reports itself, when it has ended")


def flush_verb(ctx: typer.Context, run: Run, json_output: Json = False) -> None:
    """Send the reports that wait in a run's outbox; ends with 3 when some are left.

    Example: spyre-ci hud flush latest
    """
    settings = settings_from_context(ctx)
    run_dir = run_folder(settings.resolve(settings.model.runs), run)
    if not any((run_dir / "outbox").glob("*.json")) and not rows_wait(run_dir):
        typer.echo(f"HUD: nothing waits in the outbox of {run_dir}", err=json_output)
        _end(Delivery(outcome="delivered"), json_output=json_output)
    reporter = _reporter(settings, json_output=json_output)
    delivery = flush_run(
        run_dir, settings, environ=reporter.environ, effects=reporter.effects, echo=reporter.echo
    )
    _end(delivery, json_output=json_output)


def dispatch_verb(ctx: typer.Context, run: Run, json_output: Json = False) -> None:
    """Ask the GitHub repository of `report.dispatch` to report a run; ends with 3 when it was not asked.

    Example: spyre-ci hud dispatch latest
    """
    settings = settings_from_context(ctx)
    run_dir = run_folder(settings.resolve(settings.model.runs), run, holding="summary.json")
    _end(hand_over(run_dir, _reporter(settings, json_output=json_output)), json_output=json_output)


def forward_verb(ctx: typer.Context, json_output: Json = False) -> None:
    """Report what another CI handed over in SPYRE_CI_REPORT; ends with 3 when it is not delivered.

    Example: spyre-ci hud forward
    """
    settings = settings_from_context(ctx)
    runs = settings.resolve(settings.model.runs)
    _end(forward(runs, _reporter(settings, json_output=json_output)), json_output=json_output)


def identity_verb(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="Run folder, id or `latest`; default: what the environment says.",
            autocompletion=completing.runs,
        ),
    ] = None,
    shard: Annotated[
        int | None, typer.Option(min=0, max=MAX_WHOLE, help="A shard's index, for `shard_key`.")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(help="A test's canonical id, for `test_key`.", autocompletion=completing.tests),
    ] = None,
    field: Annotated[str | None, typer.Option(help="Print this one alone.")] = None,
    json_output: Json = False,
) -> None:
    """Print what a run, its job, a shard and a test are known by, so that no pipeline works it out itself.

    Example: spyre-ci hud identity latest --shard 0
    """
    if field is not None and field not in FIELDS:
        raise UsageError(
            f"{field!r} is none of them", where="--field", remedy=f"name one of {', '.join(FIELDS)}"
        )
    settings = settings_from_context(ctx)
    report = settings.model.report
    run_dir = (
        None if run is None else run_folder(settings.resolve(settings.model.runs), run, holding="run.json")
    )
    event = None if report.event_file is None else settings.resolve(report.event_file)
    named = name_run(
        run_dir,
        repository=report.repository,
        environ=os.environ,
        epoch_s=time.time(),
        event_file=event,
        shard=shard,
        test=test,
    )
    if field is not None:
        value = named[field]
        typer.echo(json.dumps(value) if json_output else value)
    elif json_output:
        typer.echo(document_text("hud-identity", named))
    else:
        for name, value in named.items():
            typer.echo(f"{name}={value}")


def run_folder(runs: Path, named: Path, *, holding: str = "outbox") -> Path:
    """The folder of a run by path or name; `latest` is the newest that holds a file or folder.

    Raises:
        MissingInputError: there is none.
    """
    if str(named) == "latest":
        found = sorted(runs.glob(f"*/{holding}"), key=lambda path: path.stat().st_mtime_ns)
        if not found:
            what = f"an {holding}" if holding == "outbox" else f"a {holding}"
            raise MissingInputError(f"there is no run with {what} yet", where=runs, remedy="run one first")
        return found[-1].parent
    folder = next((folder for folder in (named, runs / named) if folder.is_dir()), None)
    if folder is None:
        raise MissingInputError("there is no such run folder", where=named, remedy="check the path")
    return folder


def _reporter(settings: Settings, *, json_output: bool = False, budget_s: float = FLUSH_BUDGET_S) -> Reporter:
    return Reporter(
        settings=settings,
        environ=os.environ,
        effects=Effects(clock=time.time, sleep=time.sleep, rng=random.SystemRandom().random),
        echo=_echo(err=json_output),
        budget_s=budget_s,
    )


def _echo(*, err: bool) -> Callable[[str], None]:
    def echo(line: str) -> None:
        typer.echo(line, err=err)

    return echo


def _end(delivery: Delivery, *, json_output: bool) -> None:
    if json_output:
        typer.echo(document_text("delivery", asdict(delivery)))
    raise typer.Exit(0 if delivery.outcome in {"delivered", "dispatched"} else EXIT_INCOMPLETE)
