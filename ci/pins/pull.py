"""The pull request of a change: found where it is there, opened where it never was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ci.core.github.client import Client, in_repository
from ci.core.github.errors import GitHubAwayError, GitHubRefusedError

# GitHub takes 65,536 characters; counted in bytes, whoever counts otherwise finds fewer.
MAX_BYTES = 65_000
MAX_TITLE = 250
_CUT = "\n\nThe rest is left out here for its size; `spyre-ci pins checklist` prints it whole.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A pull request.

    Attributes:
        number: of it.
        url: its page.
        state: `opened` just now, else `open`, `closed` or `merged`.
        base: the branch it is to go into, or went into.
    """

    number: int
    url: str
    state: str
    base: str


class Proposed(Protocol):
    """What a pull request is opened for."""

    @property
    def branch(self) -> str:
        """That has it."""

    @property
    def title(self) -> str:
        """What it does, on one line."""

    @property
    def text(self) -> str:
        """The same at length, as Markdown."""


def find_pull(client: Client, repository: str, branch: str) -> Pull | None:
    """The newest pull request of a branch, open or not; None where there never was one.

    Args:
        client: of GitHub.
        repository: owner/name.
        branch: in it.

    Raises:
        GitHubError: see `ci.core.github.errors`.
    """
    owner = repository.partition("/")[0]
    query: dict[str, str | int] = {"head": f"{owner}:{branch}", "state": "all"}
    rows = client.pages(in_repository(repository, "pulls"), query, most=100)
    if not rows:
        return None
    return _pull(rows[0], "merged" if rows[0].get("merged_at") else str(rows[0].get("state")))


def open_pull(client: Client, repository: str, change: Proposed, *, base: str) -> Pull:
    """Open a pull request for a change's branch; one that is open already stays as it is.

    Args:
        client: of GitHub.
        repository: owner/name.
        change: whose branch is there.
        base: the branch it is to go into; empty: the repository's own.

    Raises:
        GitHubError: see `ci.core.github.errors`.
    """
    body = {
        "title": change.title[:MAX_TITLE],
        "head": change.branch,
        "base": base or _default_branch(client, repository),
        "body": clipped(change.text),
    }
    try:
        made = client.send("POST", in_repository(repository, "pulls"), body)
    except GitHubRefusedError as error:
        # Somebody else may have opened it meanwhile.
        there = find_pull(client, repository, change.branch) if "already exists" in error.what else None
        if there is None:
            raise
        return there
    return _pull(made, "opened")


def clipped(text: str) -> str:
    """As much of a text as GitHub takes, whole lines; pure."""
    if len(text.encode()) <= MAX_BYTES:
        return text
    cut = text.encode()[: MAX_BYTES - len(_CUT)].decode(errors="ignore")
    return cut.rpartition("\n")[0] + _CUT


def _default_branch(client: Client, repository: str) -> str:
    told = client.get(in_repository(repository))
    return str(told.get("default_branch") or "main") if isinstance(told, dict) else "main"


def _pull(row: Any, state: str) -> Pull:
    try:
        base = str(row["base"]["ref"])
        return Pull(number=int(row["number"]), url=str(row["html_url"]), state=state, base=base)
    except (KeyError, TypeError, ValueError) as error:
        raise GitHubAwayError("the answer is no pull request", remedy="check the API's address") from error
