"""Report a run: put its begin and its end into the outbox, send what waits there, and say what came of it.

Reporting never fails a run (law 7).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ci.config import Settings
from ci.config.report_model import Report as ReportSettings
from ci.core.errors import SpyreCiError
from ci.core.provider import detect, write_outputs
from ci.core.text import iso_utc, one_line
from ci.hud.answers import Answer, Outcome
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.client import Target
from ci.hud.delivery import BUSY_WAIT_S, UNREADABLE, Effects, FlushReport, flush, send_command
from ci.hud.dispatched import kept
from ci.hud.endpoint import EMBEDDED, NONE, mints, server_of
from ci.hud.outbox import Outbox, Report
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
from ci.report.store import open_kept
from test_selection.files import read_json, write_json

HUD_FILE = "hud.json"
Payload = Mapping[str, Any]


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


_DISABLED = Delivery(outcome="disabled", reason="report.endpoint is `none`")


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
    echo: Callable[[str], None]
    cancelled: bool = False

    @property
    def report(self) -> ReportSettings:
        """The settings of reporting."""
        return self.settings.model.report

    @property
    def own_server(self) -> bool:
        """Whether the server is ours, the embedded one or another."""
        return self.report.own_server or self.report.endpoint == EMBEDDED

    @property
    def told_cancelled(self) -> bool:
        """Whether somebody ended the run, as the caller or the environment says."""
        return self.cancelled or is_cancelled(self.environ)

    def outbox(self, run_dir: Path) -> Outbox:
        """What waits in a run's folder."""
        return Outbox(run_dir, self.effects.clock)

    def identity_of(self, payload: Payload) -> str:
        """The identity of a report, for the repository of the settings."""
        return report_identity(payload, repository=self.report.repository)

    def ways(self, run_dir: Path) -> Ways:
        """How a run is reported.

        Raises:
            SpyreCiError: the dispatch cannot be read.
        """
        event = None if self.report.event_file is None else self.settings.resolve(self.report.event_file)
        return Ways(
            environ=self.environ,
            dispatch=find_dispatch(run_dir, self.environ, event),
            own_server=self.own_server,
            job_name=self.report.job_name,
            cancelled=self.told_cancelled,
        )

    def finish(self, run_dir: Path, delivery: Delivery, *, done: str = "reported") -> Delivery:
        """Say what came of it to people, to the run's folder and to the steps of a GitHub job that follow."""
        # Reporting never fails a run, nor may a full disk, at the very last step.
        with contextlib.suppress(OSError):
            write_json(run_dir / HUD_FILE, "hud", asdict(delivery))
        for line in _lines(delivery, done):
            self.echo(f"HUD: {line}")
        with contextlib.suppress(OSError):
            write_outputs(self.environ, {"hud_outcome": delivery.outcome})
        return delivery


def is_cancelled(environ: Mapping[str, str]) -> bool:
    """Whether the CI says that somebody ended the run."""
    return environ.get(CANCELLED_VARIABLE, "").lower() in {"1", "true"}


def begin(run_dir: Path, reporter: Reporter) -> Delivery | None:
    """Tell that a dispatched run begins; never fails.

    Returns:
        What came of it; None of a run that reports itself, which tells of its end alone.
    """
    owed = partial(_begin_of, run_dir)
    return _guarded(run_dir, reporter, owed, done="reported the run's start")


def report_run(run_dir: Path, reporter: Reporter) -> Delivery:
    """Report a run that has a `summary.json`; never fails: whatever goes wrong is said and written down."""
    return _guarded(run_dir, reporter, partial(_end_of, run_dir)) or reporter.finish(run_dir, _DISABLED)


def give_up(run_dir: Path, reporter: Reporter, *, conclusion: str) -> Delivery | None:
    """Tell that a dispatched run has ended without a summary, unless its end was told; never fails.

    Args:
        run_dir: the run's folder.
        reporter: what reporting takes.
        conclusion: failure or cancelled.

    Returns:
        What came of it; None where there was nothing to tell.
    """

    def owed(reporter: Reporter) -> list[Payload]:
        at, box = iso_utc(reporter.effects.clock()), reporter.outbox(run_dir)
        ended = given_up_of(read_identity(run_dir), reporter.ways(run_dir), conclusion=conclusion, at=at)
        told = {one.identity for one in (*box.pending(), *box.delivered())}
        return [] if ended is None or reporter.identity_of(ended) in told else [ended]

    return _guarded(run_dir, reporter, owed, done=f"reported the run's end: {conclusion}")


