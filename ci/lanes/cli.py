"""`spyre-ci lanes`: recurring runs, what is next and why, what ran, and the worker that runs them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, tzinfo
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.config import completing
from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.config.lanes_model import Lane
from ci.config.load import Settings
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_TEST_FAILED,
    RunInUseError,
    SpyreCiError,
    UsageError,
)
from ci.core.interrupts import noted
from ci.core.locks import run_lock
from ci.core.text import escaped, iso_utc, one_line, span
from ci.lanes.attempt import LocalProcesses
from ci.lanes.cadence import clock, describe
from ci.lanes.command import launch_of, read_values
from ci.lanes.decide import LaneState, Moment, decide, idle, next_time, off
from ci.lanes.export import as_yaml, schedule_of, schedules, triggers
from ci.lanes.ledger import Attempt, Ledger
from ci.lanes.worker import Worker, folder_of
from test_selection.errors import did_you_mean
from test_selection.files import document_text, read_json
from test_selection.yaml_reader import load_document

TRIGGERS_KIND = "triggers"
LOG_COLUMNS = 200
_REASON = 120
# Between these years a calendar reaches around every moment.
_EPOCH, _FAR = 1971, 9000
app = typer.Typer(no_args_is_help=True)
LaneOption = typer.Option("--lane", autocompletion=completing.lanes, help="Only this lane; repeatable.")


class WorkerBusyError(SpyreCiError):
    """Another worker has the lanes; two would begin everything twice."""

    exit_code = EXIT_INCOMPLETE


class SchedulesDifferError(SpyreCiError):
    """A CI's schedules are not those of the settings."""

    exit_code = EXIT_TEST_FAILED


@app.command()
def run(
    ctx: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Start what is due now, wait for its end, and exit.")
    ] = False,
    lane: Annotated[list[str] | None, LaneOption] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Start the lanes of --lane at once, ignoring their cadence.")
    ] = False,
) -> None:
    """Start lanes when they are due, until stopped; for hosts without a CI.

    systemd or a container keeps it running; a crontab calls it with `--once`, a person with `--now`.
    SIGTERM or Ctrl-C ends it with 130: its runs are stopped too, and the next worker starts them again. With
    `--once` the exit code is 0, 1 where a run failed, 3 where one was incomplete.

    Example: spyre-ci lanes run --once

    Example: spyre-ci lanes run --once --lane nightly --now
    """
    settings = settings_from_context(ctx)
    chosen = _chosen(settings, lane or [])
    lanes = _by_hand(settings, chosen, asked=once and bool(lane)) if now else settings.model.lanes
    stage, folder = settings.model.stage, settings.state_dir / "lanes"
    values = read_values(
        settings, os.environ, [name for name in sorted(chosen) if not idle(lanes[name], stage)]
    )
    with _alone(folder), noted() as heard:
        worker = Worker(
            lanes=lanes,
            chosen=chosen,
            settings=settings.model.lane_worker,
            stage=stage,
            ledger=_ledger(settings),
            folder=folder,
            processes=LocalProcesses(),
            launch=lambda attempt, tries, there: launch_of(attempt, tries, there, settings, values),
            wall=time.time,
            ticks=time.monotonic,
            sleep=time.sleep,
            say=lambda line: typer.echo(f"{iso_utc(time.time())} {escaped(line)}"),
        )
        worker.work(heard, once=once, by_hand=now)
    raise typer.Exit(EXIT_INTERRUPTED if heard else worker.exit_code)


