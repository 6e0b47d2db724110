"""Send queued reports in order, at most once each, within a time budget."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ci.core.errors import BadFileError
from ci.hud.answers import REMEDIES, Answer, Outcome
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.checks import check
from ci.hud.client import Target, post, sends_token_in_clear
from ci.hud.outbox import Left, Outbox, OutboxBusyError, Report

MAX_ATTEMPTS = 6
RATE_LIMIT_WAIT_S = 60.0
RATE_LIMIT_JITTER_S = 30.0
BACKOFF_BASE_S = 2.0
BACKOFF_CAP_S = 60.0
# Tries, a second apart, to get an outbox that another process sends.
BUSY_WAIT_S = 10
# What is in an outbox and no report; it holds up none.
UNREADABLE = "unreadable"


class Send(Protocol):
    """Makes one attempt at one report."""

    def __call__(self, payload: Mapping[str, Any], target: Target, *, doubtful: bool) -> Answer:
        """What became of it; never an exception of delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What the outside world gives: time, sleep and chance.

    Attributes:
        clock: seconds since the epoch.
        sleep: waits so many seconds.
        rng: a number in [0, 1).
    """

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    rng: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushReport:
    """What became of the reports in an outbox.

    Attributes:
        delivered: identities the endpoint has now.
        lost: those of them whose state the relay knows, but whose row HUD may not have.
        left: what stays, in order, each with its reason.
        warnings: what a person should know although it stopped nothing.
    """

    delivered: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    warnings: tuple[str, ...] = ()


def pause_s(answer: Answer, attempt: int, chance: float) -> float:
    """Seconds to wait after a transient answer.

    Args:
        answer: rate-limited (at least 60 s, more where the server asks, plus jitter) or to be retried
            (exponential, capped, half of it random).
        attempt: how many were made, from 1.
        chance: a number in [0, 1).
    """
    if answer.outcome is Outcome.RATE_LIMITED:
        return max(RATE_LIMIT_WAIT_S, answer.retry_after_s or 0.0) + chance * RATE_LIMIT_JITTER_S
    backoff = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** (attempt - 1))
    return max(backoff * (0.5 + chance / 2), answer.retry_after_s or 0.0)


@dataclass(slots=True, kw_only=True)
class _Flush:
    outbox: Outbox
    target: Target
    effects: Effects
    deadline: float
    send: Send
    again: bool

    def answer_to(self, report: Report) -> Answer:
        """What becomes of a report, sent or not."""
        delivered = self.outbox.has_delivered(report.identity)
        if report.status == "in_progress" and delivered:
            # It was told before, whatever it said then: it leaves the outbox.
            answer = _unsent(Outcome.DELIVERED, "the relay was told before that this job has begun")
            self.outbox.record(report, answer)
            return answer
        if reasons := check(report.payload, repository=self.target.repository):
            return _unsent(Outcome.INVALID, "; ".join(reasons))
        if not self.again and report.last_outcome == Outcome.REFUSED:
            return _unsent(Outcome.REFUSED, str(report.attempts[-1].get("detail", "")))
        if report.payload["event_type"] not in NIGHTLY_EVENTS and delivered:
            detail = f"the relay has this attempt's `{report.status}` already, and takes no second one"
            return _unsent(Outcome.REFUSED, detail)
        if self.effects.clock() >= self.deadline:
            return _unsent(Outcome.RETRY, "the time for reporting was used up")
        return self._deliver(report)

    def wait(self, seconds: float) -> bool:
        """Wait, if the budget has the time for it."""
        if self.effects.clock() + seconds >= self.deadline:
            return False
        self.effects.sleep(seconds)
        return True

    def _deliver(self, report: Report) -> Answer:
        doubtful, fresh, attempt = report.doubtful, self.target.minted, 0
        while True:
            attempt += 1
            self.outbox.begin(report)
            answer = self.send(report.payload, self.target, doubtful=doubtful)
            doubtful = doubtful or answer.doubtful
            self.outbox.record(report, answer)
            if fresh and answer.status == 401:  # noqa: PLR2004  # HTTP's own number
                fresh = False
                continue
            if not answer.outcome.transient or attempt >= MAX_ATTEMPTS:
                return answer
            if not self.wait(pause_s(answer, attempt, self.effects.rng())):
                return answer


def flush(
    run_dir: Path,
    target: Target,
    effects: Effects,
    *,
    budget_s: float,
    send: Send | None = None,
    box: Outbox | None = None,
    again: bool = True,
    remedies: Mapping[Outcome, str] = REMEDIES,
) -> FlushReport:
    """Send every report of a run folder that waits, those that come meanwhile included.

    It raises for no delivery problem (law 7): what cannot be delivered within the budget stays in the
    outbox, with the reason. After an answer that would meet every report alike (the endpoint is down or
    limits the rate, the token or the repository is not taken) the rest is not tried. A `completed` is not
    sent while its job's `in_progress` was not taken: the relay would refuse it for ever.

    Args:
        run_dir: the run's folder.
        target: where reports go.
        effects: time, sleep and chance.
        budget_s: seconds after which nothing more is begun.
        send: makes one attempt; None posts a callback.
        box: the outbox; None takes the run's.
        again: whether what was refused as it is is sent again; somebody may have mended the other side.
        remedies: what a user does about an outcome.
    """
    outbox = box or Outbox(run_dir, effects.clock)
    broken = [_unreadable(bad) for bad in outbox.unreadable()]
    warnings: list[str] = []
    if send is None and sends_token_in_clear(target.url):
        warnings.append("the endpoint is plain http: whoever listens on the way can read the token")
    job = _Flush(
        outbox=outbox,
        target=target,
        effects=effects,
        deadline=effects.clock() + budget_s,
        send=send or post,
        again=again,
    )
    try:
        with _sending(job):
            sent = _send_all(job, send_command(run_dir), remedies)
    except OutboxBusyError as error:
        left = [
            Left(identity=one.identity, outcome="busy", reason=error.what, remedy=error.remedy or "")
            for one in outbox.pending()
        ]
        return FlushReport(left=(*left, *broken), warnings=tuple(warnings))
    return replace(sent, left=(*sent.left, *broken), warnings=(*warnings, *sent.warnings))


@contextlib.contextmanager
def _sending(job: _Flush) -> Iterator[None]:
    """The right to send; whoever has it is given a moment to end, as a run's end may follow on its begin."""
    with contextlib.ExitStack() as stack:
        for patience in reversed(range(BUSY_WAIT_S + 1)):
            try:
                stack.enter_context(job.outbox.sending())
                break
            except OutboxBusyError:
                if not patience or not job.wait(1.0):
                    raise
        yield


