"""`spyre-ci job collect`: what a job's pods left, gathered into its run and reported as any run is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from ci.cli import options
from ci.errors import MissingInputError, SettingsError
from ci.jobs.gather import gather
from ci.jobs.slices import shards_of_pods
from ci.jobs.untold import tell_untold
from ci.live.github import defused
from ci.report.identity import read_identity
from ci.report.text import counted, plain
from ci.runner.run_lock import run_lock
from ci.steps.context import Context
from ci.steps.folder import PLAN_FILE, find_run
from ci.steps.reporting import report_step
from test_selection.files import read_json
from test_selection.plan import read_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is known of a job besides its run folder.

    Attributes:
        run: its run's folder or id.
        store: where its pods put what they have, as seen from here; None: not known.
        reasons: by pod, why it left nothing, where that is known.
    """

    run: str
    store: str | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)


Look = Callable[[str], Told]


def collect(
    ctx: typer.Context,
    named: Annotated[str, typer.Argument(metavar="NAME|RUN", help="The job, or its run's folder or id.")],
    store: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help="The job's store as seen from here: a folder or s3://…."
        ),
    ] = None,
    allow_collect_errors: Annotated[
        bool, typer.Option(help="Files that cannot be collected do not redden the run.")
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Gather what a job's pods left, and report the run; while pods run, what there is of it so far.

    Example: spyre-ci job collect latest --from /mnt/results
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    code, folder = collect_job(
        context, named, store=store, look=lambda run: Told(run=run), allow_collect_errors=allow_collect_errors
    )
    if json_output:
        typer.echo(json.dumps(read_json(folder / "summary.json", "summary"), indent=1))
    raise typer.Exit(code)


def collect_job(
    context: Context, named: str, *, store: str | None, look: Look, allow_collect_errors: bool = False
) -> tuple[int, Path]:
    """Gather, say of shards without a journal why that is, and report.

    Args:
        context: the outside world.
        named: what the user called the job.
        store: where its pods put what they have, as the user says.
        look: says what is known of the job.
        allow_collect_errors: whether files in scope may fail to collect.

    Returns:
        The run's exit code, and its folder.

    Raises:
        MissingInputError: there is no such run, or nothing of it in the store.
        SettingsError: nobody says where the store is.
        RunInUseError: somebody else works in the run's folder.
    """
    told = look(named)
    where = store or told.store
    folder = find_run(context.runs, told.run, holding=PLAN_FILE)
    if where is None:
        raise SettingsError(
            "nobody says where the pods put what they have",
            where=named,
            remedy="name the folder, as it is mounted here, or the bucket with --from",
        )
    with run_lock(folder.path, alone=True):
        identity, plan = read_identity(folder.path), read_plan(folder.plan)
        found = gather(where, identity.run, folder.path)
        if not found.files and not told.reasons:
            raise MissingInputError(
                f"there is nothing of the pods of {identity.run}", where=where, remedy="name the job's store"
            )
        _say(context, f"gathered {counted(found.files, 'file')} of pods, {found.new_bytes:,} bytes new")
        for note in [*found.notes, *([f"and {found.more:,} more of the kind"] if found.more else [])]:
            _say(context, f"gathered: {note}")
        reasons = shards_of_pods(folder.path, told.reasons)
        untold = tell_untold(folder.path, plan, reasons, moment=identity.started_at)
        if untold:
            _say(context, f"no journal tells of {counted(len(untold), 'shard')}")
        return report_step(context, folder, allow_collect_errors=allow_collect_errors), folder.path


def _say(context: Context, text: str) -> None:
    """Names in a store are data: they command neither a terminal nor a CI."""
    context.say(defused(plain(text)))