@app.command()
def status(
    ctx: typer.Context,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Show what is next after this time, such as 2026-03-29T02:30, in the settings' time zone.",
        ),
    ] = None,
    lane: Annotated[list[str] | None, LaneOption] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Show this many of the newest runs.")] = 20,
    as_json: Json = False,
) -> None:
    """Show each lane's next run with its time and reason, and the latest runs with every attempt.

    Read-only.

    Example: spyre-ci lanes status --at 2026-10-25T00:00

    Example: spyre-ci lanes status --lane nightly --limit 5
    """
    settings = settings_from_context(ctx)
    worker, ledger = settings.model.lane_worker, _ledger(settings)
    names = _chosen(settings, lane) if lane else settings.model.lanes.keys()
    lanes = {name: one for name, one in settings.model.lanes.items() if name in names}
    now = time.time() if at is None else _seconds(at, worker.zone)
    moment = Moment(now=now, stage=settings.model.stage, worker=worker)
    there = ledger.path.is_file()  # nothing is made only to look
    states = ledger.states(moment.now) if there else {}
    runs = ledger.history(lane, limit) if there else []
    upcoming = [_next(name, one, states.get(name, LaneState()), moment) for name, one in lanes.items()]
    upcoming.sort(key=lambda row: (row["at"] is None, row["at"] or 0))
    if as_json:
        folder = ledger.path.parent
        rows = [
            {
                **{key: getattr(run[-1], key) for key in ("lane", "due", "status")},
                "attempts": [
                    {**asdict(one), "folder": str(folder_of(folder, one))} for one in run if one.attempt
                ],
                "why": run[0].why,
            }
            for run in runs
        ]
        typer.echo(document_text("lanes-status", {"lanes": upcoming, "runs": rows}))
        return
    if not lanes:
        typer.echo("there are no lanes: name some under `lanes` in the settings")
        return
    _print_table(("lane", "next", "why", "now"), [_next_cells(row, worker.zone) for row in upcoming])
    if runs:
        typer.echo()
        heads = ("lane", "due", "attempt", "status", "exit code", "took", "reason")
        _print_table(heads, [_cells(one, worker.zone) for run in runs for one in run])


@app.command()
def export(
    ctx: typer.Context,
    target: Annotated[Literal["github", "jenkins"], typer.Argument(help="CI whose schedule to print.")],
    *,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Compare with Jenkins' file, or a folder of workflows; exit with 1 if they differ.",
        ),
    ] = None,
) -> None:
    """Print the schedule of the lanes that a CI starts, or compare it with that CI's files.

    Example: spyre-ci lanes export jenkins

    Example: spyre-ci lanes export github --check .github/workflows
    """
    model = settings_from_context(ctx).model
    time_zone = model.lane_worker.time_zone
    if target == "jenkins":
        content = triggers(model.lanes, time_zone=time_zone)
        if check is None:
            typer.echo(document_text(TRIGGERS_KIND, content))
        else:
            found = read_json(check, TRIGGERS_KIND)
            _check_same({key: found.get(key) for key in content}, content, check, target)
        return
    for workflow, entries in schedules(model.lanes, time_zone=time_zone, stage=model.stage).items():
        if check is None and entries:
            typer.echo(as_yaml(workflow, entries) + "\n")
        # A workflow that is not found begins nothing.
        elif check is not None and (entries or (check / workflow).exists()):
            wanted = sorted(chain(*entries.values()), key=_sortable)
            path = check / workflow
            there = sorted(schedule_of(load_document(path).content, path), key=_sortable)
            _check_same(there, wanted, path, target)


