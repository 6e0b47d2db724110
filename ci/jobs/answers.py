"""Read a cluster's answers and watches: what is an error, what is worth another try, how soon. Pure.

How errors are told: kubernetes.io, "Kubernetes API Concepts", and the kind Status of meta/v1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from ci.core.addresses import safe_line
from ci.core.text import one_line
from ci.jobs.errors import (
    ClusterAwayError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    GoneError,
    MissingError,
    RefusedError,
)

MAX_SAID = 600
# The most a Retry-After is taken at its word; a longer one is somebody's mistake.
LONGEST_S = 60.0
_REFUSALS: Mapping[int, tuple[type[ClusterError], str]] = {
    HTTPStatus.UNAUTHORIZED: (ForbiddenError, "sign in again (oc login), or give a service account's token"),
    HTTPStatus.FORBIDDEN: (
        ForbiddenError,
        "have the role of docs/jobs.md bound to whom you are signed in as",
    ),
    HTTPStatus.NOT_FOUND: (
        MissingError,
        "check the namespace and the name, and that the cluster serves this kind",
    ),
    HTTPStatus.CONFLICT: (ConflictError, "look at what has the name, remove it or take another name"),
    HTTPStatus.GONE: (GoneError, "do it again"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that came whole; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether it was done; a redirect that nobody followed was not."""
        return self.status // 100 == 2  # noqa: PLR2004  # HTTP's own


def is_worth_another(status: int) -> bool:
    """Whether the same may be answered otherwise after a while."""
    own_trouble = status // 100 == 5  # noqa: PLR2004  # HTTP's own
    return own_trouble or status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT}


def is_untouched(status: int) -> bool:
    """Whether what was asked for surely was not done: it was turned away before anybody looked at it."""
    return status == HTTPStatus.TOO_MANY_REQUESTS


def asked_wait_s(reply: Reply) -> float:
    """Seconds the cluster asks to wait for; 0 where it asks for none."""
    told = reply.headers.get("retry-after", "").strip()
    return min(float(told), LONGEST_S) if re.fullmatch(r"\d{1,9}", told) else 0.0


def content_of(reply: Reply, what: str) -> dict[str, Any]:
    """What an answer holds.

    Args:
        reply: one that is ok.
        what: was asked for.

    Raises:
        ClusterAwayError: it is no object of JSON, as a proxy's page for signing in is none.
    """
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        text = one_line(reply.body[:200].decode(errors="replace"), 80)
        raise ClusterAwayError(
            f"the answer to {what} is no JSON object: {text!r}",
            remedy="check that the cluster's address is that of its API, and no proxy stands between",
        )
    return content


def said_by(body: bytes) -> tuple[str, str]:
    """The reason's word, and the cluster's message on one line."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return "", safe_line(body[: 10 * MAX_SAID].decode(errors="replace"), MAX_SAID)
    return str(content.get("reason") or ""), safe_line(str(content.get("message") or ""), MAX_SAID)


def error_of(reply: Reply, what: str) -> ClusterError:
    """The error an answer is.

    Args:
        reply: one that is not ok.
        what: the method and path that were asked for.
    """
    status = reply.status
    reason, said = said_by(reply.body)
    text = f"the cluster answers {what} with {status}" + (f": {said or reason}" if said or reason else "")
    if is_worth_another(status):
        return ClusterAwayError(text, remedy="do it again when the cluster is well", said=said)
    kind, remedy = _REFUSALS.get(status, (RefusedError, "mend what it says"))
    if status == HTTPStatus.FORBIDDEN and "exceeded quota" in said:
        remedy = "wait until others are done, ask for less, or have the namespace's quota raised"
    return kind(text, remedy=remedy, said=said)


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, without their ends; what is left when the pieces end is no whole line and is dropped."""
    open_: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        if whole:
            yield b"".join((*open_, whole[0]))
            yield from whole[1:]
            open_ = []
        open_.append(rest)


def events_of(pieces: Iterable[bytes], what: str) -> Iterator[dict[str, Any]]:
    """The events of a watch.

    Args:
        pieces: of its answer.
        what: was asked for.

    Raises:
        GoneError: the version it was to go on from is no longer kept.
        ClusterError: another error in place of an event.
        ClusterAwayError: a line is no event.
    """
    for line in lines_of(pieces):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            kind, content = event["type"], event["object"]
        except (ValueError, RecursionError, TypeError, KeyError):
            raise ClusterAwayError(
                f"the watch {what} says what is no event", remedy="check that no proxy stands between"
            ) from None
        if kind == "ERROR":
            code = content.get("code") if isinstance(content, dict) else None
            status = code if isinstance(code, int) else 500
            raise error_of(Reply(status=status, headers={}, body=json.dumps(content).encode()), what)
        yield event
