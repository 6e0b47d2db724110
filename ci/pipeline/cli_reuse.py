"""`spyre-ci pipeline reuse`: results for a merge queue's run; it reports, so it stands above the steps."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ci.core.errors import MissingInputError, SpyreCiError
from ci.core.extras import wanted
from ci.main_job.report import report_step
from ci.main_job.reuse import doubt_of_results, take_results
from ci.pipeline.event import event_payload
from ci.pipeline.telling import hand_on
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import PLAN_FILE, RunFolder

if TYPE_CHECKING:
    from ci.report.reused import Reused

NOT_REUSED = {"reused": False, "reused_run": "", "reused_url": ""}


def reuse(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run that was planned.")] = Path(
        "runs/ci"
    ),
    repository: Annotated[
        str | None, typer.Option("--repository", help="owner/name; default: GITHUB_REPOSITORY.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File that takes the outputs as JSON.")] = None,
) -> None:
    """Take the results of the pull request's green run, where a merge queue is to test the very same.

    Anything doubtful is said, and then everything runs.

    Example: spyre-ci pipeline reuse runs/ci
    """
    with wanted("this wants", extra="github"):
        from ci.pipeline.reuse import Search  # noqa: F401, PLC0415  # said here where it is not installed

    context = options.make_context(ctx, {})
    folder = RunFolder(path=run.resolve())
    if not folder.plan.is_file():
        raise MissingInputError(
            f"there is no {PLAN_FILE}", where=folder.path, remedy="plan first: spyre-ci pipeline plan"
        )
    payload = event_payload(os.environ, "merge_group")
    try:
        taken = _take(context, folder, payload, repository or os.environ.get("GITHUB_REPOSITORY", ""))
    except SpyreCiError as error:
        context.say(f"nothing is reused: {error.what}")
        taken = None
    if taken is None:
        hand_on(NOT_REUSED, os.environ, out=out, kind="pipeline-reuse")
        return
    context.say(taken.said())
    code = report_step(context, folder, allow_collect_errors=False).exit_code
    outputs = {"reused": code == 0, "reused_run": str(taken.run_id), "reused_url": taken.url}
    hand_on(outputs, os.environ, out=out, kind="pipeline-reuse")


def _take(context: Context, folder: RunFolder, payload: Mapping[str, Any], repository: str) -> Reused | None:
    """Look for a run that fits and take its results; None where none does, each refusal said.

    Raises:
        SpyreCiError: what has to be asked cannot be.
    """
    from ci.core.github.client import connect  # noqa: PLC0415  # costs what other verbs need not pay
    from ci.pipeline.reuse import Search, candidates, doubt_of_group, group_of, wanted_of, workflow_file  # noqa: PLC0415  # noqa: PLC0415

    group = group_of(payload)
    if group is None:
        context.say("nothing is reused: the event does not name a pull request's commits")
        return None
    with tempfile.TemporaryDirectory(prefix="spyre-ci-") as scratch:
        search = Search(
            client=connect(os.environ),
            repository=repository,
            checkout=context.settings.base,
            run_dir=folder.path,
            scratch=Path(scratch),
            environ=os.environ,
            say=context.say,
        )
        wanted = wanted_of(
            search, group, workflow_file(os.environ.get("GITHUB_WORKFLOW_REF", ""), repository)
        )
        if reason := doubt_of_group(search, group, wanted):
            context.say(f"nothing is reused: {reason}")
            return None
        for other, reused in candidates(search, group, wanted):
            if reason := doubt_of_results(context, folder, other):
                context.say(f"run {reused.run_id} {reason}")
                continue
            take_results(folder, other, reused)
            return reused
    return None
