"""`spyre-ci pipeline comment`: the one comment on a pull request."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.load import Settings
from ci.core.errors import UsageError
from ci.core.provider import detect
from ci.core.text import plain
from ci.core.workflow_commands import defused
from ci.pipeline.comment_part import Part
from ci.pipeline.comment_text import Comment, render
from ci.pipeline.extra import extra
from ci.pipeline.payload import event_payload, number_at, text_at
from ci.pipeline.telling import say
from ci.pipeline.told import read_told

if TYPE_CHECKING:
    from ci.core.github.client import Client
    from ci.pipeline.runs import Run

NAME = "spyre-ci"
_WORKFLOW = re.compile(r"\.github/workflows/[A-Za-z0-9][A-Za-z0-9._-]*\.ya?ml")
_NEWER = "the comment tells of a later run, so it stays"


def comment(  # noqa: PLR0917  # typer makes options of them
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
    with extra():
        from ci.core.github.access import connect  # noqa: PLC0415  # costs what other verbs need not pay
        from ci.pipeline.commenting import keep  # noqa: PLC0415

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
