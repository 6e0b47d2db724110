"""`spyre-ci pipeline rerun`: a comment asks for what failed to be run again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ci.errors import UsageError
from ci.pipeline.extra import extra
from ci.pipeline.payload import event_payload, text_at
from ci.pipeline.telling import say

if TYPE_CHECKING:
    from ci.github.client import Client
    from ci.pipeline.rerun import Asked, Head
    from ci.pipeline.runs import Run

DONE, NOT_DONE = "rocket", "confused"
TOO_OLD = (
    "GitHub did not start the jobs again: they may be running, or be older than a month. Pushing a commit "
    "starts everything anew."
)


def rerun(
    repository: Annotated[
        str | None, typer.Option("--repository", help="owner/name; default: GITHUB_REPOSITORY.")
    ] = None,
) -> None:
    """Run the failed jobs of a pull request again, as a comment asks, and answer it.

    Example: GITHUB_EVENT_NAME=issue_comment GITHUB_EVENT_PATH=event.json spyre-ci pipeline rerun
    """
    with extra():
        from ci.github.access import connect  # noqa: PLC0415  # costs what other verbs need not pay
        from ci.pipeline.rerun import asked_by  # noqa: PLC0415

    where = repository or os.environ.get("GITHUB_REPOSITORY", "")
    asked = asked_by(event_payload(os.environ, "issue_comment"))
    if asked is None:
        say("the comment asks for nothing")
        return
    _answer(connect(os.environ), where, asked)


def _answer(client: Client, repository: str, asked: Asked) -> None:
    """Do what is asked, or say why not; both where the comment stands.

    Raises:
        SpyreCiError: GitHub does not say, or does not take it.
    """
    from ci.pipeline.rerun import decide, of_head  # noqa: PLC0415  # as above
    from ci.pipeline.runs import runs_of  # noqa: PLC0415

    runs: list[Run] = []
    if asked.may and asked.is_open:
        head = _head_of(client, repository, asked)
        runs = of_head(runs_of(client, repository, head_sha=head.sha), head)
    decision = decide(asked, runs)
    refused = [run for run in decision.runs if not _started(client, repository, run)]
    reply = decision.reply or (TOO_OLD if len(refused) == len(decision.runs) else "")
    _react(client, repository, asked, NOT_DONE if reply else DONE)
    if reply:
        from ci.github.client import in_repository  # noqa: PLC0415  # as above

        path = in_repository(repository, "issues", asked.pull_request, "comments")
        client.send("POST", path, {"body": reply})
        say(reply)


def _head_of(client: Client, repository: str, asked: Asked) -> Head:
    from ci.github.client import in_repository  # noqa: PLC0415  # as above
    from ci.pipeline.rerun import Head  # noqa: PLC0415  # as above

    told = client.get(in_repository(repository, "pulls", asked.pull_request))
    sha = text_at(told, "head", "sha")
    if not sha:
        raise UsageError("GitHub names no commit of the pull request", remedy="look at the pull request")
    return Head(
        sha=sha,
        branch=text_at(told, "head", "ref"),
        repository=text_at(told, "head", "repo", "full_name"),
    )


def _started(client: Client, repository: str, run: Run) -> bool:
    """Whether the failed jobs of a run were started again; GitHub refuses those that go on or are too old."""
    from ci.github.client import in_repository  # noqa: PLC0415  # as above
    from ci.github.errors import GitHubDeniedError, GitHubRefusedError  # noqa: PLC0415

    try:
        client.send("POST", in_repository(repository, "actions", "runs", run.id, "rerun-failed-jobs"))
    except (GitHubDeniedError, GitHubRefusedError) as error:
        # A right that the token lacks is ours to mend, and no matter of the run.
        if "not accessible" in error.what or "with 401" in error.what:
            raise
        say(f"run {run.id}: {error.what}")
        return False
    say(f"run {run.id} ({run.name}): its failed jobs run again")
    return True


def _react(client: Client, repository: str, asked: Asked, content: str) -> None:
    """Mark the comment as seen to; GitHub keeps one of a kind, so that it may be sent twice."""
    from ci.github.client import in_repository  # noqa: PLC0415  # as above

    path = in_repository(repository, "issues", "comments", asked.comment, "reactions")
    client.send("POST", path, {"content": content}, again=True)
