"""A row of the store as a template shows it; pure. Every text still is as hostile as it came."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ci.core.addresses import without_credentials
from ci.hud.callback import RunDetails, is_web_url
from ci.hud.payload import COUNT_OF_VERDICT
from ci.hud.server.pages.charts import verdict_bar
from ci.hud.server.pages.render import conclusion_mark, duration


def view(job: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the store with what a template shows besides; every text still is as hostile as it came."""
    details = details_of(job["environment"])
    counts = {name: job[f"{name}_tests"] for name in ("passed", "failed", "skipped")}
    return {
        **job,
        "details": details,
        "mark": conclusion_mark(job["status"], job["conclusion"]),
        "title": details.run or f"{job['workflow_name']} {job['run_id']}",
        "name": f"{job['workflow_name']} / {job['job_name']}",
        "event": f"pull request #{job['pr_number']}" if job["pr_number"] else job["event_type"],
        "stage": _stage(details),
        "device": f"{details.device} (emulated)" if details.emulated else details.device,
        "bar": verdict_bar(counts),
        "verdicts": _verdicts(details),
        "duration": duration(job["duration_seconds"]) if job["completed_at"] else "",
        "run_url": _link(job["workflow_run_url"]),
        "artifact_url": _link(job["artifact_url"]),
    }


def details_of(environment: str) -> RunDetails:
    """What a job says of itself; nothing where that cannot be read."""
    # HUD lets anybody write anything here; what is not ours is not shown.
    try:
        return RunDetails.model_validate(json.loads(environment or "{}"))
    except (ValueError, RecursionError, ValidationError):
        return RunDetails()


def _stage(details: RunDetails) -> str:
    if details.stage is None:
        return "" if details.percent is None else f"{details.percent:g} %"
    return f"{details.stage}" if details.percent is None else f"{details.stage} ({details.percent:g} %)"


def _verdicts(details: RunDetails) -> list[tuple[str, int, str]]:
    colours = {"passed": "good", "failed": "bad", "skipped": "skip"}
    numbers = {verdict: details.verdicts.get(verdict, 0) for verdict in COUNT_OF_VERDICT}
    forgiven = min(details.quarantined, numbers["failed"])
    numbers["failed"] -= forgiven
    told = [
        (verdict.replace("_", " "), number, colours[COUNT_OF_VERDICT[verdict]])
        for verdict, number in numbers.items()
        if number
    ]
    return told + [("failed in quarantine", forgiven, "skip")] * bool(forgiven)


def _link(url: str) -> str:
    """An address to link to, without credentials; empty where it is none of the web."""
    shown = without_credentials(url)
    return shown if is_web_url(shown) else ""
