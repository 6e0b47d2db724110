"""Send queued reports in order, at most once each, within a time budget."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from ci.core.errors import BadFileError
from ci.core.http import is_private
from ci.hud.answers import Answer, Outcome
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.checks import check
from ci.hud.client import Target, UnansweredError
from ci.hud.outbox import Left, Outbox, OutboxBusyError, Report

MAX_ATTEMPTS = 6
RATE_LIMIT_WAIT_S = 60.0
RATE_LIMIT_JITTER_S = 30.0
BACKOFF_BASE_S = 2.0
BACKOFF_CAP_S = 60.0
# Seconds to get an outbox that another process sends, as a run's end may follow on its begin.
BUSY_WAIT_S = 10
# What is in an outbox and no report; it holds up none.
UNREADABLE = "unreadable"


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
    return min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** (attempt - 1)) * (0.5 + chance / 2)


def flush(
    outbox: Outbox, target: Target, effects: Effects, *, budget_s: float, again: bool = True
) -> FlushReport:
    """Send every report of an outbox that waits, those that come meanwhile included.

    It raises for no delivery problem (law 7): what cannot be delivered within the budget stays in the
    outbox, with the reason. After an answer that would meet every report alike (the endpoint is down or
    limits the rate, the token or the repository is not taken) the rest is not tried. A `completed` is not
    sent while its job's `in_progress` was not taken: the relay would refuse it for ever.

    Args:
        outbox: of the run.
        target: where reports go.
        effects: time, sleep and chance.
        budget_s: seconds after which nothing more is begun.
        again: whether what was refused as it is is sent again; somebody may have mended the other side.
    """
    broken = [_unreadable(bad) for bad in outbox.unreadable()]
    deadline = effects.clock() + budget_s
    job = _Flush(outbox=outbox, target=target, effects=effects, deadline=deadline, again=again)
    if target.url and not is_private(target.url):
        job.warnings.append("the endpoint is plain http: anyone on the network path can read the token")
    try:
        with outbox.sending(timeout_s=min(BUSY_WAIT_S, budget_s)):
            for report in _as_they_come(outbox):
                job.take(report)
    except OutboxBusyError as error:
        for report in outbox.pending():
            job.leave(report, "busy", error.what, error.remedy or "")
    return FlushReport(
        delivered=tuple(job.delivered),
        lost=tuple(job.lost.values()),
        left=(*job.left, *broken),
        warnings=tuple(job.warnings),
    )


@dataclass(slots=True, kw_only=True)
class _Flush:
    """One go at an outbox: what it sends with, and what has become of the reports so far.

    Attributes:
        stopped_by: the answer that would meet every report alike.
        not_begun: by job, why its begin was not taken.
    """

    outbox: Outbox
    target: Target
    effects: Effects
    deadline: float
    again: bool
    delivered: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stopped_by: Answer | None = None
    not_begun: dict[str, Answer] = field(default_factory=dict)

    def take(self, report: Report) -> None:
        """Send a report where it may be sent, and note what became of it."""
        answer = self.stopped_by or self._obstacle(report) or self._deliver(report)
        outcome, begins = answer.outcome, report.status == "in_progress"
        if outcome.settled:
            self._settle(report, answer)
            return
        of_the_report = outcome in {Outcome.REFUSED, Outcome.INVALID}
        if of_the_report and begins:
            self.not_begun[report.job] = answer
        elif not of_the_report and outcome is not Outcome.HELD:
            self.stopped_by = answer
        remedy = (
            f"{answer.remedy or self.target.remedies[outcome]}, then `{send_command(self.outbox.run_dir)}`"
        )
        self.leave(report, outcome.value, answer.detail, remedy)

    def leave(self, report: Report, outcome: str, reason: str, remedy: str) -> None:
        """Note that a report stays."""
        self.left.append(Left(identity=report.identity, outcome=outcome, reason=reason, remedy=remedy))

    def _settle(self, report: Report, answer: Answer) -> None:
        self.delivered.append(report.identity)
        # A later report of the job writes its row whole.
        self.lost.pop(report.job, None)
        if answer.outcome is Outcome.STATE_APPLIED:
            self.lost[report.job] = report.identity
        if answer.outcome is not Outcome.DELIVERED:
            self.warnings.append(f"{report.identity}: {answer.detail}")

    def _obstacle(self, report: Report) -> Answer | None:
        """Why a report is not sent; None where it is."""
        reason = self._reason(report)
        return None if reason is None else Answer(outcome=reason[0], detail=reason[1])

    def _reason(self, report: Report) -> tuple[Outcome, str] | None:
        ends, refused = report.status == "completed", self.not_begun.get(report.job)
        if refused is not None and ends:
            held = f"its in_progress report was not accepted, so this one would be refused: {refused.detail}"
            return Outcome.HELD, held
        if reasons := check(report.payload, repository=self.target.repository):
            return Outcome.INVALID, "; ".join(reasons)
        if not self.again and report.last_outcome == Outcome.REFUSED:
            return Outcome.REFUSED, str(report.attempts[-1].get("detail", ""))
        nightly = report.payload["event_type"] in NIGHTLY_EVENTS
        if ends and not nightly and self.outbox.delivered(report.identity):
            twice = "the relay already has this attempt's `completed`, and accepts no second one"
            return Outcome.REFUSED, twice
        if self.effects.clock() >= self.deadline:
            return Outcome.RETRY, "the time for reporting is over (report.budget_s)"
        return None

    def _deliver(self, report: Report) -> Answer:
        doubtful, fresh, attempt = report.doubtful, self.target.minted, 0
        while True:
            attempt += 1
            self.outbox.begin(report)
            answer = self._try(report, doubtful=doubtful)
            doubtful = doubtful or answer.doubtful
            self.outbox.record(report, answer)
            if fresh and answer.status == HTTPStatus.UNAUTHORIZED:
                fresh = False
                continue
            if not answer.outcome.transient or attempt >= MAX_ATTEMPTS:
                return answer
            seconds = pause_s(answer, attempt, self.effects.rng())
            if self.effects.clock() + seconds >= self.deadline:
                return answer
            self.effects.sleep(seconds)

    def _try(self, report: Report, *, doubtful: bool) -> Answer:
        try:
            return self.target.send(report.payload, self.target, doubtful=doubtful)
        except UnansweredError as error:
            return error.answer


def _as_they_come(outbox: Outbox) -> Iterator[Report]:
    """Each report that waits once, in order; also one that is put there while another is sent."""
    seen: set[str] = set()
    while fresh := next((one for one in outbox.pending() if one.name not in seen), None):
        seen.add(fresh.name)
        yield fresh


def send_command(run_dir: Path) -> str:
    """The command that sends what is left, fit to paste."""
    return f"spyre-ci hud send {shlex.quote(str(run_dir))}"


def _unreadable(bad: BadFileError) -> Left:
    where = str(bad.where)
    reason = f"{Path(where).name}: {bad.what}"
    return Left(identity=where, outcome=UNREADABLE, reason=reason, remedy=bad.remedy or "")
