"""Sending what an outbox holds: in order, once, slowed down, retried within a budget of time."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ci.hud.answers import REMEDIES, Answer, Outcome
from ci.hud.client import Target, post, sends_token_in_clear
from ci.hud.outbox import Outbox, OutboxBusyError, Report
from ci.hud.payload import check

MAX_ATTEMPTS = 6
POSTS_A_MINUTE = 60
RATE_LIMIT_WAIT_S = 60.0
RATE_LIMIT_JITTER_S = 30.0
BACKOFF_BASE_S = 2.0
BACKOFF_CAP_S = 60.0

Say = Callable[[str], None]


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
class Left:
    """A report that stays in the outbox, and why."""

    identity: str
    outcome: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushReport:
    """What a flush did.

    Attributes:
        delivered: identities the endpoint has now.
        left: what stays, in order, each with its reason.
        warnings: what a person should know although it stopped nothing.
    """

    delivered: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    warnings: tuple[str, ...] = ()


class Throttle:
    """Lets at most `limit` posts pass in any `window_s` seconds."""

    def __init__(self, limit: int = POSTS_A_MINUTE, window_s: float = 60.0) -> None:
        self._window_s = window_s
        self._times: deque[float] = deque(maxlen=limit)

    def wait_s(self, now: float) -> float:
        """Seconds to wait before the next post may go."""
        if len(self._times) < (self._times.maxlen or 0):
            return 0.0
        return max(0.0, self._times[0] + self._window_s - now)

    def passed(self, now: float) -> None:
        """Count a post; refused ones count too, as they do at the relay."""
        self._times.append(now)


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
    throttle: Throttle = field(default_factory=Throttle)

    def deliver(self, report: Report) -> Answer:
        reasons = check(report.payload, repository=self.target.repository)
        if reasons:
            return Answer(outcome=Outcome.INVALID, status=None, detail="; ".join(reasons))
        doubtful, answer, fresh = report.doubtful, _out_of_time(), self.target.minted
        for attempt in range(1, MAX_ATTEMPTS + 1):
            if not self._wait(self.throttle.wait_s(self.effects.clock())):
                return answer
            self.throttle.passed(self.effects.clock())
            answer = post(report.payload, self.target, doubtful=doubtful)
            doubtful = doubtful or answer.doubtful
            self.outbox.record(report, answer)
            if fresh and answer.status == 401:  # noqa: PLR2004  # HTTP's own number
                fresh = False
                continue
            if not answer.outcome.transient:
                return answer
            if attempt < MAX_ATTEMPTS and not self._wait(
                pause_s(answer, attempt, self.effects.rng()), needed=True
            ):
                return answer
        return answer

    def _wait(self, seconds: float, *, needed: bool = False) -> bool:
        if self.effects.clock() + seconds >= self.deadline:
            return False
        if seconds > 0 or needed:
            self.effects.sleep(seconds)
        return True


def flush(
    run_dir: Path, target: Target, effects: Effects, *, budget_s: float, throttle: Throttle | None = None
) -> FlushReport:
    """Send every report of a run folder that waits.

    It raises for no delivery problem (law 7): what cannot be delivered within the budget stays in the
    outbox, with the reason. After an answer that would meet every report alike (the endpoint is down or
    limits the rate, the token or the repository is not taken) the rest is not tried.

    Args:
        run_dir: the run's folder.
        target: where reports go.
        effects: time, sleep and chance.
        budget_s: seconds after which nothing more is begun.
        throttle: shared where one process flushes several folders.
    """
    outbox = Outbox(run_dir, effects.clock)
    broken = [_left(str(bad.where), "unreadable", bad.what, bad.remedy or "") for bad in outbox.unreadable()]
    warnings: list[str] = []
    if sends_token_in_clear(target.url):
        warnings.append("the endpoint is plain http: whoever listens on the way can read the token")
    job = _Flush(
        outbox=outbox,
        target=target,
        effects=effects,
        deadline=effects.clock() + budget_s,
        throttle=throttle or Throttle(),
    )
    try:
        with outbox.sending():
            delivered, left, told = _send_all(job, run_dir)
    except OutboxBusyError as error:
        left = [_left(report.identity, "busy", error.what, error.remedy or "") for report in outbox.pending()]
        return FlushReport(left=(*left, *broken), warnings=tuple(warnings))
    return FlushReport(delivered=tuple(delivered), left=(*left, *broken), warnings=(*warnings, *told))


def _send_all(job: _Flush, run_dir: Path) -> tuple[list[str], list[Left], list[str]]:
    delivered: list[str] = []
    left: list[Left] = []
    warnings: list[str] = []
    stopped_by: Answer | None = None
    for report in job.outbox.pending():
        answer = stopped_by or job.deliver(report)
        if answer.outcome.settled:
            delivered.append(report.identity)
            if answer.outcome is Outcome.STATE_APPLIED:
                warnings.append(f"{report.identity}: {answer.detail}")
            continue
        if answer.outcome not in {Outcome.REFUSED, Outcome.INVALID}:
            stopped_by = answer
        remedy = f"{REMEDIES[answer.outcome]}, then `{flush_command(run_dir)}`"
        left.append(_left(report.identity, answer.outcome.value, answer.detail, remedy))
    return delivered, left, warnings


def flush_command(run_dir: Path) -> str:
    """The command that sends what is left, fit to paste."""
    return f"spyre-ci hud flush {shlex.quote(str(run_dir))}"


def _left(identity: str, outcome: str, reason: str, remedy: str) -> Left:
    return Left(identity=identity, outcome=outcome, reason=reason, remedy=remedy)


def _out_of_time() -> Answer:
    return Answer(outcome=Outcome.RETRY, status=None, detail="the time for reporting was used up")
