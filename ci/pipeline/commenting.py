"""Keeping the one comment of a pull request up to date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ci.core.github.client import Client, in_repository
from ci.core.github.errors import GitHubAwayError
from ci.pipeline.comment_text import Comment, marked, render
from ci.pipeline.payload import number_at, text_at

MAX_COMMENTS = 5_000
Done = Literal["created", "updated", "unchanged", "newer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """A comment of ours that is there."""

    id: int
    run: tuple[int, int]
    body: str


def keep(client: Client, repository: str, number: int, comment: Comment) -> Done:
    """Write the comment, or change the one that is there; `newer` where that tells of a later run.

    Raises:
        GitHubError: GitHub does not take it.
    """
    body = render(comment)
    there = find(client, repository, number, comment.name)
    if there is None:
        return _create(client, repository, number, comment, body)
    if there.run > (comment.run_id, comment.attempt):
        return "newer"
    # GitHub keeps no blanks at the end.
    if there.body.strip() == body.strip():
        return "unchanged"
    client.send("PATCH", in_repository(repository, "issues", "comments", there.id), {"body": body})
    return "updated"


def find(client: Client, repository: str, number: int, name: str) -> There | None:
    """The comment of a name: it begins with our mark, and we wrote it; the first where there are several.

    Raises:
        GitHubError: GitHub does not say.
    """
    login = client.login()
    path = in_repository(repository, "issues", number, "comments")
    for row in client.pages(path, most=MAX_COMMENTS):
        body = text_at(row, "body")
        # Anybody can write our mark into a comment.
        if text_at(row, "user", "login") == login and (run := marked(body, name)) is not None:
            return There(id=number_at(row, "id"), run=run, body=body)
    return None


def _create(client: Client, repository: str, number: int, comment: Comment, body: str) -> Done:
    path = in_repository(repository, "issues", number, "comments")
    try:
        mine = number_at(client.send("POST", path, {"body": body}), "id")
    except GitHubAwayError:
        # It may have been written, and only the answer lost: a second one would stay for ever.
        if find(client, repository, number, comment.name) is None:
            raise
        return "created"
    first = find(client, repository, number, comment.name)
    if not mine or first is None or first.id >= mine:
        return "created"
    # Another job wrote one at the same moment. All keep the first of them.
    client.send("DELETE", in_repository(repository, "issues", "comments", mine))
    return keep(client, repository, number, comment)
