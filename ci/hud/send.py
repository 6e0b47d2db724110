"""Report a run: put its begin and its end into the outbox, send what waits there, and say what came of it.

Reporting never fails a run (law 7).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ci.config import Settings
from ci.core.errors import SpyreCiError
from ci.core.provider import write_outputs
from ci.core.text import one_line
from ci.hud.answers import Answer, Outcome
from ci.hud.client import Target, note_dispatch
from ci.hud.delivery import UNREADABLE, Effects, FlushReport, Send, flush, send_command
from ci.hud.dispatched import kept
from ci.hud.endpoint import EMBEDDED, NONE, mints, open_endpoint
from ci.hud.outbox import Outbox
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
from ci.hud.runs import take_report
from ci.report.store import Kept
from test_selection.files import read_json, write_json

HUD_FILE = "hud.json"

Say = Callable[[str], None]


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
    with open_endpoint(reporter.settings, reporter.environ, warn=reporter.echo) as endpoint:
        if begins and reporter.settings.model.report.own_server:
            _note_dispatch(run_dir, endpoint.target)
        budget_s = reporter.settings.model.report.budget_s
        write = None if endpoint.store is None else _writer(endpoint.store, run_dir, reporter)
        report = flush(run_dir, endpoint.target, effects, budget_s=budget_s, send=write, again=again)
        # Rows of a job the server does not know yet would be refused; what is no report says nothing of that.
        known = all(left.outcome == UNREADABLE for left in report.left)
        if known and (left := send_rows(run_dir, endpoint.target, reporter.environ)) is not None:
            report = replace(report, left=(*report.left, left))
    return delivery_of(report, endpoint=endpoint.shown)


def _writer(store: Kept, run_dir: Path, reporter: Reporter) -> Send:
    """What writes reports into the store here, which needs no server."""

    def write(payload: Mapping[str, Any], target: Target, *, doubtful: bool) -> Answer:
        del doubtful  # whatever was written before is written over
        try:
            take_report(
                payload,
                store,
                run_dir,
                repository=target.repository,
                at=reporter.effects.clock(),
                ways=reporter.ways(run_dir),
            )
        except (SpyreCiError, sqlite3.Error) as error:
            return Answer(outcome=Outcome.RETRY, status=None, detail=one_line(str(error)))
        return Answer(outcome=Outcome.DELIVERED, status=None, detail="written")

    return write


def delivery_of(report: FlushReport, *, endpoint: str, done: str = "delivered") -> Delivery:
    """What became of reports, in one word and for people."""
    if report.left:
        first = report.left[0]
        return Delivery(
            outcome="left", endpoint=endpoint, reason=first.reason, remedy=first.remedy, report=report
        )
    if report.lost:
        return Delivery(
            outcome="row_lost",
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
    upstream = mints(reporter.settings, reporter.environ) and not reporter.own_server
    if COMMIT.fullmatch(delivery_id) or not upstream:
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
    if reporter.settings.model.report.own_server:
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