def _ledger(settings: Settings) -> Ledger:
    return Ledger(settings.state_dir / "lanes" / "lanes.sqlite")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the only worker with a ledger; the kernel lets go of it when the process ends, however that ends.

    Raises:
        WorkerBusyError: there is another; which one.
        UsageError: the file system has no locks.
    """
    try:
        with run_lock(folder, alone=True) as alone:
            if not alone:
                raise UsageError(
                    "its file system has no locks, and two workers would start everything twice",
                    where=folder,
                    remedy="set `state` to a folder on a disk of this machine",
                )
            yield
    except RunInUseError as error:
        raise WorkerBusyError(
            f"another worker runs these lanes: the folder {error.what}", where=folder, remedy=error.remedy
        ) from error


def _chosen(settings: Settings, names: Sequence[str]) -> frozenset[str]:
    """The lanes that were named, or all.

    Raises:
        UsageError: there is no such lane, or none at all.
    """
    lanes, where = settings.model.lanes, settings.path or settings.base
    if not lanes:
        remedy = "write some below `lanes`; see docs/lanes.md"
        raise UsageError("there are no lanes in the settings", where=where, remedy=remedy)
    if unknown := [name for name in names if name not in lanes]:
        remedy = did_you_mean(unknown[0], lanes, f"lanes are {', '.join(lanes)}")
        raise UsageError(f"there is no lane {unknown[0]!r}", where=where, remedy=remedy)
    return frozenset(names or lanes)


def _by_hand(settings: Settings, names: frozenset[str], *, asked: bool) -> Mapping[str, Lane]:
    """The lanes, with those that are begun by hand as the worker's own, also where their CI begins them.

    Raises:
        UsageError: nobody said which, or one does not run now.
    """
    if not asked:
        remedy = "use `spyre-ci lanes run --once --lane NAME --now`"
        raise UsageError("needs a lane to start", where="--now", remedy=remedy)
    lanes, where = settings.model.lanes, settings.path or settings.base
    for name in sorted(names):
        if reason := off(lanes[name], settings.model.stage):
            remedy = "change that in the settings: they apply to a run by hand too"
            raise UsageError(f"lane {name} {reason}", where=where, remedy=remedy)
    return {**lanes, **{name: lanes[name].model_copy(update={"begun_by": None}) for name in names}}


def _seconds(at: str, zone: tzinfo) -> float:
    """A moment of --at in seconds since the epoch.

    Raises:
        UsageError: it is none, or so far away that no calendar reaches around it.
    """
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        moment = None
    if moment is None or not _EPOCH <= moment.year < _FAR:
        remedy = (
            f"write it as 2026-03-29T02:30, or with +02:00 behind it, in a year from {_EPOCH} to {_FAR - 1}"
        )
        raise UsageError(f"{at!r} is not a time", where="--at", remedy=remedy)
    return moment.replace(tzinfo=moment.tzinfo or zone).timestamp()


def _next(name: str, lane: Lane, state: LaneState, moment: Moment) -> dict[str, Any]:
    """What comes next of a lane, as a worker would decide it: when, why then, and what goes on meanwhile."""
    decision, run = decide({name: lane}, {name: state}, moment), state.open
    at, now = None, decision.quiet.get(name, "")
    if decision.begin:
        at, now = moment.now, "is due"
    elif run is not None and run.retry_at is not None and not now:
        at, now = run.retry_at, f"retries the run due {clock(run.due, moment.worker.zone)} then"
    elif run is not None and not now:
        now = f"the run due {clock(run.due, moment.worker.zone)} is running"
    if at is None and not off(lane, moment.stage) and (run is None or lane.cadence.after_end is None):
        looked = replace(state, looked=moment.now)
        at = next_time(lane, name, looked, moment)
    return {
        "lane": name,
        "at": at,
        "time": None if at is None else datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="seconds"),
        "why": describe(lane.cadence, moment.worker.zone),
        "now": now,
    }


def _next_cells(row: Mapping[str, Any], zone: tzinfo) -> tuple[str, ...]:
    return row["lane"], "" if row["at"] is None else clock(row["at"], zone), row["why"], row["now"]


def _cells(attempt: Attempt, zone: tzinfo) -> tuple[str, ...]:
    took = "" if attempt.ended_at is None else span(max(attempt.ended_at - attempt.begun_at, 0))
    code = "" if attempt.exit_code is None else str(attempt.exit_code)
    number = str(attempt.attempt) if attempt.attempt else ""
    reason = one_line(attempt.reason if attempt.attempt else attempt.why, _REASON)
    return attempt.lane, clock(attempt.due, zone), number, attempt.status, code, took, reason


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else LOG_COLUMNS).print(table)


def _sortable(entry: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(entry.items())


def _check_same(there: Any, wanted: Any, path: Path, ci: str) -> None:
    if there != wanted:
        raise SchedulesDifferError(
            f"has {json.dumps(there)}, but the settings have {json.dumps(wanted)}",
            where=path,
            remedy=f"use the output of `spyre-ci lanes export {ci}`, or change the lanes",
        )
