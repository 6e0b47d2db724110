"""`spyre-ci pipeline`: what pipelines ask, a verb a question; those that plan and report are beside it."""

from __future__ import annotations

import os
import re
import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.load import DEFAULT_FILE, Settings
from ci.core.errors import UsageError
from ci.core.extras import wanted
from ci.core.provider import detect
from ci.core.text import plain
from ci.core.workflow_commands import defused
from ci.pipeline.base_settings import judging_settings
from ci.pipeline.comment_text import Comment, Part, render
from ci.pipeline.decide import decide, outputs_of, release_of
from ci.pipeline.diff import touched
from ci.pipeline.event import event_payload, number_at, read_event, text_at
from ci.pipeline.gate import judge, read_needs, refuse_red
from ci.pipeline.outputs import hand_on, say, show_table
from ci.report.reader import read_run

if TYPE_CHECKING:
    from ci.core.github.client import Client
    from ci.pipeline.github_runs import Run

app = typer.Typer(
    help="What pipelines ask: what runs, how it is split, whether it was enough.", no_args_is_help=True
)

NAME = "spyre-ci"
_WORKFLOW = re.compile(r"\.github/workflows/[A-Za-z0-9][A-Za-z0-9._-]*\.ya?ml")
Repository = Annotated[str, typer.Option("--repository", help="owner/name.")]


class State(StrEnum):
    """What a status says."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


def _connect() -> Client:
    """GitHub's API, by a library that other verbs need not have."""
    with wanted("this wants", extra="github"):
        from ci.core.github.client import connect  # noqa: PLC0415  # an extra

    return connect(os.environ)


