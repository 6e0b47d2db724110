"""Jobs to bend for tests of what pages say."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from ci.hud.server.queries.jobs import Job

NOW = datetime(2026, 8, 30, 12, tzinfo=UTC)


def at(days: float = 0.0) -> str:
    """A time so many days before NOW, as rows have it."""
    return (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def made(number: int = 1, *, days: float = 1.0, hours: float = 1.0, **more: Any) -> Job:
    """A green nightly that started so many days ago and took so many hours."""
    nothing: dict[str, Any] = dict.fromkeys(one.name for one in fields(Job))
    values = nothing | {
        "id": number, "repo": "o/r", "lane": "nightly-main", "event": "nightly", "pr": 0,
        "upstream": "pytorch/pytorch", "sha": f"{number:040x}", "workflow": "Nightly", "job_name": "pytorch",
        "run_id": str(number), "run": f"r{number}", "attempt": 1,
        "status": "completed", "conclusion": "success",
        "started_at": at(days), "completed_at": at(days - hours / 24), "duration_s": hours * 3600,
        "total": 10, "passed": 9, "failed": 0, "skipped": 1, "device": "spyre",
    }  # fmt: skip
    return Job(**(values | more))
