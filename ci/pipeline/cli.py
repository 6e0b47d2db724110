"""`spyre-ci pipeline`: what pipelines ask, a verb a question; `plan` is beside the other plans, in ci/cli."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ci.config.context import settings_from_context
from ci.config.load import DEFAULT_FILE, Settings
from ci.core.addresses import says_password, shown
from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.core.extras import wanted
from ci.core.github.errors import GitHubAwayError
from ci.core.provider import detect
from ci.core.text import one_line, plain
from ci.core.workflow_commands import defused
from ci.pipeline.comment_text import Comment, Part, render
from ci.pipeline.decide import decide, outputs_of, release_of
from ci.pipeline.diff import touched
from ci.pipeline.event import Event, event_payload, number_at, read_event, text_at
from ci.pipeline.gate import judge, read_needs, refuse_red
from ci.pipeline.in_force import settings_in_force
from ci.pipeline.telling import hand_on, say, show_table
from ci.pipeline.told import read_told

if TYPE_CHECKING:
    from ci.core.github.client import Client
    from ci.pipeline.runs import Run

app = typer.Typer(
    help="What pipelines ask: what runs, how it is split, whether it was enough.", no_args_is_help=True
)

NAME = "spyre-ci"
_WORKFLOW = re.compile(r"\.github/workflows/[A-Za-z0-9][A-Za-z0-9._-]*\.ya?ml")
_NEWER = "the comment tells of a later run, so it stays"


# As GitHub takes them.
MAX_DESCRIPTION = 140
MAX_CONTEXT = 255
# Who has a hand in a repository; see `author_association` of GitHub's REST API.
CONTRIBUTORS = frozenset({"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"})
# Of one context; what is older than so many is older than a build that runs.
MOST_STATUSES = 100
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# As Jenkins has it: the job's page, and below it the build's number. No build has more digits, and Python
# reads no number of thousands of them.
_BUILD = re.compile(r"(https?://\S+/)([0-9]{1,18})/")


class State(StrEnum):
    """What a status says."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


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
    settings = settings_from_context(ctx)
    event = read_event(os.environ)
    change = touched(Path.cwd(), event, base)
    own = settings.path.name if settings.path is not None else DEFAULT_FILE
    ruling = settings_in_force(settings, event, os.environ, Path.cwd())
    decision = decide(event, change, ruling.model, never_docs=(own,))
    say(f"{event.name}: {change.why}")
    rows = [(name, "runs" if one.runs else "-", one.why) for name, one in decision.jobs.items()]
    show_table("What runs", ("job", "", "why"), rows, os.environ)
    for remark in decision.remarks:
        say(remark)
    if ruling.differing:
        say(f"what follows is as {ruling.of} says, not as this change does")
        rows = [(one.key, one.here, one.there) for one in ruling.differing]
        show_table(
            "Takes effect once it is merged", ("setting", "of this change", "in force"), rows, os.environ
        )
    outputs = {**outputs_of(decision, ruling.model), "release": _releases(event)}
    hand_on(outputs, os.environ, out=out, kind="changes")


def _releases(event: Event) -> bool:
    """Whether a release is to be published; said where it is one.

    Raises:
        SpyreCiError: it may not be, or that cannot be told.
    """
    if event.name != "release":
        return False
    found = release_of(event_payload(os.environ, "release"), Path.cwd())
    say(found.why)
    return found.runs


