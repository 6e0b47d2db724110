"""Report a run: put its begin and its end into the outbox, send what waits there, and say what came of it.

Reports go in order, at most once each, within a budget of time. Reporting never fails a run (law 7).
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from ci.config import Settings
from ci.core.errors import BadFileError, SpyreCiError
from ci.core.provider import write_outputs
from ci.hud.answers import REMEDIES, Answer, Outcome
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.checks import check
from ci.hud.client import Target, note_dispatch, post, sends_token_in_clear
from ci.hud.dispatched import kept
from ci.hud.endpoint import EMBEDDED, NONE, mints, open_endpoint
from ci.hud.outbox import Left, Outbox, OutboxBusyError, Report
from ci.hud.payload import (
    CANCELLED_VARIABLE,
    COMMIT,
    SUMMARY,
    Ways,
    begun_of,
    ended_of,
    find_dispatch,
    given_up_of,
    read_identity,
    report_identity,
)
from ci.hud.row_upload import note_rows, rows_wait, send_rows
from test_selection.files import read_json, write_json

MAX_ATTEMPTS = 6
RATE_LIMIT_WAIT_S = 60.0
RATE_LIMIT_JITTER_S = 30.0
BACKOFF_BASE_S = 2.0
BACKOFF_CAP_S = 60.0
# Tries, a second apart, to get an outbox that another process sends.
BUSY_WAIT_S = 10
# What is in an outbox and no report; it holds up none.
UNREADABLE = "unreadable"
HUD_FILE = "hud.json"
ROW_LOST = "row_lost"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What came of reporting a run; also in its `hud.json`.

    Attributes:
        outcome: `delivered` (nothing waits), `dispatched` (handed to GitHub), `row_lost` (the relay knows the
            state, HUD has no row, and no retry mends it), `left` (something waits in the outbox), `disabled`,
            or `failed` (there was nothing to send, because no report could be made).
        endpoint: where it was sent; empty where nowhere.
        reason: why, where it was not delivered.
        remedy: what the user does then.
        report: what was delivered and what was left.
    """

    outcome: str
    endpoint: str = ""
    reason: str = ""
    remedy: str = ""
    report: FlushReport = field(default_factory=FlushReport)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.outcome in {"delivered", "dispatched", "disabled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """What reporting takes.

    Attributes:
        settings: `report.*` and `hud.*` say where to and how long it may take.
        environ: may hold the token, GitHub's check run id and event, and the report's URL.
        effects: time, sleep and chance.
        echo: takes lines for people.
        cancelled: whether somebody ended the run; the environment may say so as well.
    """

    settings: Settings
    environ: Mapping[str, str]
    effects: Effects
    echo: Say
    cancelled: bool = False

    @property
    def endpoint(self) -> str:
        """The one of the settings."""
        return self.settings.model.report.endpoint

    @property
    def own_server(self) -> bool:
        """Whether the server is ours, the embedded one or another."""
        return self.settings.model.report.own_server or self.endpoint == EMBEDDED

    def ways(self, run_dir: Path) -> Ways:
        """How a run is reported.

        Raises:
            SpyreCiError: the dispatch cannot be read.
        """
        report = self.settings.model.report
        event = None if report.event_file is None else self.settings.resolve(report.event_file)
        return Ways(
            environ=self.environ,
            dispatch=find_dispatch(run_dir, self.environ, event),
            own_server=self.own_server,
            job_name=report.job_name,
            cancelled=self.cancelled or is_cancelled(self.environ),
        )


def is_cancelled(environ: Mapping[str, str]) -> bool:
    """Whether the CI says that somebody ended the run."""
    return environ.get(CANCELLED_VARIABLE, "").lower() in {"1", "true"}


def begin(run_dir: Path, reporter: Reporter) -> Delivery | None:
    """Tell that a dispatched run begins; never fails.

    Returns:
        What came of it; None of a run that reports itself, which tells of its end alone.
    """
    if reporter.endpoint == NONE:
        return None

    def attempt() -> Delivery | None:
        begun = begun_of(read_identity(run_dir), reporter.ways(run_dir))
        if begun is None:
            return None
        _enqueue(run_dir, reporter, begun)
        return send_waiting(run_dir, reporter, again=False)

    return _guarded(run_dir, reporter, attempt, done="told that the run has begun")


def report_run(run_dir: Path, reporter: Reporter) -> Delivery:
    """Report a run that has a `summary.json`; never fails: whatever goes wrong is said and written down."""

    def attempt() -> Delivery:
        if reporter.endpoint == NONE:
            return Delivery(outcome="disabled", reason="report.endpoint is `none`")
        return _enqueue_end(run_dir, reporter) or send_waiting(run_dir, reporter, again=False)

    return _guarded(run_dir, reporter, attempt) or Delivery(outcome="failed")


def give_up(run_dir: Path, reporter: Reporter, *, conclusion: str) -> Delivery | None:
    """Tell that a dispatched run has ended without a summary, unless its end was told; never fails.

    Args:
        run_dir: the run's folder.
        reporter: what reporting takes.
        conclusion: failure or cancelled.

    Returns:
        What came of it; None where there was nothing to tell.
    """
    if reporter.endpoint == NONE:
        return None

    def attempt() -> Delivery | None:
        at = datetime.fromtimestamp(reporter.effects.clock(), UTC).isoformat(timespec="milliseconds")
        ended = given_up_of(read_identity(run_dir), reporter.ways(run_dir), conclusion=conclusion, at=at)
        repository = reporter.settings.model.report.repository
        box = Outbox(run_dir, reporter.effects.clock)
        if ended is None or box.knows(report_identity(ended, repository=repository)):
            return None
        _enqueue(run_dir, reporter, ended)
        return send_waiting(run_dir, reporter, again=False)

    return _guarded(run_dir, reporter, attempt, done=f"told that the run has ended: {conclusion}")


def send_run(run_dir: Path, reporter: Reporter) -> Delivery:
    """Send what a run owes by now: what waits in its outbox, else its end, else its begin.

    Raises:
        SpyreCiError: the run folder, the endpoint or the token of the settings cannot be used.
    """
    box = Outbox(run_dir, reporter.effects.clock)
    done, found = "reported", None
    if reporter.endpoint == NONE:
        found = Delivery(outcome="disabled", reason="report.endpoint is `none`")
    elif not box.has_completed() and (run_dir / SUMMARY).is_file():
        found = _enqueue_end(run_dir, reporter)
    elif not box.has_completed() and not any(box.pending()):
        begun = begun_of(read_identity(run_dir), reporter.ways(run_dir))
        if begun is not None:
            _enqueue(run_dir, reporter, begun)
            done = "told that the run has begun"
    waits = any(box.folder.glob("*.json")) or rows_wait(run_dir)
    if found is None and not waits:
        reporter.echo(f"HUD: nothing of {run_dir} waits to be sent")
        return Delivery(outcome="delivered")
    delivery = found or send_waiting(run_dir, reporter)
    write_json(run_dir / HUD_FILE, "hud", asdict(delivery))
    tell(delivery, reporter, done=done)
    return delivery


def send_waiting(run_dir: Path, reporter: Reporter, *, again: bool = True) -> Delivery:
    """Send what waits in a run's outbox; `again` also what was refused as it is.

    Raises:
        SpyreCiError: the endpoint or the token of the settings cannot be used.
    """
    effects = reporter.effects
    begins = any(one.status == "in_progress" for one in Outbox(run_dir, effects.clock).pending())
    with open_endpoint(
        reporter.settings, reporter.environ, clock=effects.clock, warn=reporter.echo
    ) as endpoint:
        if begins and reporter.own_server:
            _note_dispatch(run_dir, endpoint.target)
        budget_s = reporter.settings.model.report.budget_s
        report = flush(run_dir, endpoint.target, effects, budget_s=budget_s, again=again)
        # Rows of a job the server does not know yet would be refused; what is no report says nothing of that.
        known = all(left.outcome == UNREADABLE for left in report.left)
        if known and (left := send_rows(run_dir, endpoint.target, reporter.environ)) is not None:
            report = replace(report, left=(*report.left, left))
    return delivery_of(report, endpoint=endpoint.shown)


def delivery_of(report: FlushReport, *, endpoint: str, done: str = "delivered") -> Delivery:
    """What became of reports, in one word and for people."""
    if report.left:
        first = report.left[0]
        return Delivery(
            outcome="left", endpoint=endpoint, reason=first.reason, remedy=first.remedy, report=report
        )
    if report.lost:
        return Delivery(
            outcome=ROW_LOST,
            endpoint=endpoint,
            reason=f"state known, row lost: HUD may have nothing of {', '.join(report.lost)}",
            remedy="run the CI's job again, which is an attempt of its own; sending again changes nothing",
            report=report,
        )
    return Delivery(outcome=done, endpoint=endpoint, report=report)


def tell(delivery: Delivery, reporter: Reporter, *, done: str = "reported") -> None:
    """Say what came of it to people, and its outcome to the steps of a GitHub job that follow."""
    _say(delivery, reporter.echo, done)
    with contextlib.suppress(OSError):  # reporting never fails a run
        write_outputs(reporter.environ, {"hud_outcome": delivery.outcome})


def no_commit(delivery_id: str, reporter: Reporter) -> str:
    """Why a nightly is not for PyTorch's relay, which knows runs by PyTorch's commits; empty where it is."""
    if COMMIT.fullmatch(delivery_id) or not mints(reporter.settings, reporter.environ):
        return ""
    return (
        f"its tests are of no PyTorch commit that is known ({delivery_id!r}), and PyTorch's HUD knows nights "
        "by that alone"
    )


def _enqueue_end(run_dir: Path, reporter: Reporter) -> Delivery | None:
    """Keep a run's end, and its begin where nobody told it, until they are sent; or say why they are not."""
    path = run_dir / SUMMARY
    summary, ways = read_json(path, "summary"), reporter.ways(run_dir)
    ended = ended_of(summary, ways, path=path)
    if ways.dispatch is None and (reason := no_commit(ended["delivery_id"], reporter)):
        return Delivery(outcome="disabled", reason=reason)
    # The relay takes no end without a begin, which nobody may have told in another job or of this attempt.
    begun = begun_of(read_identity(run_dir), ways)
    if begun is not None:
        _enqueue(run_dir, reporter, begun)
    # One that does not hold the contract is kept too: the flush says why, nothing is dropped in silence.
    _enqueue(run_dir, reporter, ended)
    if reporter.own_server:
        note_rows(run_dir)
    return None


def _enqueue(run_dir: Path, reporter: Reporter, payload: Mapping[str, Any]) -> None:
    identity = report_identity(payload, repository=reporter.settings.model.report.repository)
    box = Outbox(run_dir, reporter.effects.clock)
    # A job begins once: where its folder says something else of it since, the relay takes no second begin.
    if payload["workflow"]["status"] == "in_progress" and box.has_delivered(identity):
        return
    box.enqueue(identity, payload)


def _guarded(
    run_dir: Path, reporter: Reporter, attempt: Callable[[], Delivery | None], *, done: str = "reported"
) -> Delivery | None:
    try:
        delivery = attempt()
    except SpyreCiError as error:
        delivery = _failed(run_dir, error.what, where=error.where, remedy=error.remedy)
    except Exception as error:  # noqa: BLE001  # law 7: not even a bug of the reporter may fail a run
        delivery = _failed(run_dir, f"{type(error).__name__}: {error}")
    if delivery is None:
        return None
    # Nor may a full disk, at the very last step.
    with contextlib.suppress(OSError):
        write_json(run_dir / HUD_FILE, "hud", asdict(delivery))
    tell(delivery, reporter, done=done)
    return delivery


def _note_dispatch(run_dir: Path, target: Target) -> None:
    with contextlib.suppress(SpyreCiError):
        dispatch = kept(run_dir)
        if dispatch is not None:
            note_dispatch(dispatch.delivery_id, target)


def _failed(run_dir: Path, what: str, *, where: str | None = None, remedy: str | None = None) -> Delivery:
    waiting = any((run_dir / "outbox").glob("*.json")) or rows_wait(run_dir)
    steps = [step for step in (remedy, f"`{send_command(run_dir)}`" if waiting else None) if step]
    return Delivery(
        outcome="left" if waiting else "failed",
        reason=f"{where}: {what}" if where else what,
        remedy=", then ".join(steps) or "the run's results are in its folder",
    )


def _say(delivery: Delivery, echo: Say, done: str) -> None:
    report = delivery.report
    for warning in report.warnings:
        echo(f"HUD: warning: {warning}")
    if delivery.outcome == "disabled":
        echo(f"HUD: not reported ({delivery.reason})")
    elif delivery.outcome == "delivered" and delivery.endpoint == EMBEDDED:
        echo(f"HUD: {done}; see it at the page of `spyre-ci hud serve`")
    elif delivery.outcome == "delivered":
        echo(f"HUD: {done}{' to' if done == 'reported' else ':'} {delivery.endpoint}")
    elif delivery.outcome == "dispatched":
        echo(f"HUD: handed to {delivery.endpoint}, which reports it")
    else:
        # The relay answers 200 to what it throws away, so this one is easy to overlook.
        loud = "WARNING: " if any(left.outcome == "ignored" for left in report.left) else ""
        waiting = f" ({len(report.left)} kept in the outbox)" if report.left else ""
        echo(f"HUD: {loud}NOT reported{waiting}: {delivery.reason}\n  remedy: {delivery.remedy}")


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
    if sends_token_in_clear(target.url):
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
