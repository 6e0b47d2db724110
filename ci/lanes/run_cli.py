"""`spyre-ci lanes run`: the worker, for places without a CI of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from ci.config import completing
from ci.config.context import settings_from_context
from ci.config.lanes_model import Lane
from ci.config.load import DEFAULT_FILE, Settings
from ci.core.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, RunInUseError, SpyreCiError, UsageError
from ci.core.interrupts import noted
from ci.core.locks import run_lock
from ci.core.text import escaped, iso_utc
from ci.lanes.command import command, source_of
from ci.lanes.executors import Launch, LocalExecutor, Places
from ci.lanes.order import Order
from ci.lanes.secrets import Secrets
from ci.lanes.store import Store
from ci.lanes.tending import LOCAL, Hands
from ci.lanes.turn import idle
from ci.lanes.worker import Worker

FOLDER, STATE = "lanes", "lanes.sqlite"
TOOLKIT = Path(__file__).parent.parent.parent / "noxfile.py"


class WorkerBusyError(SpyreCiError):
    """Another worker has the lanes; two would begin everything twice."""

    exit_code = EXIT_INCOMPLETE


def run(
    ctx: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Begin what is due now, see it to its end, and end.")
    ] = False,
    lane: Annotated[
        list[str] | None,
        typer.Option(
            "--lane", help="Begin this lane only; may stand several times.", autocompletion=completing.lanes
        ),
    ] = None,
    now: Annotated[
        bool,
        typer.Option("--now", help="Begin the lanes of --lane at once, whatever their cadence says."),
    ] = False,
) -> None:
    """Begin lanes when they are due, until stopped; for places without a CI of their own.

    systemd or a container keeps it running; with `--once` a crontab begins it, and with `--now` somebody by
    hand. SIGTERM or Ctrl-C ends it with 130: runs here are told to end as
    well, and the next worker begins them again. With `--once` it ends with 0, 1 where a run failed, 3 where
    one came to no answer.

    Example: spyre-ci lanes run --once

    Example: spyre-ci lanes run --once --lane nightly --now
    """
    settings = settings_from_context(ctx)
    chosen = _chosen(settings, lane or ())
    lanes = _by_hand(settings, chosen, once=once, named=bool(lane)) if now else settings.model.lanes
    secrets = secrets_of(settings)
    stage = settings.model.stage
    wanted = [name for name in sorted(chosen) if not idle(lanes[name], stage)]
    secrets.check(wanted)
    places = Places(settings=settings, environ=secrets.whole, clock=time.time)
    places.check(wanted)
    folder = lanes_folder(settings)
    with working_alone(folder), closing(Store(folder / STATE)) as store, noted() as heard:
        worker = Worker(
            Hands(
                lanes=lanes,
                chosen=chosen,
                settings=settings.model.lane_worker,
                stage=stage,
                store=store,
                folder=folder,
                runs=settings.resolve(settings.model.runs),
                executors={
                    **replace(places, stop=lambda: bool(heard)).executors(),
                    LOCAL: local_executor(settings, secrets),
                },
                wall=time.time,
                ticks=time.monotonic,
                sleep=time.sleep,
                say=lambda line: typer.echo(f"{iso_utc(time.time())} {escaped(line)}"),
            )
        )
        worker.work(heard, once=once, by_hand=now)
    raise typer.Exit(EXIT_INTERRUPTED if heard else worker.exit_code)


def secrets_of(settings: Settings) -> Secrets:
    """The secrets of all lanes; a folder that happens to have the file's default name is none."""
    worker = settings.model.lane_worker
    named = "secrets" in worker.model_fields_set
    return Secrets(settings.model.lanes, os.environ, settings.resolve(worker.secrets), named=named)


def lanes_folder(settings: Settings) -> Path:
    """The folder of the worker's state, and of a folder for each attempt."""
    return settings.state_dir / FOLDER


def local_executor(settings: Settings, secrets: Secrets) -> LocalExecutor:
    """The executor for runs here: each lane with its own secrets, in the folder of the settings."""

    def launch(order: Order) -> Launch:
        toolkit = TOOLKIT if TOOLKIT.is_file() else settings.base / "noxfile.py"
        lane, path = settings.model.lanes[order.lane], settings.path
        called = command(
            lane,
            order,
            toolkit=toolkit,
            base=settings.base,
            config=None if path is None or path.name == DEFAULT_FILE else path.absolute(),
            source=source_of(lane, settings),
        )
        environ = {**secrets.environ(order.lane), **called.environ}
        return Launch(words=called.words, environ=environ, cwd=settings.base, limit_s=lane.time_limit_s)

    return LocalExecutor(launch, ending_s=settings.model.lane_worker.ending_s)


@contextmanager
def working_alone(folder: Path) -> Iterator[None]:
    """Be the only worker with a state; the kernel lets go of it when the process ends, however that ends.

    Raises:
        WorkerBusyError: there is another; which one.
        UsageError: the file system has no locks.
    """
    try:
        with run_lock(folder, alone=True) as alone:
            if not alone:
                raise UsageError(
                    "its file system has no locks, and two workers would begin everything twice",
                    where=folder,
                    remedy="set `state` to a folder on a disk of this machine",
                )
            yield
    except RunInUseError as error:
        raise WorkerBusyError(
            f"another worker has these lanes: the folder {error.what}", where=folder, remedy=error.remedy
        ) from error


def _by_hand(settings: Settings, names: frozenset[str], *, once: bool, named: bool) -> Mapping[str, Lane]:
    """The lanes, with those that are begun by hand as the worker's own, also where their CI begins them.

    Raises:
        UsageError: nobody said which, or one does not run now.
    """
    if not (once and named):
        raise UsageError(
            "says nothing without a lane to begin",
            where="--now",
            remedy="write `spyre-ci lanes run --once --lane NAME --now`",
        )
    lanes = settings.model.lanes
    ours = {name: lanes[name].model_copy(update={"begun_by": "worker"}) for name in names}
    for name, lane in sorted(ours.items()):
        reason = idle(lane, settings.model.stage)
        if not reason and lane.where.kind in {"github", "jenkins"}:
            reason = f"runs on {lane.where.kind}, which is where it is begun by hand"
        if reason:
            raise UsageError(
                f"lane {name} {reason}",
                where=settings.path or settings.base,
                remedy="change that in the settings, as a run of it by hand is one as any other",
            )
    return {**lanes, **ours}


def _chosen(settings: Settings, names: list[str] | tuple[()]) -> frozenset[str]:
    """The lanes that are begun: those that were named, or all.

    Raises:
        UsageError: there is no such lane, or none at all.
    """
    lanes = settings.model.lanes
    if not lanes:
        raise UsageError(
            "there are no lanes in the settings",
            where=settings.path or settings.base,
            remedy="write some below `lanes`; see docs/lanes-worker.md",
        )
    for name in names:
        if name not in lanes:
            close = get_close_matches(name, lanes, n=1)
            raise UsageError(
                f"there is no lane {name!r}",
                where=settings.path or settings.base,
                remedy=f"did you mean {close[0]}?" if close else f"lanes are {', '.join(sorted(lanes))}",
            )
    return frozenset(names or lanes)