def send_run(run_dir: Path, reporter: Reporter) -> Delivery:
    """Send what a run owes by now: what waits in its outbox, else its end, else its begin.

    Raises:
        SpyreCiError: the run folder, the endpoint or the token of the settings cannot be used.
    """
    if reporter.report.endpoint == NONE:
        return reporter.finish(run_dir, _DISABLED)
    box = reporter.outbox(run_dir)
    owed: list[Payload] = []
    done = "reported"
    ended = box.ends()
    if ended and not _is_later_attempt(ended, reporter.environ):
        pass
    elif (run_dir / SUMMARY).is_file():
        owed = _end_of(run_dir, reporter)
    elif not any(box.pending()) and (owed := _begin_of(run_dir, reporter)):
        done = "reported the run's start"
    delivery = _enqueue(run_dir, reporter, owed)
    if delivery is None and not _waits(run_dir):
        told = box.delivered()
        if told and told[-1].last_outcome == Outcome.STATE_APPLIED:
            # Nothing waits, and yet HUD has no row: that is no better than when it was told.
            return reporter.finish(run_dir, delivery_of(FlushReport(lost=(told[-1].identity,)), endpoint=""))
        reporter.echo(f"HUD: {run_dir} has no reports to send")
        return Delivery(outcome="delivered")
    return reporter.finish(run_dir, delivery or send_waiting(run_dir, reporter), done=done)


def _is_later_attempt(ended: Sequence[Report], environ: Mapping[str, str]) -> bool:
    """Whether the CI job that sends is another attempt of the run whose ends were told, and owes its own.

    Whoever else sends, such as a laptop or a job that fetched the folder, would tell the same end twice.
    """
    here = detect(environ, epoch_s=0)
    return all(
        str(job.get("run_id")) == str(here.run_id)
        and isinstance(attempt := job.get("run_attempt"), int)
        and attempt < here.run_attempt
        for job in (one.payload["workflow"] for one in ended)
    )


def send_waiting(run_dir: Path, reporter: Reporter, *, again: bool = True) -> Delivery:
    """Send what waits in a run's outbox; `again` also what was refused as it is.

    Raises:
        SpyreCiError: the endpoint or the token of the settings cannot be used.
    """
    box, report = reporter.outbox(run_dir), reporter.report
    busy_s = min(BUSY_WAIT_S, report.budget_s)
    begins = any(one.status == "in_progress" for one in box.pending())
    with _opened(run_dir, reporter) as target:
        if begins and report.own_server:
            with contextlib.suppress(SpyreCiError):
                if (dispatch := kept(run_dir)) is not None:
                    target.note_dispatch(dispatch.delivery_id)
        sent = flush(box, target, reporter.effects, budget_s=report.budget_s, again=again)
        # Rows of a job the server does not know yet would be refused; what is no report says nothing of that.
        known = all(left.outcome == UNREADABLE for left in sent.left)
        if known and (left := send_rows(box, target, timeout_s=busy_s)) is not None:
            sent = replace(sent, left=(*sent.left, left))
    return delivery_of(sent, endpoint=target.shown)


@contextlib.contextmanager
def _opened(run_dir: Path, reporter: Reporter) -> Iterator[Target]:
    """The endpoint of the settings: a server elsewhere, or the store here, which needs none."""
    settings, environ, repository = reporter.settings, reporter.environ, reporter.report.repository
    if reporter.report.endpoint != EMBEDDED:
        yield server_of(settings, environ)
        return

    def write(payload: Payload, target: Target, *, doubtful: bool) -> Answer:
        del target, doubtful  # whatever was written before is written over
        try:
            now, ways = reporter.effects.clock(), reporter.ways(run_dir)
            take_report(payload, store, run_dir, repository=repository, at=now, ways=ways)
        except (SpyreCiError, sqlite3.Error) as error:
            return Answer(outcome=Outcome.RETRY, detail=one_line(str(error)))
        return Answer(outcome=Outcome.DELIVERED, detail="written")

    with open_kept(settings, environ, warn=reporter.echo) as store:
        yield Target(url="", repository=repository, shown=EMBEDDED, send=write)


def delivery_of(report: FlushReport, *, endpoint: str, done: str = "delivered") -> Delivery:
    """What became of reports, in one word and for people."""
    told = Delivery(outcome=done, endpoint=endpoint, report=report)
    if report.left:
        first = report.left[0]
        return replace(told, outcome="left", reason=first.reason, remedy=first.remedy)
    if report.lost:
        return replace(
            told,
            outcome="row_lost",
            reason=f"state known, row lost: HUD may have no row of {', '.join(report.lost)}",
            remedy="rerun the CI job as a new attempt; sending the report again changes nothing",
        )
    return told


