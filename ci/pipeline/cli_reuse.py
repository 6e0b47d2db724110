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
from ci.pipeline.outputs import hand_on
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import PLAN_FILE, RunFolder

if TYPE_CHECKING:
    from ci.report.reused import Reused


def reuse(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run that was planned.")] = Path(
        "runs/ci"
    ),
    out: Annotated[Path | None, typer.Option("--out", help="File that takes the outputs as JSON.")] = None,
) -> None:
    """Take the results of the pull request's green run, where a merge queue is to test the very same.

    Anything doubtful is said, and then everything runs.

    Example: spyre-ci pipeline reuse runs/ci
    """
    context = options.make_context(ctx, {})
    folder = RunFolder(path=run.resolve())
    if not folder.plan.is_file():
        remedy = "plan first: spyre-ci pipeline plan"
        raise MissingInputError(f"there is no {PLAN_FILE}", where=folder.path, remedy=remedy)
    payload = event_payload(os.environ, "merge_group")
    outputs: dict[str, Any] = {"reused": False, "reused_run": "", "reused_url": ""}
    if (taken := _taken(context, folder, payload)) is not None:
        context.say(taken.said())
        code = report_step(context, folder, allow_collect_errors=False).exit_code
        outputs = {"reused": code == 0, "reused_run": str(taken.run_id), "reused_url": taken.url}
    hand_on(outputs, out=out, kind="pipeline-reuse")


def _taken(context: Context, folder: RunFolder, payload: Mapping[str, Any]) -> Reused | None:
    """Look for a run that fits and take its results; None where none does, each refusal said."""
    with wanted("this wants", extra="github"):
        from ci.core.github.client import connect  # noqa: PLC0415  # an extra
        from ci.pipeline.github_runs import Actions  # noqa: PLC0415
        from ci.pipeline.reuse import Search, group_of, workflow_file  # noqa: PLC0415

    group, repository = group_of(payload), os.environ.get("GITHUB_REPOSITORY", "")
    if group is None:
        context.say("nothing is reused: the event does not name a pull request's commits")
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="spyre-ci-") as scratch:
            search = Search(
                actions=Actions(client=connect(os.environ), repository=repository),
                checkout=context.settings.base,
                run_dir=folder.path,
                scratch=Path(scratch),
                environ=os.environ,
                say=context.say,
            )
            workflow = workflow_file(os.environ.get("GITHUB_WORKFLOW_REF", ""), repository)
            for other, reused in search.candidates(group, workflow):
                if not (reason := doubt_of_results(context, folder, other)):
                    take_results(folder, other, reused)
                    return reused
                context.say(f"run {reused.run_id} {reason}")
    except SpyreCiError as error:
        context.say(f"nothing is reused: {error.what}")
    return None
