"""`spyre-ci pipeline`: what pipelines ask, a verb a question; those that plan and report are beside it."""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from ci.config.context import settings_from_context
from ci.config.load import DEFAULT_FILE
from ci.core.errors import UsageError
from ci.core.github.client import connect
from ci.core.provider import detect
from ci.core.text import plain
from ci.core.workflow_commands import defused
from ci.pipeline.base_settings import judging_settings
from ci.pipeline.comment import Gathering, keep
from ci.pipeline.comment_text import Comment, Part, render
from ci.pipeline.decide import decide, outputs_of, release_of
from ci.pipeline.diff import touched
from ci.pipeline.event import event_payload, read_event
from ci.pipeline.gate import judge, read_needs, refuse_red
from ci.pipeline.github_runs import Actions, run_of
from ci.pipeline.outputs import Out, hand_on, say, show_table
from ci.pipeline.status import head_of, set_status, status_of
from ci.report.reader import read_run

app = typer.Typer(no_args_is_help=True)

NAME = "spyre-ci"
_WORKFLOW = re.compile(r"\.github/workflows/[A-Za-z0-9][A-Za-z0-9._-]*\.ya?ml")
Repository = Annotated[str, typer.Option("--repository", help="owner/name.")]


@app.command()
def changes(
    ctx: typer.Context,
    base: Annotated[
        str | None, typer.Option("--base", help="Commit or branch to compare with; default: the event's.")
    ] = None,
    out: Out = None,
) -> None:
    """Decide which jobs a change runs, by what it touches, its event and its labels.

    Example: spyre-ci pipeline changes --base main --out changes.json
    """
    own = settings_from_context(ctx)
    event = read_event(os.environ)
    change = touched(Path.cwd(), event, base)
    settings, said = judging_settings(own, event, os.environ, Path.cwd())
    file = own.path.name if own.path is not None else DEFAULT_FILE
    decision = decide(event, change, settings.model, never_docs=(file,))
    say(f"{event.name}: {change.why}")
    rows = [(name, "runs" if one.runs else "-", one.why) for name, one in decision.jobs.items()]
    show_table("What runs", ("job", "", "why"), rows)
    for remark in filter(None, (*decision.remarks, said)):
        say(remark)
    releases = False
    if event.name == "release":
        found = release_of(event_payload(os.environ, "release"), Path.cwd())
        releases = found.runs
        say(found.why)
    hand_on({**outputs_of(decision, settings.model), "release": releases}, out=out, kind="changes")


@app.command()
def gate(
    expect: Annotated[str, typer.Option("--expect", help="Required jobs: lint,unit,…")],
) -> None:
    """Exit with 0 if all expected jobs of NEEDS (GitHub's toJSON(needs)) passed, else with 1.

    Example: NEEDS="$(cat needs.json)" spyre-ci pipeline gate --expect lint,unit
    """
    expected = [one.strip() for one in expect.split(",") if one.strip()]
    jobs = judge(read_needs(os.environ.get("NEEDS", "")), expected)
    show_table("Gate", ("job", "", "why"), [(one.name, one.state, one.why) for one in jobs])
    refuse_red(jobs)


@app.command()
def comment(
    run: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN", help="Run folders; default: the artifacts of the run in GitHub's event."
        ),
    ] = None,
    base: Annotated[Path | None, typer.Option("--base", help="Run folder of main to compare with.")] = None,
    pull_request: Annotated[
        int | None, typer.Option("--pull-request", min=1, help="Number of the pull request.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the comment; a pull request has one per name.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the comment and post nothing.")] = False,
) -> None:
    """Create or update the comment on a pull request, from results that are treated as untrusted.

    Example: spyre-ci pipeline comment runs/ci --pull-request 7 --dry-run
    """
    repository = os.environ.get("GITHUB_REPOSITORY", "")
    if not run and (base is not None or pull_request is not None):
        raise UsageError(
            "needs a run folder: without one, the event names the pull request",
            where="--base" if base is not None else "--pull-request",
            remedy="name the folders, such as runs/ci, or leave it out",
        )
    if not run:
        made, numbers = _comment_of_event(repository, name)
    elif pull_request is None and not dry_run:
        raise UsageError("no pull request is named", remedy="give --pull-request N")
    else:
        made, numbers = _comment_of_folders(run, base, name or NAME), [pull_request or 0]
    if made is None:
        return
    if dry_run:
        typer.echo("\n".join(map(defused, plain(render(made)).splitlines())))
        return
    client = connect(os.environ)
    for number in numbers:
        done = keep(client, repository, number, made)
        later = "the comment is about a later run, so it stays"
        say(f"{repository}#{number}: {later if done == 'newer' else f'the comment is {done}'}")