def no_commit(payload: Payload, reporter: Reporter) -> str:
    """Why a nightly is not for PyTorch's relay, which knows runs by PyTorch's commits; empty where it is."""
    commit, nightly = payload["delivery_id"], payload["event_type"] in NIGHTLY_EVENTS
    upstream = mints(reporter.settings, reporter.environ) and not reporter.own_server
    if not nightly or not upstream or COMMIT.fullmatch(commit):
        return ""
    return (
        f"the PyTorch commit of its tests is unknown ({commit!r}), and PyTorch's HUD identifies nightlies by "
        "their commit"
    )


def _begin_of(run_dir: Path, reporter: Reporter) -> list[Payload]:
    begun = begun_of(read_identity(run_dir), reporter.ways(run_dir))
    return [] if begun is None else [begun]


def _end_of(run_dir: Path, reporter: Reporter) -> list[Payload]:
    """A run's end, and its begin before it: the relay takes no end without one.

    Nobody may have told that in another job, or of this attempt.
    """
    path = run_dir / SUMMARY
    ended = ended_of(read_json(path, "summary"), reporter.ways(run_dir), path=path)
    if reporter.report.own_server:
        note_rows(run_dir, ended["workflow"])
    return [*_begin_of(run_dir, reporter), ended]


def _enqueue(run_dir: Path, reporter: Reporter, owed: Sequence[Payload]) -> Delivery | None:
    """Keep reports until they are sent, or say why they are not.

    One that does not hold the contract is kept too: the flush says why, nothing is dropped in silence.
    """
    box = reporter.outbox(run_dir)
    for payload in owed:
        if reason := no_commit(payload, reporter):
            return Delivery(outcome="disabled", reason=reason)
        identity = reporter.identity_of(payload)
        # A job begins once: where its folder says something else of it since, it is not told again.
        if payload["workflow"]["status"] == "completed" or not box.delivered(identity):
            box.enqueue(identity, payload)
    return None


def _waits(run_dir: Path) -> bool:
    return any((run_dir / "outbox").glob("*.json")) or rows_wait(run_dir)


def _guarded(
    run_dir: Path, reporter: Reporter, owed: Callable[[Reporter], list[Payload]], *, done: str = "reported"
) -> Delivery | None:
    """Send what a run owes and say what came of it; None where that is nothing, or reporting is off."""
    if reporter.report.endpoint == NONE:
        return None
    try:
        payloads = owed(reporter)
        if not payloads:
            return None
        delivery = _enqueue(run_dir, reporter, payloads) or send_waiting(run_dir, reporter, again=False)
    except SpyreCiError as error:
        delivery = _failed(run_dir, error.placed, error.remedy)
    except Exception as error:  # noqa: BLE001  # law 7: not even a bug of the reporter may fail a run
        delivery = _failed(run_dir, f"{type(error).__name__}: {error}")
    return reporter.finish(run_dir, delivery, done=done)


def _failed(run_dir: Path, reason: str, remedy: str | None = None) -> Delivery:
    waits = _waits(run_dir)
    steps = [step for step in (remedy, f"`{send_command(run_dir)}`" if waits else None) if step]
    return Delivery(
        outcome="left" if waits else "failed",
        reason=reason,
        remedy=", then ".join(steps) or "the run's results are in its folder",
    )


def _lines(delivery: Delivery, done: str) -> Iterator[str]:
    """What people are told."""
    report = delivery.report
    yield from (f"warning: {warning}" for warning in report.warnings)
    match delivery.outcome:
        case "disabled":
            yield f"not reported ({delivery.reason})"
        case "delivered" if delivery.endpoint == EMBEDDED:
            yield f"{done}; see it on the pages of `spyre-ci hud serve`"
        case "delivered":
            yield f"{done}{' to' if done == 'reported' else ':'} {delivery.endpoint}"
        case "dispatched":
            yield f"handed to {delivery.endpoint}, which reports it"
        case _:
            # The relay answers 200 to what it throws away, so this one is easy to overlook.
            loud = "WARNING: " if any(left.outcome == "ignored" for left in report.left) else ""
            waiting = f" ({len(report.left)} kept in the outbox)" if report.left else ""
            yield f"{loud}NOT reported{waiting}: {delivery.reason}\n  remedy: {delivery.remedy}"
