"""Reporting one run: its begin and its end put in the outbox, sent, and what came of it said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ci.config import Settings
from ci.core.errors import SpyreCiError
from ci.core.provider import write_outputs
from ci.hud.client import Target, note_dispatch
from ci.hud.dispatched import kept
from ci.hud.endpoint import EMBEDDED, NONE, open_endpoint
from ci.hud.flush import UNREADABLE, Effects, FlushReport, Say, flush, flush_command
from ci.hud.making import SUMMARY, Ways, begun_of, ended_of, find_dispatch, given_up_of, read_identity
from ci.hud.outbox import Outbox
from ci.hud.payload import report_identity
from ci.hud.row_upload import note_rows, rows_wait, send_rows
from test_selection.files import read_json, write_json

# A run ends with its report, so a relay that is down must not hold it for long; the outbox does the rest.
RUN_BUDGET_S = 180.0
FLUSH_BUDGET_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What came of reporting a run; also in its `hud.json`.

    Attributes:
        outcome: `delivered` (nothing waits), `left` (something waits in the outbox), `disabled`, or `failed`
            (there was nothing to send, because no report could be made).
        endpoint: where it was sent; empty where nowhere.
        page: the page of runs, where a server is up to show it.
        reason: why, where it was not delivered.
        remedy: what the user does then.
        report: what was delivered and what was left.
    """

    outcome: str
    endpoint: str = ""
    page: str = ""
    reason: str = ""
    remedy: str = ""
    report: FlushReport = field(default_factory=FlushReport)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """What reporting takes.

    Attributes:
        settings: `report.*` and `hud.*` say where to.
        environ: may hold the token, GitHub's check run id and event, and the report's URL.
        effects: time, sleep and chance.
        echo: takes lines for people.
        budget_s: seconds after which nothing more is tried.
    """

    settings: Settings
    environ: Mapping[str, str]
    effects: Effects
    echo: Say
    budget_s: float = RUN_BUDGET_S

    @property
    def own_server(self) -> bool:
        """Whether the server is ours, the embedded one or another."""
        report = self.settings.model.report
        return report.own_server or report.endpoint == EMBEDDED

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
        )


def begin(run_dir: Path, reporter: Reporter) -> Delivery | None:
    """Tell that a dispatched run begins; it never fails the run (law 7).

    Returns:
        What came of it; None of a run that reports itself, which tells of its end alone.
    """
    if reporter.settings.model.report.endpoint == NONE:
        return None

    def attempt() -> Delivery | None:
        ways = reporter.ways(run_dir)
        begun = begun_of(read_identity(run_dir), ways)
        if begun is None:
            return None
        _enqueue(run_dir, reporter, begun)
        return send_waiting(run_dir, reporter, again=False)

    return _guarded(run_dir, reporter, attempt, done="told that the run has begun")


def deliver(
    run_dir: Path,
    settings: Settings,
    *,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    rng: Callable[[], float],
    echo: Say,
    budget_s: float = RUN_BUDGET_S,
) -> Delivery:
    """Report a finished run. It never fails the run (law 7): whatever goes wrong is said and written down.

    Args:
        run_dir: the run's folder, with its `summary.json`.
        settings: `report.*` and `hud.*` say where to.
        environ: may hold the token, GitHub's check run id and event, and the report's URL.
        clock: seconds since the epoch.
        sleep: waits so many seconds.
        rng: a number in [0, 1).
        echo: takes lines for people.
        budget_s: seconds after which nothing more is tried.
    """
    effects = Effects(clock=clock, sleep=sleep, rng=rng)
    reporter = Reporter(settings=settings, environ=environ, effects=effects, echo=echo, budget_s=budget_s)

    def attempt() -> Delivery:
        if settings.model.report.endpoint == NONE:
            return Delivery(outcome="disabled", reason="report.endpoint is `none`")
        path = run_dir / SUMMARY
        summary, ways = read_json(path, "summary"), reporter.ways(run_dir)
        ended = ended_of(summary, ways, path=path)
        # The relay takes no end without a begin, which nobody may have told in another job.
        begun = begun_of(read_identity(run_dir), ways)
        if begun is not None:
            _enqueue(run_dir, reporter, begun)
        # One that does not hold the contract is kept too: the flush says why, nothing is dropped in silence.
        _enqueue(run_dir, reporter, ended)
        if reporter.own_server:
            note_rows(run_dir)
        return send_waiting(run_dir, reporter, again=False)

    delivery = _guarded(run_dir, reporter, attempt)
    return delivery or Delivery(outcome="failed")


def give_up(run_dir: Path, reporter: Reporter, *, conclusion: str) -> Delivery | None:
    """Tell that a dispatched run has ended without a summary, unless its end was told; never fails.

    Args:
        run_dir: the run's folder.
        reporter: what reporting takes.
        conclusion: failure or cancelled.

    Returns:
        What came of it; None where there was nothing to tell.
    """
    if reporter.settings.model.report.endpoint == NONE:
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


