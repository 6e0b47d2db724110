"""A row of the store as a template shows it; pure. Every text still is as hostile as it came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ci.core.addresses import without_credentials
from ci.hud.callback import RunDetails, is_web_url
from ci.hud.payload import COUNT_OF_VERDICT
from ci.hud.server.pages.render import SHA_CHARACTERS, conclusion_mark, duration, time_text

BAR_WIDTH = 120
SECONDS = "%Y-%m-%d %H:%M:%S UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One piece of the bar of counts, in units of its SVG."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What a template shows of one row; every text still is as hostile as it came."""

    number: int
    label: str
    colour: str
    title: str
    job: str
    lane: str
    event: str
    stage: str
    device: str
    pytorch: str
    sha: str
    sha_short: str
    repository: str
    attempt: int
    superseded: bool
    passed: int
    failed: int
    skipped: int
    total: int
    bars: Sequence[Bar]
    verdicts: Sequence[tuple[str, int, str]]
    started: str
    started_minute: str
    completed: str
    duration: str
    run_url: str
    artifact_url: str


def view(job: Mapping[str, Any]) -> JobView:
    """A row of the store as a template shows it."""
    details = details_of(job["environment"])
    mark = conclusion_mark(job["status"], job["conclusion"])
    return JobView(
        number=job["id"],
        label=mark.word,
        colour=mark.kind,
        title=details.run or f"{job['workflow_name']} {job['run_id']}",
        job=f"{job['workflow_name']} / {job['job_name']}",
        lane=details.lane,
        event=job["event_type"] if not job["pr_number"] else f"pull request #{job['pr_number']}",
        stage=_stage(details),
        device=f"{details.device} (emulated)" if details.emulated else details.device,
        pytorch=details.pytorch,
        sha=job["pytorch_head_sha"],
        sha_short=job["pytorch_head_sha"][:SHA_CHARACTERS],
        repository=job["downstream_repo"],
        attempt=job["run_attempt"],
        superseded=bool(job["superseded"]),
        passed=job["passed_tests"],
        failed=job["failed_tests"],
        skipped=job["skipped_tests"],
        total=job["total_tests"],
        bars=bars(job["passed_tests"], job["failed_tests"], job["skipped_tests"]),
        verdicts=_verdicts(details),
        started=time_text(job["started_at"], SECONDS),
        started_minute=time_text(job["started_at"]),
        completed=time_text(job["completed_at"], SECONDS),
        duration=duration(job["duration_seconds"]) if job["completed_at"] else "",
        run_url=_link(job["workflow_run_url"]),
        artifact_url=_link(job["artifact_url"]),
    )


def bars(passed: int, failed: int, skipped: int) -> list[Bar]:
    """The pieces of a bar of counts; one that is there is seen, be it ever so small a share."""
    shown = [
        (kind, number) for kind, number in (("good", passed), ("bad", failed), ("skip", skipped)) if number
    ]
    total = sum(number for _, number in shown)
    least = 2.0
    spare = BAR_WIDTH - least * len(shown)
    pieces, x = [], 0.0
    for kind, number in shown:
        width = least + spare * number / total
        pieces.append(Bar(kind=kind, x=round(x, 2), width=round(width, 2)))
        x += width
    return pieces


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
