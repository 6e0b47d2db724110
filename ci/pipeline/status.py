"""A commit's status for CIs that are not GitHub's, and the pull request's head that it is of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ci.core.addresses import says_password, shown
from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.core.github.client import Client, in_repository
from ci.core.github.errors import GitHubAwayError
from ci.core.text import one_line
from ci.pipeline.event import SHA, text_at

# As GitHub takes it.
MAX_DESCRIPTION = 140
# Of one context; what is older than so many is older than a build that runs.
MOST_STATUSES = 100
# Who has a hand in a repository; see `author_association` of GitHub's REST API.
CONTRIBUTORS = frozenset({"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"})
# As Jenkins has it: the job's page, and below it the build's number. No build has more digits, and Python
# reads no number of thousands of them.
_BUILD = re.compile(r"(https?://\S+/)([0-9]{1,18})/")


class StrangerError(SpyreCiError):
    """A pull request of somebody who has not contributed before."""

    exit_code = EXIT_TEST_FAILED


def set_status(client: Client, repository: str, sha: str, body: Mapping[str, str]) -> str:
    """Set a status that `status_of` made, and say what was done.

    A status set by a newer build of the same Jenkins job is kept.

    Raises:
        GitHubError: GitHub does not take it.
    """
    url, context = body.get("target_url", ""), body["context"]
    if _BUILD.fullmatch(url):
        known = client.pages(in_repository(repository, "commits", sha, "statuses"), most=MOST_STATUSES)
        if newer := overtaken(url, context, known):
            return f"{repository}@{sha[:12]}: {context} was set by a newer build: {newer}"
    # The newest of a context counts, so that one sent twice changes nothing.
    client.send("POST", in_repository(repository, "statuses", sha), body, again=True)
    return f"{repository}@{sha[:12]}: {context} is {body['state']}"


def overtaken(url: str, context: str, statuses: Iterable[Mapping[str, Any]]) -> str:
    """The page of a newer build of the same job that has set a status; empty where none has; pure.

    Args:
        url: page of this build.
        context: of the status.
        statuses: of the commit, the newest first.
    """
    newest = next((one for one in statuses if one.get("context") == context), {})
    mine, other = _BUILD.fullmatch(url), _BUILD.fullmatch(text_at(newest, "target_url"))
    if mine is None or other is None or mine[1] != other[1] or int(other[2]) <= int(mine[2]):
        return ""
    return other[0]


def status_of(sha: str, state: str, *, context: str, description: str, url: str) -> dict[str, str]:
    """A status as GitHub takes it; pure.

    Raises:
        UsageError: the commit or the address is none.
    """
    if not SHA.fullmatch(sha):
        raise UsageError(f"{sha!r:.80} is not a commit", where="--sha", remedy="give all its 40 digits")
    body = {
        "state": state,
        "context": one_line(context),
        "description": one_line(description, MAX_DESCRIPTION),
    }
    if url:
        if not re.fullmatch(r"https?://[^\s\"'<>]+", url) or says_password(url):
            said = f"{shown(url)!r:.200} is not an http(s) URL without a password"
            raise UsageError(said, where="--url", remedy="give the page's URL")
        body["target_url"] = url
    return body


def head_of(client: Client, repository: str, number: int, *, of_anybody: bool) -> str:
    """The head commit of a pull request.

    Args:
        client: of GitHub's API.
        repository: owner/name.
        number: of the pull request.
        of_anybody: whether its author need not have contributed before.

    Raises:
        StrangerError: the author has not contributed before.
        GitHubError: GitHub does not say.
    """
    found = client.get(in_repository(repository, "pulls", number))
    sha, author = text_at(found, "head", "sha"), text_at(found, "author_association")
    if not SHA.fullmatch(sha):
        said = f"GitHub returns no head commit of {repository}#{number}"
        raise GitHubAwayError(said, remedy="check the API's address")
    if not of_anybody and author not in CONTRIBUTORS:
        raise StrangerError(
            f"the author of {repository}#{number} is not a contributor: {author or 'unknown'!r:.40}",
            remedy="look at the change, then start its build by hand",
        )
    return sha
