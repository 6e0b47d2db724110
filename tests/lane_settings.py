"""Lanes as settings have them, for tests."""

from __future__ import annotations

from typing import Any

from ci.config.lanes_model import Lane

SESSION = {"session": {"name": "tests"}}


def lane(cadence: str | dict[str, Any], **given: Any) -> Lane:
    """A lane with a cadence; a text is a cron line."""
    when = {"cron": cadence} if isinstance(cadence, str) else cadence
    return Lane.model_validate({"run": SESSION, "cadence": when, **given})
