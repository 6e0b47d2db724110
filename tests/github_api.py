"""A stand-in of GitHub's API: real HTTP on loopback, with state, and faults on demand.

    with GitHubApi() as api:
        api.repositories["o/r"] = Repository(pulls={7: pull(7, sha="a" * 40)})
        api.fail("secondary", retry_after=1)
        client = Client(api=api.url, token=api.token)

Status codes, messages and headers are those that docs.github.com tells of; what it has no route for
(`tests/github_routes.py`) is 404.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from tests import stand_in
from tests.stand_in import Answer, Seen, StandIn

TOKEN = "ghs_made_up_for_tests"
LOGIN = "github-actions[bot]"
MAX_BODY = 65_536
NOW = "2026-11-22T12:00:00Z"
Kind = Literal["status", "primary", "secondary", "hang", "cut", "drop"]


@dataclass(kw_only=True)
class Repository:
    """What a repository holds; by id or number."""

    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: dict[int, dict[str, Any]] = field(default_factory=dict)
    blobs: dict[int, bytes] = field(default_factory=dict)
    statuses: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    hooks: dict[int, dict[str, Any]] = field(default_factory=dict)
    commits: dict[str, dict[str, Any]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    default_branch: str = "main"
    labels: dict[int, list[str]] = field(default_factory=dict)
    # Texts of workflows by file name, and runs that were made and are not listed yet.
    workflows: dict[str, str] = field(default_factory=dict)
    unlisted: set[int] = field(default_factory=set)
    permissions: dict[str, str] = field(default_factory=dict)
    # Whoever's token is not among them gets 403 for what writes; None: everybody may.
    writers: set[str] | None = None


@dataclass(kw_only=True)
class Fault(stand_in.Fault):
    """A fault; `status` answers with `status` and `message`, `primary` and `secondary` are rate limits."""

    status: int
    retry_after: int | None
    reset: int | None
    message: str


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request on its way to a route."""

    api: GitHubApi
    login: str
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    @property
    def repository(self) -> Repository:
        return self.api.repositories[f"{self.names['owner']}/{self.names['repo']}"]

    def number(self, name: str) -> int:
        return int(self.names[name])

    def page(self, rows: list[Any], key: str | None = None) -> Answer:
        """One page of a list, with the links GitHub sends."""
        size = min(int(self.query.get("per_page", 30)), 100)
        number = int(self.query.get("page", 1))
        part = rows[(number - 1) * size : number * size]
        more = number * size < len(rows)
        link = {"link": f'<{self.api.url}/next?page={number + 1}>; rel="next"'} if more else {}
        body: Any = part if key is None else {"total_count": len(rows), key: part}
        return Answer(body=body, headers=link)


Route = Callable[[Ask], Answer]
_ROUTES: list[tuple[str, re.Pattern[str], Route]] = []
_REPO = r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)"


def route(method: str, pattern: str) -> Callable[[Route], Route]:
    """Register a route; `{name}` stands for a part of the path."""
    # A branch may have slashes in its name.
    made = re.sub(r"\{ref\}", r"(?P<ref>.+)", pattern)
    made = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", made)

    def register(function: Route) -> Route:
        _ROUTES.append((method, re.compile(made), function))
        return function

    return register


def error(status: int, message: str, *errors: Mapping[str, Any]) -> Answer:
    body: dict[str, Any] = {"message": message, "documentation_url": "https://docs.github.com/rest"}
    if errors:
        body["errors"] = list(errors)
    return Answer(status=status, body=body | {"status": str(status)})


NOT_FOUND = error(404, "Not Found")


def one_of(rows: Mapping[Any, Any], key: Any) -> Answer:
    return Answer(body=rows[key]) if key in rows else NOT_FOUND


