"""What each answer of the relay means, and what a good client does about it; pure."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass
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
    """State known, row lost: the relay holds the state, HUD may have no row of it, and no retry mends it."""
    KNOWN = "known"
    """It knows that the job has begun: somebody else told it, so that the end may follow."""
    IGNORED = "ignored"
    REFUSED = "refused"
    UNAUTHORIZED = "unauthorized"
    RATE_LIMITED = "rate_limited"
    RETRY = "retry"
    INVALID = "invalid"
    """It was not sent: the report does not hold the contract."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One attempt's answer.

    Attributes:
        outcome: what it means.
        status: the HTTP status; None where none came.
        detail: one line for people.
        retry_after_s: seconds the server asked to wait, or None.
        doubtful: whether the server may have taken the report although no 200 came.
        remedy: what a user does about it, where it is not what REMEDIES says.
    """

    outcome: Outcome
    status: int | None
    detail: str
    retry_after_s: float | None = None
    doubtful: bool = False
    remedy: str = ""


REMEDIES = {
    Outcome.IGNORED: "have the repository allow-listed at level L2 or above, in its exact letter case",
    Outcome.REFUSED: "mend what the answer says",
    Outcome.UNAUTHORIZED: "check the token (SPYRE_CI_HUD_TOKEN, report.token_file or the job's `id-token`) "
    "and this machine's clock",
    Outcome.RATE_LIMITED: "wait a minute",
    Outcome.RETRY: "wait until the endpoint is back",
    Outcome.INVALID: "mend what is named",
    Outcome.HELD: "mend what keeps its in_progress report",
}


def classify(
    status: int,
    body: str,
    *,
    retry_after: str | None,
    nightly: bool,
    doubtful: bool,
    begins: bool = False,
    secret: str = "",
) -> Answer:
    """Read one HTTP answer to a callback.

    Args:
        status: HTTP status.
        body: the answer's text.
        retry_after: the `Retry-After` header; seconds are honoured, dates are not.
        nightly: whether the report is self-reported, which makes sending it again harmless.
        doubtful: whether an attempt before this one ended with a fault of the server or a time-out.
        begins: whether the report tells that a job begins.
        secret: what the answer may repeat and nobody is shown; it is read as it came all the same.
    """
    shown = one_line(body.replace(secret, "***") if secret else body)
    said = f"HTTP {status}: {shown}" if shown else f"HTTP {status}"
    if status == 200:  # noqa: PLR2004  # HTTP's own numbers, as the contract's table names them
        return _taken(body, said)
    if _begins_so(body, _REFUSED_STEP) and status == 400 and not nightly and (doubtful or begins):  # noqa: PLR2004  # the same
        return _held_already(said, doubtful=doubtful)
    by_hud = 400 <= status < 500 and _begins_so(body, _REFUSED_BY_HUD)  # noqa: PLR2004  # the same
    if by_hud and not nightly:
        # The state is stored, so that a retry would meet "invalid state transition" for ever.
        lost = f"state known, row lost: HUD did not take it from the relay ({said})"
        return Answer(outcome=Outcome.STATE_APPLIED, status=status, detail=lost, doubtful=True)
    outcome = _outcome_of(status)
    if by_hud and outcome is Outcome.UNAUTHORIZED:
        # HUD does not know the relay then; our token was taken.
        outcome = Outcome.RETRY
    if 300 <= status < 400:  # noqa: PLR2004  # the same
        said = f"HTTP {status}: a redirect, which is not followed with the token"
    return Answer(
        outcome=outcome,
        status=status,
        detail=said,
        retry_after_s=seconds_of(retry_after) if outcome is Outcome.RATE_LIMITED else None,
        # Behind a 500 or a gateway's time-out the relay may have stored the state already.
        doubtful=outcome is Outcome.RETRY,
    )


def _outcome_of(status: int) -> Outcome:
    if status == 429:  # noqa: PLR2004  # HTTP's own numbers
        return Outcome.RATE_LIMITED
    if status == 408 or status >= 500:  # noqa: PLR2004  # the same
        return Outcome.RETRY
    return Outcome.UNAUTHORIZED if status in {401, 403} else Outcome.REFUSED


def seconds_of(retry_after: str | None) -> float | None:
    """The seconds a `Retry-After` header asks for; None of a date or nonsense."""
    return float(retry_after) if retry_after and re.fullmatch(r"[0-9]{1,6}", retry_after.strip()) else None


def _begins_so(body: str, words: re.Pattern[str]) -> bool:
    """Whether an answer's sentence begins so: further on it may be a name of the report's that it repeats."""
    told = _told(body)
    said = next((told[key] for key in ("detail", "error") if key in told), None) if told else body
    return isinstance(said, str) and words.match(said) is not None


def _held_already(said: str, *, doubtful: bool) -> Answer:
    if doubtful:
        detail = f"state applied, row possibly lost ({said})"
        return Answer(outcome=Outcome.STATE_APPLIED, status=400, detail=detail)
    # A job has no state but the dispatch's before it begins, so only a second begin is refused like this.
    detail = (
        "the relay knew that this job has begun: an earlier step told it, or another job of the run has its "
        f"job_name, where each needs one of its own ({said})"
    )
    return Answer(outcome=Outcome.KNOWN, status=400, detail=detail)


def _told(body: str) -> dict[str, Any] | None:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _taken(body: str, said: str) -> Answer:
    state = (_told(body) or {}).get("status")
    if state in ("completed", "in_progress"):  # a tuple: what came may be no key of a set
        return Answer(outcome=Outcome.DELIVERED, status=200, detail=said)
    if state == "ignored":
        detail = "the relay ignored the report: the repository is not allow-listed at level L2 or above"
        return Answer(outcome=Outcome.IGNORED, status=200, detail=detail)
    # A login page or a proxy also answers 200; that is no proof that anything was stored.
    return Answer(outcome=Outcome.REFUSED, status=200, detail=f"no relay answers like this: {said}")
