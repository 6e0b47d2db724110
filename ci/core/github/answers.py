"""Reading GitHub's answers: what is an error, what is worth another try, and after how long. Pure.

How limits are told: docs.github.com, "Rate limits for the REST API" and "Best practices for using the REST
API".
"""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

from ci.core.addresses import safe_line
from ci.core.github.errors import (
    GitHubAwayError,
    GitHubDeniedError,
    GitHubError,
    GitHubMissingError,
    GitHubRefusedError,
)
from ci.core.http import Answer

# GitHub asks whoever hit a secondary limit, and was told no time, to wait at least a minute.
SECONDARY_WAIT_S = 60.0
MAX_SAID = 300
_LIMIT = re.compile(r"rate limit|please wait a few minutes|retry your request again later", re.IGNORECASE)
# What a status is, and what mends it.
_ERRORS: tuple[tuple[Container[int], type[GitHubError], str], ...] = (
    ({401}, GitHubDeniedError, "give a token that is valid, in SPYRE_CI_GITHUB_TOKEN or GITHUB_TOKEN"),
    (
        {403},
        GitHubDeniedError,
        "give the token the right to do this; in a workflow, grant it under `permissions`",
    ),
    ({404, 410}, GitHubMissingError, "check the name, and that the token may see it"),
    (range(500, 1000), GitHubAwayError, "try again when GitHub is up; see www.githubstatus.com"),
    (range(300, 400), GitHubRefusedError, "it has moved: give its new name or address"),
)


def is_limited(reply: Answer) -> bool:
    """Whether a limit was hit, so that nothing was done and waiting helps."""
    if reply.status == 429:  # noqa: PLR2004  # HTTP's own number
        return True
    told = "retry-after" in reply.headers or reply.headers.get("x-ratelimit-remaining") == "0"
    return reply.status == 403 and (told or _LIMIT.search(said_by(reply)) is not None)  # noqa: PLR2004  # the same


def limit_wait_s(reply: Answer, *, now_s: float) -> float:
    """Seconds until a limit is over, as GitHub tells it.

    Args:
        reply: a limited one.
        now_s: seconds since the epoch.
    """
    after = _number(reply.headers.get("retry-after"))
    if after is not None:
        return after
    reset = _number(reply.headers.get("x-ratelimit-reset"))
    if reset is not None and reply.headers.get("x-ratelimit-remaining") == "0":
        # It is not told when within that second.
        return max(reset - now_s, 0.0) + 1
    return SECONDARY_WAIT_S


def said_by(reply: Answer) -> str:
    """GitHub's own words for an error, with each thing it found, on one line."""
    try:
        content = json.loads(reply.text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return safe_line(reply.text[: 10 * MAX_SAID])
    errors = content.get("errors")
    parts = [
        content.get("message"),
        *(_one_error(one) for one in (errors if isinstance(errors, list) else [])),
    ]
    return safe_line(": ".join(str(one) for one in parts if one))


def error_of(reply: Answer, *, what: str, now_s: float) -> GitHubError:
    """The error an answer is.

    Args:
        reply: one that is not ok.
        what: the method and path that were asked for.
        now_s: seconds since the epoch.
    """
    if is_limited(reply):
        wait_s = limit_wait_s(reply, now_s=now_s)
        said = f"GitHub's limit is reached, for {wait_s:.0f} s more: {what}"
        return GitHubAwayError(said, remedy="do it again after that", retry_s=wait_s)
    said = said_by(reply)
    kind, remedy = next(
        ((kind, remedy) for statuses, kind, remedy in _ERRORS if reply.status in statuses),
        (GitHubRefusedError, "check the request"),
    )
    return kind(f"GitHub answers {what} with {reply.status}" + (f": {said}" if said else ""), remedy=remedy)


def content_of(reply: Answer, *, what: str) -> Any:
    """What an answer holds; None where it is empty.

    Raises:
        GitHubAwayError: it is no JSON.
    """
    if not reply.text:
        return None
    try:
        return json.loads(reply.text)
    except (ValueError, RecursionError) as error:
        raise GitHubAwayError(
            f"the answer to {what} is no JSON: {safe_line(reply.text[: 10 * MAX_SAID])[:80]!r}",
            remedy="check the API's address (GITHUB_API_URL): for GitHub Enterprise it ends in /api/v3",
        ) from error


def _one_error(one: Any) -> str:
    """One entry of `errors`: a text, or what is wrong with which field."""
    if not isinstance(one, dict):
        return str(one)
    told = one.get("message") or one.get("code") or ""
    return f"{one['field']} {told}" if one.get("field") else str(told)


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"\d{1,12}(\.\d+)?", text.strip()) else None