class GitHubApi(StandIn[Fault]):
    """The server; `url` is the API's address, such as GITHUB_API_URL has it."""

    def __init__(self, *, prefix: str = "") -> None:
        super().__init__(prefix=prefix)
        self.repositories: dict[str, Repository] = {}
        # Who a token is; None: a job's own token, which may not ask who it is.
        self.tokens: dict[str, str | None] = {TOKEN: None}
        self.token = TOKEN
        self.remaining = 4_990
        # An older GitHub Enterprise knows no `return_run_details`, and answers a dispatch with nothing.
        self.tells_runs = True
        self.ids = count(1_001)

    def fail(
        self,
        kind: Kind = "status",
        *,
        method: str = "",
        path: str = "",
        times: int = 1,
        status: int = 500,
        retry_after: int | None = None,
        reset: int | None = None,
        message: str = "Server Error",
        taken: bool = False,
        seconds: float = 5,
    ) -> None:
        """Let the next requests fail that fit.

        Args:
            kind: `status` answers with `status` and `message`; `primary` and `secondary` are rate limits;
                `hang` says nothing for `seconds`, `cut` breaks off within the answer, `drop` before it.
            method: of the requests; empty: any.
            path: a pattern somewhere in their path.
            times: how many requests.
            status: of `status`.
            retry_after: header of a limit.
            reset: seconds since the epoch when a primary limit ends.
            message: of `status`.
            taken: whether what was asked for is done all the same.
            seconds: of `hang`.
        """
        self.faults.append(
            Fault(
                kind=kind, method=method, path=path, times=times, status=status, retry_after=retry_after,
                reset=reset, message=message, taken=taken, seconds=seconds,
            )
        )  # fmt: skip

    def asked(self, method: str, pattern: str) -> list[Seen]:
        """The requests of a method whose path holds a pattern, in the order they came."""
        return [one for one in self.seen if one.method == method and re.search(pattern, one.path)]

    def answer(self, seen: Seen) -> Answer:
        """What is answered where nothing fails."""
        path = seen.path.removeprefix(self.prefix)
        if path.startswith("/_store/"):
            return self._stored(seen, path)
        token = re.sub(r"^(token|Bearer) ", "", seen.headers.get("authorization", ""), flags=re.IGNORECASE)
        if token not in self.tokens:
            return error(401, "Bad credentials")
        login = self.tokens[token]
        if path == "/user":
            return Answer(body={"login": login, "type": "User"}) if login else not_for_integrations()
        for method, pattern, function in _ROUTES:
            match = pattern.fullmatch(path)
            if method == seen.method and match is not None:
                ask = Ask(
                    api=self, login=login or LOGIN, names=match.groupdict(), query=seen.query, body=seen.body
                )
                with self.lock:
                    return self._routed(ask, function, method)
        return NOT_FOUND

    def _routed(self, ask: Ask, function: Route, method: str) -> Answer:
        names = ask.names
        if "repo" in names and f"{names['owner']}/{names['repo']}" not in self.repositories:
            return NOT_FOUND
        writers = ask.repository.writers if "repo" in names else None
        if method != "GET" and writers is not None and ask.login not in writers:
            return not_for_integrations()
        return function(ask)

    def _stored(self, seen: Seen, path: str) -> Answer:
        """What stands for the store of artifacts, which is another host and must see no token."""
        if "authorization" in seen.headers:
            return Answer(status=403, body=b"who shows a token here gives it away")
        _, _, owner, repo, number = path.split("/")
        blob = self.repositories[f"{owner}/{repo}"].blobs.get(int(number))
        return NOT_FOUND if blob is None else Answer(body=blob)

    def refusal(self, fault: Fault) -> Answer:
        return _limit(fault) if fault.kind != "status" else error(fault.status, fault.message)

    def read(self, raw: bytes) -> Any:
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            return raw

    def usual(self, data: bytes) -> Mapping[str, str]:
        return {
            **super().usual(data),
            "x-ratelimit-limit": "5000",
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-reset": str(int(time.time()) + 3600),
            "content-type": "application/json; charset=utf-8",
            "etag": f'"{hashlib.sha256(data).hexdigest()[:20]}"',
        }


def not_for_integrations() -> Answer:
    return error(403, "Resource not accessible by integration")


def _limit(fault: Fault) -> Answer:
    after = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    if fault.kind == "primary":
        reset = int(time.time()) + 3600 if fault.reset is None else fault.reset
        told = error(403, "API rate limit exceeded for installation ID 1.")
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(reset), **after}
        return Answer(status=403, body=told.body, headers=headers)
    words = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    told = error(403, words)
    return Answer(status=403, body=told.body, headers=after)


# --- what tests put in ---


def pull(
    number: int,
    *,
    sha: str = "a" * 40,
    ref: str = "feature",
    head: str = "o/r",
    author: str = "author",
    base: str = "main",
    state: str = "open",
    association: str = "CONTRIBUTOR",
) -> dict[str, Any]:
    """A pull request, as far as somebody reads it."""
    owner, _, name = head.partition("/")
    return {
        "number": number,
        "state": state,
        "user": {"login": author, "type": "User"},
        "author_association": association,
        "head": {
            "sha": sha,
            "ref": ref,
            "label": f"{owner}:{ref}",
            "repo": {"full_name": head, "name": name, "owner": {"login": owner}},
        },
        "base": {"ref": base, "sha": "b" * 40},
        "labels": [],
        "updated_at": NOW,
    }


def workflow_run(
    number: int,
    *,
    sha: str = "a" * 40,
    event: str = "pull_request",
    path: str = ".github/workflows/pull-request.yml",
    status: str = "completed",
    conclusion: str | None = "success",
    branch: str = "feature",
    head: str = "o/r",
    attempt: int = 1,
    created_at: str = NOW,
    run_number: int | None = None,
    name: str = "pull request",
    title: str = "A change",
) -> dict[str, Any]:
    """A run of a workflow, as far as somebody reads it."""
    return {
        "id": number,
        "run_number": number if run_number is None else run_number,
        "run_attempt": attempt,
        "name": name,
        "display_title": title,
        "workflow_id": int(hashlib.sha256(path.encode()).hexdigest()[:6], 16),
        "path": path,
        "event": event,
        "status": status,
        "conclusion": conclusion,
        "head_sha": sha,
        "head_branch": branch,
        "head_repository": {"full_name": head},
        "created_at": created_at,
        "updated_at": created_at,
        "html_url": f"https://github.com/o/r/actions/runs/{number}",
        "pull_requests": [],
    }


def artifact(number: int, name: str, *, run: int, size: int = 0, expired: bool = False) -> dict[str, Any]:
    """An artifact of a run; its zip is in `blobs` under the same number."""
    return {
        "id": number,
        "name": name,
        "size_in_bytes": size,
        "expired": expired,
        "created_at": NOW,
        "workflow_run": {"id": run},
    }


# Its routes are those of the API, and stand by themselves; here they are only made known.
from tests import github_routes as _routes  # noqa: E402, F401  # they are made of what stands above
from tests import github_workflows as _workflows  # noqa: E402, F401  # the same