@app.command()
def gate(
    expect: Annotated[str, typer.Option("--expect", help="Jobs that must be accounted for: lint,unit,…")],
) -> None:
    """Judge the jobs of NEEDS, GitHub's toJSON(needs): 0 when all were enough, else 1.

    Example: NEEDS="$(cat needs.json)" spyre-ci pipeline gate --expect lint,unit
    """
    expected = [one.strip() for one in expect.split(",") if one.strip()]
    jobs = judge(read_needs(os.environ.get("NEEDS", "")), expected)
    show_table("Gate", ("job", "", "why"), [(one.name, one.state, one.why) for one in jobs], os.environ)
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
    repository: Annotated[
        str | None, typer.Option("--repository", help="owner/name; default: GITHUB_REPOSITORY.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the comment; a pull request has one of each name.")
    ] = None,
    artifact: Annotated[
        list[str] | None,
        typer.Option("--artifact", help="Names of artifacts that hold a run; default: results*, device.*."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the text and write nothing.")] = False,
) -> None:
    """Write or bring up to date the comment on a pull request, from results that are taken for data.

    Example: spyre-ci pipeline comment runs/ci --pull-request 7 --dry-run
    """
    with wanted("this wants", extra="github"):
        from ci.core.github.client import connect  # noqa: PLC0415  # costs what other verbs need not pay
        from ci.pipeline.gather import keep  # noqa: PLC0415

    settings, environ = settings_from_context(ctx), os.environ
    where = repository or environ.get("GITHUB_REPOSITORY", "")
    if run:
        made = _of_folders(settings, run, base, name or NAME, environ)
        numbers = [pull_request or _number_of_event(environ)] if not dry_run else []
        client = None if dry_run else connect(environ)
    else:
        client = connect(environ)
        found = _of_event(client, where, environ, name=name, base=base, patterns=artifact, asked=pull_request)
        if found is None:
            return
        made, numbers = found
    if dry_run:
        typer.echo("\n".join(map(defused, plain(render(made)).splitlines())))
        return
    for number in numbers:
        done = keep(client, where, number, made) if client is not None else "unchanged"
        say(f"{where}#{number}: the comment is {done}" if done != "newer" else f"{where}#{number}: {_NEWER}")


def _of_folders(
    settings: Settings, folders: list[Path], base: Path | None, name: str, environ: Mapping[str, str]
) -> Comment:
    """The comment on run folders of this machine, in the job that made them.

    Raises:
        SpyreCiError: a folder holds no results.
    """
    provider = detect(environ, epoch_s=time.time())
    against = None if base is None else read_told(_folder(settings, base))
    parts = []
    for folder in folders:
        path = _folder(settings, folder)
        said = "" if against is None else f"run {against.run}"
        parts.append(Part(title=path.name, told=read_told(path), base=against, base_said=said))
    return Comment(
        name=name,
        run_id=provider.run_id,
        attempt=provider.run_attempt,
        sha=_head_of_event(environ) or provider.commit,
        url=provider.url,
        parts=parts,
    )


def _folder(settings: Settings, named: Path) -> Path:
    """A run's folder by its path, or by its name below `runs`."""
    below = settings.resolve(settings.model.runs) / named
    return named if named.is_dir() or not below.is_dir() else below


def _of_event(
    client: Client,
    repository: str,
    environ: Mapping[str, str],
    *,
    name: str | None,
    base: Path | None,
    patterns: list[str] | None,
    asked: int | None,
) -> tuple[Comment, list[int]] | None:
    """The comment on the run that GitHub's event is about, and the pull requests it is of; None for none.

    Raises:
        SpyreCiError: there is no such event, or GitHub does not say.
    """
    from ci.pipeline.gather import ARTIFACTS, Desk, comment_of  # noqa: PLC0415  # as above
    from ci.pipeline.runs import Pull, pulls_of  # noqa: PLC0415

    run = _run_of_event(environ)
    if run is None:
        say("the run is of no pull request: there is nothing to comment on")
        return None
    if not _is_of_ours(run, Path.cwd()):
        say(f"the run is of {run.path or 'no file'}, which is no workflow of this branch: nothing is written")
        return None
    pulls = [Pull(number=asked, base="")] if asked else pulls_of(client, repository, run)
    if not pulls:
        say(f"no open pull request has {run.sha[:12]} as its newest commit: there is nothing to comment on")
        return None
    with tempfile.TemporaryDirectory(prefix="spyre-ci-") as folder:
        desk = Desk(
            client=client,
            repository=repository,
            patterns=patterns or ARTIFACTS,
            folder=Path(folder),
            say=say,
        )
        made = comment_of(desk, run, name or run.name or NAME, base_branch=pulls[0].base, base=base)
    return made, [pull.number for pull in pulls]


def _run_of_event(environ: Mapping[str, str]) -> Run | None:
    """The run of a pull request that has ended, out of the event workflow_run; None for other runs.

    Raises:
        UsageError: the event is another, or tells of no run.
    """
    from ci.pipeline.runs import run_of  # noqa: PLC0415  # as above

    payload = event_payload(environ, "workflow_run")
    run = run_of(payload.get("workflow_run"))
    if run is None:
        raise UsageError(
            "the event tells of no run", where="GITHUB_EVENT_PATH", remedy="begin this by workflow_run"
        )
    return run if run.event == "pull_request" else None


def _is_of_ours(run: Run, checkout: Path) -> bool:
    """Whether a run is of a workflow that is checked out here, which is the default branch.

    GitHub tells of runs by their workflow's name, and a pull request can bring a file of any name.
    """
    return bool(_WORKFLOW.fullmatch(run.path)) and (checkout / run.path).is_file()


def _number_of_event(environ: Mapping[str, str]) -> int:
    """The pull request of the event.

    Raises:
        UsageError: the event is of none.
    """
    if environ.get("GITHUB_EVENT_NAME") == "pull_request":
        payload = event_payload(environ, "pull_request")
        if number := number_at(payload, "pull_request", "number"):
            return number
    raise UsageError(
        "no pull request is named", remedy="give --pull-request N, or begin this by pull_request"
    )


def _head_of_event(environ: Mapping[str, str]) -> str:
    """The pull request's own commit: what is checked out is what it was merged into."""
    if environ.get("GITHUB_EVENT_NAME") != "pull_request":
        return ""
    return text_at(event_payload(environ, "pull_request"), "pull_request", "head", "sha")


@app.command()
def status(  # typer makes options of them
    repository: Annotated[str, typer.Option("--repository", help="owner/name.")],
    sha: Annotated[str, typer.Option("--sha", help="The commit, by its whole name.")],
    state: Annotated[State, typer.Option("--state", help="What it says.")],
    context: Annotated[str, typer.Option("--context", help="By which a branch requires it.")] = "spyre-ci",
    description: Annotated[str, typer.Option("--description", help="A short line for people.")] = "",
    url: Annotated[str, typer.Option("--url", help="Page of the run.")] = "",
) -> None:
    """Set a commit's status; GITHUB_API_URL says where, such as https://github.example.com/api/v3.

    Where a newer build of the same Jenkins job has set it, it stays that one's.

    Example: spyre-ci pipeline status --repository o/r --sha "$GIT_COMMIT" --state pending --url "$BUILD_URL"
    """
    with wanted("this wants", extra="github"):
        # costs what other verbs need not pay
        from ci.core.github.client import connect, in_repository  # noqa: PLC0415

    body = status_of(sha, state, context=context, description=description, url=url)
    path = in_repository(repository, "statuses", sha)
    client = connect(os.environ)
    if _BUILD.fullmatch(url):
        known = client.pages(in_repository(repository, "commits", sha, "statuses"), most=MOST_STATUSES)
        if newer := overtaken(url, body["context"], known):
            say(f"{repository}@{sha[:12]}: {body['context']} is a newer build's: {newer}")
            return
    # The newest of a context counts, so that one sent twice changes nothing.
    client.send("POST", path, body, again=True)
    say(f"{repository}@{sha[:12]}: {body['context']} is {body['state']}")


class StrangerError(SpyreCiError):
    """A pull request of somebody who has not contributed before."""

    exit_code = EXIT_TEST_FAILED


@app.command()
def head(
    repository: Annotated[str, typer.Option("--repository", help="owner/name.")],
    pull_request: Annotated[int, typer.Option("--pull-request", min=1, help="Its number.")],
    of_anybody: Annotated[
        bool, typer.Option("--of-anybody", help="Whoever opened it: somebody has looked at it.")
    ] = False,
) -> None:
    """Print the head commit of a pull request; ends with 1 where its author has not contributed before.

    Example: spyre-ci pipeline head --repository o/r --pull-request 7
    """
    with wanted("this wants", extra="github"):
        from ci.core.github.client import connect, in_repository  # noqa: PLC0415  # as above

    found = connect(os.environ).get(in_repository(repository, "pulls", pull_request))
    sha, author = text_at(found, "head", "sha"), text_at(found, "author_association")
    if not _SHA.fullmatch(sha):
        raise GitHubAwayError(
            f"GitHub names no head of {repository}#{pull_request}", remedy="check the API's address"
        )
    if not of_anybody and author not in CONTRIBUTORS:
        raise StrangerError(
            f"the author of {repository}#{pull_request} is no contributor: {author or 'unknown'!r:.40}",
            remedy="look at the change, then start its build by hand",
        )
    typer.echo(sha)


def overtaken(url: str, context: str, statuses: Iterable[Mapping[str, Any]]) -> str:
    """The page of a newer build of the same job that has set a status; empty where none has; pure.

    Args:
        url: page of this build.
        context: of the status.
        statuses: of the commit, the newest first.
    """
    mine = _BUILD.fullmatch(url)
    newest = next((one for one in statuses if one.get("context") == context), {})
    other = _BUILD.fullmatch(str(newest.get("target_url") or ""))
    if mine is None or other is None or mine[1] != other[1] or int(other[2]) <= int(mine[2]):
        return ""
    return other[0]


def status_of(sha: str, state: State, *, context: str, description: str, url: str) -> dict[str, str]:
    """The status as GitHub takes it; pure.

    Raises:
        UsageError: the commit, the context or the address is none.
    """
    if not _SHA.fullmatch(sha):
        raise UsageError(f"{sha!r:.80} is no commit", where="--sha", remedy="give its whole name, 40 digits")
    named = one_line(context, MAX_CONTEXT + 1)
    if not named or len(named) > MAX_CONTEXT:
        raise UsageError(
            f"the context has {len(named)} characters", where="--context", remedy=f"give 1 to {MAX_CONTEXT}"
        )
    body = {"state": state.value, "context": named}
    if description:
        body["description"] = one_line(description, MAX_DESCRIPTION)
    if url:
        if not re.fullmatch(r"https?://[^\s\"'<>]+", url) or says_password(url):
            raise UsageError(
                f"{shown(url)!r:.200} is no address for everybody",
                where="--url",
                remedy="give the page's URL",
            )
        body["target_url"] = url
    return body