def _send_all(job: _Flush, command: str, remedies: Mapping[Outcome, str]) -> FlushReport:
    delivered: list[str] = []
    lost: dict[str, str] = {}
    left: list[Left] = []
    warnings: list[str] = []
    stopped_by: Answer | None = None
    not_begun: dict[str, Answer] = {}
    for report in _as_they_come(job.outbox):
        answer = stopped_by or _held(report, not_begun) or job.answer_to(report)
        if answer.outcome.settled:
            delivered.append(report.identity)
            # A later report of the job writes its row whole.
            lost.pop(report.job, None)
            if answer.outcome is Outcome.STATE_APPLIED:
                lost[report.job] = report.identity
            if answer.outcome is not Outcome.DELIVERED:
                warnings.append(f"{report.identity}: {answer.detail}")
            continue
        if answer.outcome in {Outcome.REFUSED, Outcome.INVALID} and report.status == "in_progress":
            not_begun[report.job] = answer
        elif answer.outcome not in {Outcome.REFUSED, Outcome.INVALID, Outcome.HELD}:
            stopped_by = answer
        remedy = f"{answer.remedy or remedies[answer.outcome]}, then `{command}`"
        left.append(
            Left(identity=report.identity, outcome=answer.outcome.value, reason=answer.detail, remedy=remedy)
        )
    return FlushReport(
        delivered=tuple(delivered), lost=tuple(lost.values()), left=tuple(left), warnings=tuple(warnings)
    )


def _as_they_come(outbox: Outbox) -> Iterator[Report]:
    """Each report that waits once, in order; also one that is put there while another is sent."""
    seen: set[str] = set()
    while True:
        fresh = next((one for one in outbox.pending() if one.path.name not in seen), None)
        if fresh is None:
            return
        seen.add(fresh.path.name)
        yield fresh


def _held(report: Report, not_begun: Mapping[str, Answer]) -> Answer | None:
    before = not_begun.get(report.job) if report.status == "completed" else None
    if before is None:
        return None
    return _unsent(
        Outcome.HELD,
        f"its in_progress report was not taken, so this one would be refused: {before.detail}",
    )


def send_command(run_dir: Path) -> str:
    """The command that sends what is left, fit to paste."""
    return f"spyre-ci hud send {shlex.quote(str(run_dir))}"


def _unsent(outcome: Outcome, detail: str) -> Answer:
    return Answer(outcome=outcome, status=None, detail=detail)


def _unreadable(bad: BadFileError) -> Left:
    where = str(bad.where)
    reason = f"{Path(where).name}: {bad.what}"
    return Left(identity=where, outcome=UNREADABLE, reason=reason, remedy=bad.remedy or "")