@app.command()
def changes(
    ctx: typer.Context,
    base: Annotated[
        str | None, typer.Option("--base", help="Commit or branch to compare with; default: the event's.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File that takes the outputs as JSON.")] = None,
) -> None:
    """Say which jobs a change runs, by what it touches, its event and its labels.

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
    expect: Annotated[str, typer.Option("--expect", help="Jobs that must be accounted for: lint,unit,…")],
) -> None:
    """Judge the jobs of NEEDS, GitHub's toJSON(needs): 0 when all were enough, else 1.

    Example: NEEDS="$(cat needs.json)" spyre-ci pipeline gate --expect lint,unit
    """
    expected = [one.strip() for one in expect.split(",") if one.strip()]
    jobs = judge(read_needs(os.environ.get("NEEDS", "")), expected)
    show_table("Gate", ("job", "", "why"), [(one.name, one.state, one.why) for one in jobs])
    refuse_red(jobs)


@app.command()
def comment(  # typer makes options of them
    ctx: typer.Context,
    run: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="Run folders; default: what the run of GitHub's event handed on."),
    ] = None,
    base: Annotated[Path | None, typer.Option("--base", help="Run folder of main to compare with.")] = None,
    pull_request: Annotated[int | None, typer.Option("--pull-request", min=1, help="Its number.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the comment; a pull request has one of each name.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the text and write nothing.")] = False,
) -> None:
    """Write or bring up to date the comment on a pull request, from results that are taken for data.

    Example: spyre-ci pipeline comment runs/ci --pull-request 7 --dry-run
    """
    with wanted("this wants", extra="github"):
        from ci.pipeline.comment import keep  # noqa: PLC0415  # an extra

    repository = os.environ.get("GITHUB_REPOSITORY", "")
    if run:
        numbers = [] if dry_run else [pull_request or _number_of_event()]
        made = _comment_of_folders(settings_from_context(ctx), run, base, name or NAME)
    elif (found := _comment_of_event(repository, name)) is not None:
        made, numbers = found
    else:
        return
    if dry_run:
        typer.echo("\n".join(map(defused, plain(render(made)).splitlines())))
        return
    client = _connect()
    for number in numbers:
        done = keep(client, repository, number, made)
        later = "the comment tells of a later run, so it stays"
        say(f"{repository}#{number}: {later if done == 'newer' else f'the comment is {done}'}")


def _comment_of_folders(settings: Settings, folders: list[Path], base: Path | None, name: str) -> Comment:
    """The comment on run folders of this machine, in the job that made them.

    Raises:
        SpyreCiError: a folder holds no results.
    """

    def folder(named: Path) -> Path:
        # By its path, or by its name below `runs`.
        below = settings.resolve(settings.model.runs) / named
        return named if named.is_dir() or not below.is_dir() else below

    provider = detect(os.environ, epoch_s=time.time())
    main = None if base is None else read_run(folder(base))
    said = "" if main is None else f"run {main.summary.run}"
    sha = ""
    if os.environ.get("GITHUB_EVENT_NAME") == "pull_request":
        # What is checked out is what the pull request's own commit was merged into.
        sha = text_at(event_payload(os.environ, "pull_request"), "pull_request", "head", "sha")
    return Comment(
        name=name,
        run_id=provider.run_id,
        attempt=provider.run_attempt,
        sha=sha or provider.commit,
        url=provider.url,
        parts=[
            Part(title=folder(one).name, run=read_run(folder(one)), base=main, base_said=said)
            for one in folders
        ],
    )


def _number_of_event() -> int:
    """The pull request of the event.

    Raises:
        UsageError: the event is of none.
    """
    if os.environ.get("GITHUB_EVENT_NAME") == "pull_request":
        payload = event_payload(os.environ, "pull_request")
        if number := number_at(payload, "pull_request", "number"):
            return number
    remedy = "give --pull-request N, or begin this by pull_request"
    raise UsageError("no pull request is named", remedy=remedy)


def _comment_of_event(repository: str, name: str | None) -> tuple[Comment, list[int]] | None:
    """The comment on the run that GitHub's event is about, and the pull requests it is of; None for none.

    Raises:
        SpyreCiError: there is no such event, or GitHub does not say.
    """
    from ci.pipeline.comment import Gathering  # noqa: PLC0415  # as above
    from ci.pipeline.github_runs import Actions  # noqa: PLC0415

    run = _run_of_event()
    if run is None:
        return None
    actions = Actions(client=_connect(), repository=repository)
    pulls = actions.pulls_of(run)
    if not pulls:
        say(f"no open pull request has {run.sha[:12]} as its newest commit: there is nothing to comment on")
        return None
    with tempfile.TemporaryDirectory(prefix="spyre-ci-") as folder:
        gathering = Gathering(actions=actions, folder=Path(folder), say=say)
        made = gathering.comment(run, name or run.name or NAME, pulls[0][1])
    return made, [number for number, _ in pulls]


def _run_of_event() -> Run | None:
    """The run that has ended, out of the event workflow_run; None, said why, where it is not commented on.

    Raises:
        UsageError: the event is another, or tells of no run.
    """
    from ci.pipeline.github_runs import run_of  # noqa: PLC0415  # as above

    run = run_of(event_payload(os.environ, "workflow_run").get("workflow_run"))
    if run is None:
        remedy = "begin this by workflow_run"
        raise UsageError("the event tells of no run", where="GITHUB_EVENT_PATH", remedy=remedy)
    if run.event != "pull_request":
        say("the run is of no pull request: there is nothing to comment on")
        return None
    # GitHub tells of runs by their workflow's name, and a pull request can bring a file of any name; what is
    # checked out here is the default branch.
    if not _WORKFLOW.fullmatch(run.path) or not Path(run.path).is_file():
        say(f"the run is of {run.path or 'no file'}, which is no workflow of this branch: nothing is written")
        return None
    return run


@app.command()
def status(  # typer makes options of them
    repository: Repository,
    sha: Annotated[str, typer.Option("--sha", help="The commit, by its whole name.")],
    state: Annotated[State, typer.Option("--state", help="What it says.")],
    context: Annotated[str, typer.Option("--context", help="By which a branch requires it.")] = NAME,
    description: Annotated[str, typer.Option("--description", help="A short line for people.")] = "",
    url: Annotated[str, typer.Option("--url", help="Page of the run.")] = "",
) -> None:
    """Set a commit's status; GITHUB_API_URL says where, such as https://github.example.com/api/v3.

    Where a newer build of the same Jenkins job has set it, it stays that one's.

    Example: spyre-ci pipeline status --repository o/r --sha "$GIT_COMMIT" --state pending --url "$BUILD_URL"
    """
    with wanted("this wants", extra="github"):
        from ci.pipeline.status import set_status, status_of  # noqa: PLC0415  # an extra

    body = status_of(sha, state.value, context=context, description=description, url=url)
    say(set_status(_connect(), repository, sha, body))


@app.command()
def head(
    repository: Repository,
    pull_request: Annotated[int, typer.Option("--pull-request", min=1, help="Its number.")],
    of_anybody: Annotated[
        bool, typer.Option("--of-anybody", help="Whoever opened it: somebody has looked at it.")
    ] = False,
) -> None:
    """Print the head commit of a pull request; ends with 1 where its author has not contributed before.

    Example: spyre-ci pipeline head --repository o/r --pull-request 7
    """
    with wanted("this wants", extra="github"):
        from ci.pipeline.status import head_of  # noqa: PLC0415  # an extra

    typer.echo(head_of(_connect(), repository, pull_request, of_anybody=of_anybody))
