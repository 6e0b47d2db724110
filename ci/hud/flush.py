"""Sending what an outbox holds: in order, once, slowed down, retried within a budget of time."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ci.core.errors import BadFileError
from ci.hud.answers import REMEDIES, Answer, Outcome
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.checks import check
from ci.hud.client import Target, post, sends_token_in_clear
from ci.hud.outbox import FOLDER, Outbox, OutboxBusyError, Report
from ci.hud.throttle import MemoryThrottle, Throttle
from ci.hud.wire import Bearer

MAX_ATTEMPTS = 6
RATE_LIMIT_WAIT_S = 60.0
RATE_LIMIT_JITTER_S = 30.0
BACKOFF_BASE_S = 2.0
BACKOFF_CAP_S = 60.0
# Tries, a second apart, to get an outbox that another process sends.
BUSY_WAIT_S = 10
# What is in an outbox and no report; it holds up none.
UNREADABLE = "unreadable"

Say = Callable[[str], None]


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
    throttle: Throttle
    send: Send
    again: bool

    def answer_to(self, report: Report) -> Answer:
        """What becomes of a report, sent or not."""
        if report.status == "in_progress" and self.outbox.has_delivered(report.identity):
            return self._begun_before(report)
        reasons = check(report.payload, repository=self.target.repository)
        if reasons:
            return Answer(outcome=Outcome.INVALID, status=None, detail="; ".join(reasons))
        if not self.again and report.last_outcome == Outcome.REFUSED:
            detail = str(report.attempts[-1].get("detail", ""))
            return Answer(outcome=Outcome.REFUSED, status=None, detail=detail)
        if report.payload["event_type"] not in NIGHTLY_EVENTS and self.outbox.has_delivered(report.identity):
            detail = f"the relay has this attempt's `{report.status}` already, and takes no second one"
            return Answer(outcome=Outcome.REFUSED, status=None, detail=detail)
        return self._deliver(report)

    def _begun_before(self, report: Report) -> Answer:
        """Take a begin out of the outbox that was told before, whatever it said then."""
        detail = "the relay was told before that this job has begun"
        answer = Answer(outcome=Outcome.DELIVERED, status=None, detail=detail)
        self.outbox.record(report, answer)
        return answer

    def wait(self, seconds: float) -> bool:
        """Wait, if the budget has the time for it."""
        if self.effects.clock() + seconds >= self.deadline:
            return False
        self.effects.sleep(seconds)
        return True

    def _deliver(self, report: Report) -> Answer:
        doubtful, answer, fresh = report.doubtful, _out_of_time(), self.target.minted
        for attempt in range(1, MAX_ATTEMPTS + 1):
            if not self._take():
                return answer
            self.outbox.begin(report)
            answer = self.send(report.payload, self.target, doubtful=doubtful)
            doubtful = doubtful or answer.doubtful
            self.outbox.record(report, answer)
            if fresh and answer.status == 401:  # noqa: PLR2004  # HTTP's own number
                fresh = False
                continue
            if not answer.outcome.transient:
                return answer
            pause = pause_s(answer, attempt, self.effects.rng())
            if answer.outcome is Outcome.RATE_LIMITED:
                self.throttle.hold(self.effects.clock() + pause)
            if attempt < MAX_ATTEMPTS and not self.wait(pause):
                return answer
        return answer

    def _take(self) -> bool:
        while self.effects.clock() < self.deadline:
            seconds = self.throttle.take(self.effects.clock())
            if seconds == 0:
                return True
            if not self.wait(seconds):
                return False
        return False


def flush(
    run_dir: Path,
    target: Target,
    effects: Effects,
    *,
    budget_s: float,
    throttle: Throttle | None = None,
    send: Send | None = None,
    box: str = FOLDER,
    again: bool = True,
    remedies: Mapping[Outcome, str] | None = None,
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
        throttle: what all who post there share; None: this flush alone.
        send: makes one attempt; None posts a callback.
        box: the outbox's name.
        again: whether what was refused as it is is sent again; somebody may have mended the other side.
        remedies: what a user does about an outcome, where it is not what REMEDIES says.
    """
    outbox = Outbox(run_dir, effects.clock, name=box)
    broken = [_unreadable(bad) for bad in outbox.unreadable()]
    warnings: list[str] = []
    if target.auth is Bearer and sends_token_in_clear(target.url):
        warnings.append("the endpoint is plain http: whoever listens on the way can read the token")
    job = _Flush(
        outbox=outbox,
        target=target,
        effects=effects,
        deadline=effects.clock() + budget_s,
        throttle=throttle or MemoryThrottle(),
        send=send or post,
        again=again,
    )
    try:
        with _sending(job):
            delivered, left, told = _send_all(
                job, flush_command(run_dir, box), {**REMEDIES, **(remedies or {})}
            )
    except OutboxBusyError as error:
        left = [_left(report.identity, "busy", error.what, error.remedy or "") for report in outbox.pending()]
        return FlushReport(left=(*left, *broken), warnings=tuple(warnings))
    return FlushReport(delivered=tuple(delivered), left=(*left, *broken), warnings=(*warnings, *told))


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


def _send_all(
    job: _Flush, command: str, remedies: Mapping[Outcome, str]
) -> tuple[list[str], list[Left], list[str]]:
    delivered: list[str] = []
    left: list[Left] = []
    warnings: list[str] = []
    stopped_by: Answer | None = None
    not_begun: dict[str, Answer] = {}
    for report in _as_they_come(job.outbox):
        answer = stopped_by or _held(report, not_begun) or job.answer_to(report)
        if answer.outcome.settled:
            delivered.append(report.identity)
            if answer.outcome is not Outcome.DELIVERED:
                warnings.append(f"{report.identity}: {answer.detail}")
            continue
        if answer.outcome in {Outcome.REFUSED, Outcome.INVALID} and report.status == "in_progress":
            not_begun[report.job] = answer
        elif answer.outcome not in {Outcome.REFUSED, Outcome.INVALID, Outcome.HELD}:
            stopped_by = answer
        remedy = f"{remedies[answer.outcome]}, then `{command}`"
        left.append(_left(report.identity, answer.outcome.value, answer.detail, remedy))
    return delivered, left, warnings


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
    detail = f"its in_progress report was not taken, so this one would be refused: {before.detail}"
    return Answer(outcome=Outcome.HELD, status=None, detail=detail)


def flush_command(run_dir: Path, box: str = FOLDER) -> str:
    """The command that sends what is left, fit to paste."""
    verb = "flush" if box == FOLDER else "dispatch"
    return f"spyre-ci hud {verb} {shlex.quote(str(run_dir))}"


def _unreadable(bad: BadFileError) -> Left:
    where = str(bad.where)
    return _left(where, UNREADABLE, f"{Path(where).name}: {bad.what}", bad.remedy or "")


def _left(identity: str, outcome: str, reason: str, remedy: str) -> Left:
    return Left(identity=identity, outcome=outcome, reason=reason, remedy=remedy)


def _out_of_time() -> Answer:
    return Answer(outcome=Outcome.RETRY, status=None, detail="the time for reporting was used up")
