"""What each answer of the relay means, and what a good client does about it; pure."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from ci.core.text import one_line

# The relay hands on what HUD refused, after it has stored the state (callback_handler.py).
_REFUSED_BY_HUD = re.compile(r"\s*HUD rejected callback: HTTP [0-9]", re.IGNORECASE)
# The relay's words for a step that does not follow from the job's state (callback_handler.py).
_REFUSED_STEP = re.compile(r"\s*(callback rejected:\s*)?invalid state transition\b", re.IGNORECASE)


class Outcome(enum.StrEnum):
    """What became of one attempt to deliver a report."""

    DELIVERED = "delivered"
    STATE_APPLIED = "state_applied"
    """State known, row lost: the relay has the state, HUD may have no row of it, and no retry fixes it."""
    KNOWN = "known"
    """It knows that the job started: another job reported it, so that the end may follow."""
    IGNORED = "ignored"
    REFUSED = "refused"
    UNAUTHORIZED = "unauthorized"
    RATE_LIMITED = "rate_limited"
    RETRY = "retry"
    INVALID = "invalid"
    """It was not sent: the report violates the contract."""
    HELD = "held"
    """It was not sent: another report has to be taken before it."""

    @property
    def settled(self) -> bool:
        """Whether the endpoint has it, so that the report leaves the outbox."""
        return self in {Outcome.DELIVERED, Outcome.STATE_APPLIED, Outcome.KNOWN}

    @property
    def transient(self) -> bool:
        """Whether the same report may be taken later, unchanged."""
        return self in {Outcome.RATE_LIMITED, Outcome.RETRY}


REMEDIES = {
    Outcome.IGNORED: "have the repository allow-listed at level L2 or above, in its exact letter case",
    Outcome.REFUSED: "fix what the response names",
    Outcome.UNAUTHORIZED: "check the token (SPYRE_CI_HUD_TOKEN, report.token_file or the job's `id-token`) "
    "and this machine's clock",
    Outcome.RATE_LIMITED: "wait a minute",
    Outcome.RETRY: "wait until the endpoint is available again",
    Outcome.INVALID: "fix what the message names",
    Outcome.HELD: "fix what prevents its in_progress report",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One attempt's answer.

    Attributes:
        outcome: what it means.
        detail: one line for people.
        status: the HTTP status; None where none came.
        retry_after_s: seconds the server asked to wait, or None.
        doubtful: whether the server may have taken the report although no 200 came.
        remedy: what a user does about it, where it is not what REMEDIES says.
    """

    outcome: Outcome
    detail: str
    status: int | None = None
    retry_after_s: float | None = None
    doubtful: bool = False
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP answer as it came.

    Attributes:
        status: of HTTP.
        body: its text, cut where it is long.
        headers: by name in lower case.
        token: what the body may repeat and nobody is shown.
    """

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    token: str = field(default="", repr=False)

    @property
    def said(self) -> str:
        """The answer as one line for people."""
        shown = one_line(self.body.replace(self.token, "***") if self.token else self.body)
        return f"HTTP {self.status}: {shown}" if shown else f"HTTP {self.status}"

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object of the body; empty where it is none."""
        try:
            content = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def sentence(self) -> str:
        """What it says of an error: a name of the report's that it repeats may only follow further on."""
        content = self.content
        said = content.get("detail", content.get("error", "")) if content else self.body
        return said if isinstance(said, str) else ""

    @property
    def outcome(self) -> Outcome:
        """What the status of a refusal alone means."""
        if self.status == HTTPStatus.TOO_MANY_REQUESTS:
            return Outcome.RATE_LIMITED
        if self.status == HTTPStatus.REQUEST_TIMEOUT or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Outcome.RETRY
        return Outcome.UNAUTHORIZED if self.status in {401, 403} else Outcome.REFUSED

    def means(self, outcome: Outcome, detail: str = "") -> Answer:
        """The answer with an outcome; without a detail it is shown as it came."""
        seconds = self.headers.get("retry-after", "").strip()
        return Answer(
            outcome=outcome,
            detail=detail or self.said,
            status=self.status,
            # A date is not honoured.
            retry_after_s=float(seconds) if re.fullmatch(r"[0-9]{1,6}", seconds) else None,
            # Behind a 500 or a gateway's time-out the relay may have stored the state already.
            doubtful=outcome is Outcome.RETRY,
        )


def classify(reply: Reply, *, nightly: bool, doubtful: bool = False, begins: bool = False) -> Answer:
    """Read one HTTP answer to a callback.

    Args:
        reply: the answer.
        nightly: whether the report is self-reported, which makes sending it again harmless.
        doubtful: whether an attempt before this one ended with a fault of the server or a time-out.
        begins: whether the report tells that a job begins.
    """
    said = reply.said
    if reply.status == HTTPStatus.OK:
        return _read_taken(reply)
    if reply.status == HTTPStatus.BAD_REQUEST and not nightly and _REFUSED_STEP.match(reply.sentence):
        if doubtful:
            lost = (
                "state applied, row possibly lost: an earlier attempt reached the relay, but perhaps not HUD"
            )
            return reply.means(Outcome.STATE_APPLIED, f"{lost} ({said})")
        if begins:
            # A job has no state but the dispatch's before it begins, so only a second begin is refused so.
            return reply.means(
                Outcome.KNOWN,
                "the relay already had the start of this job: an earlier step reported it, or another job "
                f"of the run has the same job_name, which must be unique ({said})",
            )
    by_hud = reply.status in range(400, 500) and _REFUSED_BY_HUD.match(reply.sentence)
    if by_hud and not nightly:
        # The state is stored, so that a retry would meet "invalid state transition" for ever.
        lost = f"state known, row lost: the relay has the job's state, but HUD refused its row ({said})"
        return reply.means(Outcome.STATE_APPLIED, lost)
    if by_hud and reply.outcome is Outcome.UNAUTHORIZED:
        # HUD does not know the relay then; our token was taken.
        return reply.means(Outcome.RETRY)
    if reply.status in range(300, 400):
        said = f"HTTP {reply.status}: a redirect, which is not followed: the token would go elsewhere"
    return reply.means(reply.outcome, said)


def _read_taken(reply: Reply) -> Answer:
    state = reply.content.get("status")
    if state in ("completed", "in_progress"):  # a tuple: what came may be no key of a set
        return reply.means(Outcome.DELIVERED)
    if state == "ignored":
        detail = "the relay ignored the report: the repository is not allow-listed at level L2 or above"
        return reply.means(Outcome.IGNORED, detail)
    # A login page or a proxy also answers 200; that is no proof that anything was stored.
    return reply.means(Outcome.REFUSED, f"this is not a response of the relay: {reply.said}")
