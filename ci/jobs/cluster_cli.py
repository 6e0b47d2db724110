"""`spyre-ci job watch|logs|cancel|list`: jobs that are on a cluster."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.config.flags import Json
from ci.core.errors import UsageError
from ci.core.text import clean, counted
from ci.core.workflow_commands import defused
from ci.jobs.board import Board
from ci.jobs.cancel import cancel as cancel_job
from ci.jobs.cluster import Cluster, open_cluster
from ci.jobs.errors import ClusterAwayError
from ci.jobs.listing import HEAD, jobs_of
from ci.jobs.log_lines import Unit, window_s
from ci.jobs.logs import Into, Wanted, find_sources, into_file, into_folder, into_one, missing, write_logs
from ci.jobs.standing import standing_of
from ci.jobs.watch import Ending, Watcher, find_job, watch_job
from ci.jobs.watch_view import view_for
from test_selection.files import document_text

Name = Annotated[str, typer.Argument(help="Name of the job, as submit and list say it.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Where it is; default: the context's.")
]
InContext = Annotated[
    str | None, typer.Option("--context", help="Of the kubeconfig; default: its current one.")
]
# A control plane that is renewed is away for some minutes; a watch has nothing else to do.
WATCH_PATIENCE_S = 600
LOG_COLUMNS = 200


def watch(
    name: Name,
    *,
    pending_limit: Annotated[
        float | None,
        typer.Option(
            min=0, help="Minutes after which a job of which nothing runs is given up; default: never."
        ),
    ] = None,
    as_json: Json = False,
    namespace: Namespace = None,
    context: InContext = None,
) -> None:
    """Watch a job until it ends: its pods, and why they wait. Ctrl-C leaves the job running.

    Ends with 0 when all is done, 1 when tests failed, 3 when something is missing.

    Example: spyre-ci job watch tests-calm-otter-1f2e3 --pending-limit 30
    """
    console = Console(stderr=as_json)
    cluster = open_cluster(os.environ, namespace=namespace, context=context, patience_s=WATCH_PATIENCE_S)
    board, ending = _watched(cluster, name, console, pending_limit)
    if as_json:
        counts = {str(phase): number for phase, number in sorted(board.counts.items()) if number}
        typer.echo(
            document_text(
                "job-watch",
                {"job": name, "pods": board.pods, "counts": counts, **asdict(ending)},
                on_one_line=True,
            )
        )
    raise typer.Exit(ending.exit_code)


def watched(cluster: Cluster, name: str, console: Console, *, pending_limit_min: float | None) -> Ending:
    """Watch a job until it ends, and say how it did.

    Args:
        cluster: it is on.
        name: of the job.
        console: for people.
        pending_limit_min: minutes after which a job of which nothing runs is given up; None: never.

    Raises:
        ClusterError: the cluster went away for longer than a call is tried; the job goes on.
    """
    return _watched(cluster, name, console, pending_limit_min)[1]


def _watched(
    cluster: Cluster, name: str, console: Console, pending_limit_min: float | None
) -> tuple[Board, Ending]:
    path, job = find_job(cluster, name)
    board = Board(standing_of(job), time.monotonic())
    watcher = Watcher(board, view_for(console, os.environ), time.monotonic)
    limit_s = None if pending_limit_min is None else pending_limit_min * 60
    with _going_on(name), watcher.moving():
        ending = watch_job(cluster, name, watcher, path=path, pending_limit_s=limit_s)
    if ending.why:
        console.print(defused(clean(ending.why)), markup=False, highlight=False, soft_wrap=True)
    return board, ending


def logs(
    name: Name,
    *,
    shift_unit: Annotated[Unit | None, typer.Option(help="Of the window that reaches back from now.")] = None,
    shift_amount: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many of them; default: 1.")
    ] = None,
    index: Annotated[int | None, typer.Option(min=0, help="One of the job's pods; default: all.")] = None,
    container: Annotated[str, typer.Option(help="Of the pods.")] = "main",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until they end.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", help="Of the container before its last restart.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option("--to", help="File, or folder with a file a pod, instead of the screen.")
    ] = None,
    namespace: Namespace = None,
    context: InContext = None,
) -> None:
    """Show or keep the logs of a job's pods, each line behind its pod's index.

    Example: spyre-ci job logs tests-calm-otter-1f2e3 --shift-unit days --shift-amount 3 --to logs/
    """
    if follow and to is not None and _is_folder(to):
        raise UsageError("--follow writes to the screen or to one file", remedy=f"give --to {to / 'all.log'}")
    if shift_amount is not None and shift_unit is None:
        raise UsageError("--shift-amount says nothing without --shift-unit", remedy="give both, or neither")
    since_s = None if shift_unit is None else window_s(shift_unit, shift_amount or 1)
    cluster = open_cluster(os.environ, namespace=namespace, context=context)
    pods = standing_of(find_job(cluster, name)[1]).pods
    sources = find_sources(cluster, name, index=index, follow=follow)
    wanted = Wanted(container=container, since_s=since_s, follow=follow, previous=previous)
    _say(missing(sources, pods, index), err=True)
    with _into(to) as into:
        code = write_logs(cluster, sources, wanted, into, lambda line: _say(line, err=True))
    if to is not None:
        _say(f"logs of {counted(len(sources), 'pod')}: {to}", err=True)
    raise typer.Exit(code)


def cancel(
    name: Name,
    *,
    timeout_minutes: Annotated[
        float, typer.Option(min=0, help="Until what is still there is an error; 0 does not wait.")
    ] = 3,
    as_json: Json = False,
    namespace: Namespace = None,
    context: InContext = None,
) -> None:
    """End a job and remove all that is of it from the cluster. What it left in its store stays.

    Example: spyre-ci job cancel tests-calm-otter-1f2e3
    """
    cluster = open_cluster(os.environ, namespace=namespace, context=context)
    removed = cancel_job(
        cluster, name, timeout_s=timeout_minutes * 60, say=lambda line: _say(line, err=as_json)
    )
    words = Counter(word.partition(" ")[0] for word in removed)
    shown = ", ".join(f"{number:,} {kind}" for kind, number in words.items())
    _say(f"removed of {name}: {shown}" if removed else f"nothing of {name} is there", err=as_json)
    if as_json:
        typer.echo(document_text("job-cancel", {"job": name, "removed": removed}, on_one_line=True))


def list_jobs(as_json: Json = False, namespace: Namespace = None, context: InContext = None) -> None:
    """List the jobs of a namespace that spyre-ci made, the newest first: state, counts, age.

    Example: spyre-ci job list --namespace cards
    """
    cluster = open_cluster(os.environ, namespace=namespace, context=context)
    rows = jobs_of(cluster, now_s=time.time())
    if as_json:
        typer.echo(document_text("job-list", {"jobs": [row.as_json() for row in rows]}, on_one_line=True))
        return
    table = Table(box=None, pad_edge=False)
    for head in HEAD:
        # A name that is cut off is no name.
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.cells()))
    if rows:
        # Nothing is cut off in a file or for another program.
        Console(width=None if sys.stdout.isatty() else LOG_COLUMNS).print(table)
    else:
        _say(f"there are no jobs of spyre-ci in the namespace {cluster.namespace}")


@contextlib.contextmanager
def _going_on(name: str) -> Iterator[None]:
    """Within, whatever ends the watch leaves the job running, and that is said."""
    remedy = f"the job goes on: watch it again with `spyre-ci job watch {name}`"
    try:
        yield
    except KeyboardInterrupt:
        _say(f"{remedy}, end it with `spyre-ci job cancel {name}`", err=True)
        raise
    except ClusterAwayError as error:
        raise ClusterAwayError(error.what, where=error.where, remedy=remedy, said=error.said) from None


def _into(to: Path | None) -> AbstractContextManager[Into]:
    if to is None:
        return into_one(_say)
    return into_folder(to) if _is_folder(to) else into_file(to)


def _is_folder(to: Path) -> bool:
    """Whether a folder is meant: one that is there, or a name without an ending, such as `logs`."""
    return to.is_dir() or not to.suffix


def _say(line: str, *, err: bool = False) -> None:
    """A line; what it quotes of a cluster commands neither a terminal nor a CI."""
    if line:
        typer.echo(defused(clean(line)), err=err)