def _comment_of_folders(folders: list[Path], base: Path | None, name: str) -> Comment:
    """The comment on run folders of this machine, in the job that made them.

    Raises:
        SpyreCiError: a folder holds no results.
    """
    provider = detect(os.environ, epoch_s=time.time())
    main = None if base is None else read_run(base)
    said = "" if main is None else f"run {main.summary.run}"
    return Comment(
        name=name,
        run_id=provider.run_id,
        attempt=provider.run_attempt,
        sha=provider.commit,
        url=provider.url,
        parts=[Part(title=one.name, run=read_run(one), base=main, base_said=said) for one in folders],
    )


def _comment_of_event(repository: str, name: str | None) -> tuple[Comment | None, list[int]]:
    """The comment on the run that has ended, by the event, and its pull requests; None, said why, for none.

    Raises:
        UsageError: the event is another, or tells of no run.
        SpyreCiError: GitHub does not say.
    """
    run = run_of(event_payload(os.environ, "workflow_run").get("workflow_run"))
    if run is None:
        remedy = "start this workflow on workflow_run"
        raise UsageError("the event names no run", where="GITHUB_EVENT_PATH", remedy=remedy)
    if run.event != "pull_request":
        say("the run does not belong to a pull request: there is nothing to comment on")
        return None, []
    if run.conclusion == "skipped":  # such as ciflow.yml, by a label that asks for nothing
        say("the run was skipped: there is nothing to comment on")
        return None, []
    # GitHub tells of runs by their workflow's name, and a pull request can bring a file of any name; what is
    # checked out here is the default branch.
    if not _WORKFLOW.fullmatch(run.path) or not Path(run.path).is_file():
        say(f"the run is of {run.path or 'no file'}, not a workflow of this branch: nothing is posted")
        return None, []
    actions = Actions(client=connect(os.environ), repository=repository)
    pulls = actions.pulls_of(run)
    if not pulls:
        say(f"no open pull request has {run.sha[:12]} as its newest commit: there is nothing to comment on")
        return None, []
    with tempfile.TemporaryDirectory(prefix="spyre-ci-") as folder:
        made = Gathering(actions, Path(folder), say).comment(run, name or run.name or NAME, pulls[0][1])
    return made, [number for number, _ in pulls]


@app.command()
def status(
    repository: Repository,
    sha: Annotated[str, typer.Option("--sha", help="The commit, all 40 digits.")],
    state: Annotated[
        Literal["pending", "success", "failure", "error"], typer.Option("--state", help="State to set.")
    ],
    context: Annotated[
        str, typer.Option("--context", help="Name of the status, as branch protection requires it.")
    ] = NAME,
    description: Annotated[str, typer.Option("--description", help="A short line for people.")] = "",
    url: Annotated[str, typer.Option("--url", help="URL of the run's page.")] = "",
) -> None:
    """Set a commit's status; GITHUB_API_URL says where, such as https://github.example.com/api/v3.

    A status set by a newer build of the same Jenkins job is kept.

    Example: spyre-ci pipeline status --repository o/r --sha "$GIT_COMMIT" --state pending --url "$BUILD_URL"
    """
    body = status_of(sha, state, context=context, description=description, url=url)
    say(set_status(connect(os.environ), repository, sha, body))


@app.command()
def head(
    repository: Repository,
    pull_request: Annotated[int, typer.Option("--pull-request", min=1, help="Number of the pull request.")],
    of_anybody: Annotated[
        bool, typer.Option("--of-anybody", help="Accept any author: a maintainer has reviewed it.")
    ] = False,
) -> None:
    """Print the head commit of a pull request; exit with 1 where its author has not contributed before.

    Example: spyre-ci pipeline head --repository o/r --pull-request 7
    """
    typer.echo(head_of(connect(os.environ), repository, pull_request, of_anybody=of_anybody))
