"""Reporting one run: its summary made a callback, put in the outbox, sent, and what came of it said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ci.config import Settings
from ci.errors import BadFileError, SpyreCiError
from ci.hud.callback import explain
from ci.hud.endpoint import EMBEDDED, NONE, open_endpoint
from ci.hud.flush import Effects, FlushReport, Say, flush, flush_command
from ci.hud.outbox import Outbox
from ci.hud.payload import RunIdentity, nightly_completed, report_identity
from test_selection.files import read_json, write_json

# A run ends with its report, so a relay that is down must not hold it for long; the outbox does the rest.
RUN_BUDGET_S = 180.0
FLUSH_BUDGET_S = 1800.0
CHECK_RUN_VARIABLE = "SPYRE_CI_CHECK_RUN_ID"
ARTIFACT_VARIABLE = "SPYRE_CI_ARTIFACT_URL"


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
        environ: may hold the token, GitHub's check run id and the report's URL.
        clock: seconds since the epoch.
        sleep: waits so many seconds.
        rng: a number in [0, 1).
        echo: takes lines for people.
        budget_s: seconds after which nothing more is tried.
    """
    effects = Effects(clock=clock, sleep=sleep, rng=rng)
    try:
        delivery = _report(run_dir, settings, environ, effects, echo=echo, budget_s=budget_s)
    except SpyreCiError as error:
        delivery = _failed(run_dir, error.what, where=error.where, remedy=error.remedy)
    except Exception as error:  # noqa: BLE001  # law 7: not even a bug of the reporter may fail a run
        delivery = _failed(run_dir, f"{type(error).__name__}: {error}")
    # Nor may a full disk, at the very last step.
    with contextlib.suppress(OSError):
        write_json(run_dir / "hud.json", "hud", asdict(delivery))
    _say(delivery, echo)
    return delivery


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
    delivery = _flush(run_dir, settings, environ, effects, echo=echo, budget_s=budget_s)
    write_json(run_dir / "hud.json", "hud", asdict(delivery))
    _say(delivery, echo)
    return delivery


def payload_of(summary: Mapping[str, Any], *, path: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The callback of a `summary.json`.

    Raises:
        BadFileError: it does not say who the run is, or counts a verdict that is none.
    """
    remedy = "write it again with `spyre-ci report`"
    try:
        return nightly_completed(
            RunIdentity.model_validate(summary["identity"]),
            run=str(summary["run"]),
            verdicts=dict(summary["verdicts"]),
            exit_code=int(summary["exit_code"]),
            quarantined=int((summary.get("quarantine") or {}).get("forgiven", 0)),
            check_run_id=environ.get(CHECK_RUN_VARIABLE) or None,
            artifact_url=environ.get(ARTIFACT_VARIABLE, ""),
        )
    except ValidationError as error:
        raise BadFileError(f"identity.{explain(error.errors()[0])}", where=path, remedy=remedy) from error
    except KeyError as error:
        raise BadFileError(f"the key {error} is missing", where=path, remedy=remedy) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise BadFileError(str(error), where=path, remedy=remedy) from error


def _report(
    run_dir: Path,
    settings: Settings,
    environ: Mapping[str, str],
    effects: Effects,
    *,
    echo: Say,
    budget_s: float,
) -> Delivery:
    if settings.model.report.endpoint == NONE:
        return Delivery(outcome="disabled", reason="report.endpoint is `none`")
    path = run_dir / "summary.json"
    payload = payload_of(read_json(path, "summary"), path=path, environ=environ)
    repository = settings.model.report.repository
    # One that does not hold the contract is kept too: the flush says why, nothing is dropped in silence.
    Outbox(run_dir, effects.clock).enqueue(report_identity(payload, repository=repository), payload)
    return _flush(run_dir, settings, environ, effects, echo=echo, budget_s=budget_s)


def _flush(
    run_dir: Path,
    settings: Settings,
    environ: Mapping[str, str],
    effects: Effects,
    *,
    echo: Say,
    budget_s: float,
) -> Delivery:
    with open_endpoint(settings, environ, clock=effects.clock, warn=echo) as endpoint:
        report = flush(run_dir, endpoint.target, effects, budget_s=budget_s)
    if not report.left:
        return Delivery(outcome="delivered", endpoint=endpoint.shown, page=endpoint.page, report=report)
    first = report.left[0]
    return Delivery(
        outcome="left",
        endpoint=endpoint.shown,
        page=endpoint.page,
        reason=first.reason,
        remedy=first.remedy,
        report=report,
    )


def _failed(run_dir: Path, what: str, *, where: str | None = None, remedy: str | None = None) -> Delivery:
    waiting = any((run_dir / "outbox").glob("*.json"))
    steps = [step for step in (remedy, f"`{flush_command(run_dir)}`" if waiting else None) if step]
    return Delivery(
        outcome="left" if waiting else "failed",
        reason=f"{where}: {what}" if where else what,
        remedy=", then ".join(steps) or "the run's results are in its folder",
    )


def _say(delivery: Delivery, echo: Say) -> None:
    report = delivery.report
    for warning in report.warnings:
        echo(f"HUD: warning: {warning}")
    if delivery.outcome == "disabled":
        echo("HUD: not reported (report.endpoint is `none`)")
    elif delivery.outcome == "delivered" and delivery.endpoint == EMBEDDED:
        echo(f"HUD: reported; see it at {delivery.page or 'the page of `spyre-ci hud serve`'}")
    elif delivery.outcome == "delivered":
        echo(f"HUD: reported to {delivery.endpoint}")
    else:
        # The relay answers 200 to what it throws away, so this one is easy to overlook.
        loud = "WARNING: " if any(left.outcome == "ignored" for left in report.left) else ""
        waiting = f" ({len(report.left)} kept in the outbox)" if report.left else ""
        echo(f"HUD: {loud}NOT reported{waiting}: {delivery.reason}\n  remedy: {delivery.remedy}")
