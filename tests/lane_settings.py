"""Lanes as settings have them, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner, Result

from ci.config import load_settings
from ci.config.lanes_model import Lane

SESSION = {"session": {"name": "tests"}}


def lane(cadence: str | dict[str, Any], **given: Any) -> Lane:
    """A lane with a cadence; a text is a cron line."""
    when = {"cron": cadence} if isinstance(cadence, str) else cadence
    return Lane.model_validate({"run": SESSION, "cadence": when, **given})


def call(verb: Callable[..., None], folder: Path, settings: str, *words: str) -> Result:
    """Call a verb over settings of its own; a user's error is raised."""
    path = folder / "spyre-ci.yaml"
    path.write_text(settings, encoding="utf-8")
    app = typer.Typer()

    @app.callback()
    def root(ctx: typer.Context) -> None:
        ctx.obj = load_settings(path=path, environ={}, flags={}, cwd=folder)

    app.command("verb")(verb)
    return CliRunner().invoke(app, ["verb", *words], catch_exceptions=False)