def flush_run(
    run_dir: Path,
    settings: Settings,
    *,
    environ: Mapping[str, str],
    effects: Effects,
    echo: Say,
    budget_s: float = FLUSH_BUDGET_S,
) -> Delivery:
    """Send what waits in a run's outbox.

    Raises:
        SpyreCiError: the endpoint or the token of the settings cannot be used.
    """
    reporter = Reporter(settings=settings, environ=environ, effects=effects, echo=echo, budget_s=budget_s)
    delivery = send_waiting(run_dir, reporter, again=True)
    write_json(run_dir / "hud.json", "hud", asdict(delivery))
    tell(delivery, reporter)
    return delivery


def tell(delivery: Delivery, reporter: Reporter, *, done: str = "reported") -> None:
    """Say what came of it to people, and its outcome to the steps of a GitHub job that follow."""
    _say(delivery, reporter.echo, done)
    with contextlib.suppress(OSError):  # reporting never fails a run
        write_outputs(reporter.environ, {"hud_outcome": delivery.outcome})


def delivery_of(report: FlushReport, *, endpoint: str, page: str = "", done: str = "delivered") -> Delivery:
    """What a flush amounts to."""
    if not report.left:
        return Delivery(outcome=done, endpoint=endpoint, page=page, report=report)
    first = report.left[0]
    return Delivery(
        outcome="left",
        endpoint=endpoint,
        page=page,
        reason=first.reason,
        remedy=first.remedy,
        report=report,
    )


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
        write_json(run_dir / "hud.json", "hud", asdict(delivery))
    tell(delivery, reporter, done=done)
    return delivery


def _enqueue(run_dir: Path, reporter: Reporter, payload: Mapping[str, Any]) -> None:
    identity = report_identity(payload, repository=reporter.settings.model.report.repository)
    box = Outbox(run_dir, reporter.effects.clock)
    # A job begins once: where its folder says something else of it since, the relay takes no second begin.
    if payload["workflow"]["status"] == "in_progress" and box.has_delivered(identity):
        return
    box.enqueue(identity, payload)


def send_waiting(run_dir: Path, reporter: Reporter, *, again: bool = True) -> Delivery:
    """Send what waits in a run's outbox; `again` also what was refused as it is.

    Raises:
        SpyreCiError: the endpoint or the token of the settings cannot be used.
    """
    effects = reporter.effects
    begins = any(one.status == "in_progress" for one in Outbox(run_dir, effects.clock).pending())
    with open_endpoint(
        reporter.settings, reporter.environ, clock=effects.clock, warn=reporter.echo, sleep=effects.sleep
    ) as endpoint:
        if begins and reporter.own_server:
            _note_dispatch(run_dir, endpoint.target)
        report = flush(
            run_dir,
            endpoint.target,
            effects,
            budget_s=reporter.budget_s,
            throttle=endpoint.throttle,
            again=again,
        )
        # Rows of a job the server does not know yet would be refused; what is no report says nothing of that.
        known = all(left.outcome == UNREADABLE for left in report.left)
        if known and (left := send_rows(run_dir, endpoint.target, reporter.environ)) is not None:
            report = replace(report, left=(*report.left, left))
    return delivery_of(report, endpoint=endpoint.shown, page=endpoint.page)


def _note_dispatch(run_dir: Path, target: Target) -> None:
    with contextlib.suppress(SpyreCiError):
        dispatch = kept(run_dir)
        if dispatch is not None:
            note_dispatch(dispatch.delivery_id, target)


def _failed(run_dir: Path, what: str, *, where: str | None = None, remedy: str | None = None) -> Delivery:
    waiting = any((run_dir / "outbox").glob("*.json")) or rows_wait(run_dir)
    steps = [step for step in (remedy, f"`{flush_command(run_dir)}`" if waiting else None) if step]
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
        echo("HUD: not reported (report.endpoint is `none`)")
    elif delivery.outcome == "delivered" and delivery.endpoint == EMBEDDED:
        echo(f"HUD: {done}; see it at {delivery.page or 'the page of `spyre-ci hud serve`'}")
    elif delivery.outcome == "delivered":
        echo(
            f"HUD: {done} to {delivery.endpoint}"
            if done == "reported"
            else f"HUD: {done}: {delivery.endpoint}"
        )
    elif delivery.outcome == "dispatched":
        echo(f"HUD: handed to {delivery.endpoint}, which reports it")
    else:
        # The relay answers 200 to what it throws away, so this one is easy to overlook.
        loud = "WARNING: " if any(left.outcome == "ignored" for left in report.left) else ""
        waiting = f" ({len(report.left)} kept in the outbox)" if report.left else ""
        echo(f"HUD: {loud}NOT reported{waiting}: {delivery.reason}\n  remedy: {delivery.remedy}")
