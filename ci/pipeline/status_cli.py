"""`spyre-ci pipeline status`: a commit's status on GitHub or GitHub Enterprise, for Jenkins and others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from ci.core.addresses import says_password, shown
from ci.core.errors import UsageError
from ci.core.text import one_line
from ci.pipeline.extra import extra
from ci.pipeline.telling import say

# As GitHub takes them.
MAX_DESCRIPTION = 140
MAX_CONTEXT = 255
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


def status(  # noqa: PLR0917  # typer makes options of them
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
    with extra():
        from ci.core.github.access import connect  # noqa: PLC0415  # costs what other verbs need not pay
        from ci.core.github.client import in_repository  # noqa: PLC0415

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
