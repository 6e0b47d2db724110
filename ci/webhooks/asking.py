"""Asking GitHub for heads, page by page; what did not change costs nothing of the rate limit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ci.core.github.answers import content_of
from ci.core.github.client import PER_PAGE, Client, in_repository
from ci.core.github.errors import GitHubAwayError
from ci.webhooks.heads import BRANCHES, PULL_REQUESTS, Head, branch_of, prefixes, pull_request_of
from ci.webhooks.model import Branches, Poll, Repository
from ci.webhooks.poll_state import Page

NOT_MODIFIED = 304
MAX_PAGES = 100


def heads_of(
    client: Client, repository: Repository, pages: Mapping[str, Page]
) -> tuple[dict[str, list[Head]], dict[str, Page]]:
    """The heads of each kind that is polled, and the pages to keep for the next pass.

    A head that moves from a page to one before it while we read is found in the next pass: the first page
    has another ETag then.

    Args:
        client: of its host.
        repository: polled.
        pages: of the last pass.

    Raises:
        GitHubError: not all of them could be asked for.
    """
    poll = repository.poll or Poll.model_construct()
    asking = _Asking(client, pages)
    found: dict[str, list[Head]] = {}
    if poll.pull_requests is not None:
        query: dict[str, str | int] = {"state": "open", "sort": "created", "direction": "asc"}
        found[PULL_REQUESTS] = asking.all_of(
            in_repository(repository.repository, "pulls"),
            query,
            lambda row: pull_request_of(row, repository.repository),
        )
    if poll.branches is not None:
        found[BRANCHES] = _branches(asking, repository.repository, poll.branches)
    return found, asking.kept


def _branches(asking: _Asking, repository: str, rule: Branches) -> list[Head]:
    heads: list[Head] = []
    for begin in prefixes(rule.names):
        path = in_repository(repository, "git", "matching-refs", "heads", *([begin] if begin else []))
        heads += asking.all_of(path, {}, branch_of)
    return heads


class _Asking:
    """Reads lists, with what an earlier pass had of them."""

    def __init__(self, client: Client, pages: Mapping[str, Page]) -> None:
        self._client, self._pages = client, pages
        self.kept: dict[str, Page] = {}

    def all_of(
        self, path: str, query: Mapping[str, str | int], read: Callable[[Mapping[str, Any]], Head]
    ) -> list[Head]:
        """Every page of a list."""
        heads: list[Head] = []
        for number in range(1, MAX_PAGES + 1):
            page = self._page(path, {**query, "per_page": PER_PAGE, "page": number}, read)
            heads += page.heads
            if not page.more:
                return heads
        raise GitHubAwayError(
            f"the list {path} has more than {MAX_PAGES} pages", remedy="name fewer branches under `poll`"
        )

    def _page(
        self, path: str, query: Mapping[str, str | int], read: Callable[[Mapping[str, Any]], Head]
    ) -> Page:
        key = f"{path} {json.dumps(query, sort_keys=True)}"
        before = self._pages.get(key)
        # A last page that is full says the same when another follows it, so it is asked for anew.
        same = before is not None and (before.more or len(before.heads) != PER_PAGE)
        reply = self._client.changed(path, query, etag=before.etag if before is not None and same else "")
        if reply.status == NOT_MODIFIED and before is not None:
            self.kept[key] = before
            return before
        rows = content_of(reply, what=f"GET {path}")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise GitHubAwayError(
                f"the answer to GET {path} is no list", remedy="check the address of the API: `hosts.….api`"
            )
        page = Page(
            etag=reply.headers.get("etag", ""), more=reply.has_next, heads=tuple(read(row) for row in rows)
        )
        self.kept[key] = page
        return page
