"""`spyre-ci pipeline changes`: what a change runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.load import DEFAULT_FILE
from ci.pipeline.decide import decide, outputs_of
from ci.pipeline.diff import touched
from ci.pipeline.event import Event, read_event
from ci.pipeline.in_force import settings_in_force
from ci.pipeline.payload import event_payload
from ci.pipeline.releasing import release_of
from ci.pipeline.telling import hand_on, say, show_table


def changes(
    ctx: typer.Context,
    base: Annotated[
        str | None, typer.Option("--base", help="Commit or branch to compare with; default: the event's.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File that takes the outputs as JSON.")] = None,
) -> None:
    """Say which jobs a change runs, by what it touches, its event and its labels.

    Example: spyre-ci pipeline changes --base main --out changes.json
    """
    settings = settings_from_context(ctx)
    event = read_event(os.environ)
    change = touched(Path.cwd(), event, base)
    own = settings.path.name if settings.path is not None else DEFAULT_FILE
    ruling = settings_in_force(settings, event, os.environ, Path.cwd())
    decision = decide(event, change, ruling.model, never_docs=(own,))
    say(f"{event.name}: {change.why}")
    rows = [(name, "runs" if one.runs else "-", one.why) for name, one in decision.jobs.items()]
    show_table("What runs", ("job", "", "why"), rows, os.environ)
    for remark in decision.remarks:
        say(remark)
    if ruling.differing:
        say(f"what follows is as {ruling.of} says, not as this change does")
        rows = [(one.key, one.here, one.there) for one in ruling.differing]
        show_table(
            "Takes effect once it is merged", ("setting", "of this change", "in force"), rows, os.environ
        )
    outputs = {**outputs_of(decision, ruling.model), "release": _releases(event)}
    hand_on(outputs, os.environ, out=out, kind="changes")


def _releases(event: Event) -> bool:
    """Whether a release is to be published; said where it is one.

    Raises:
        SpyreCiError: it may not be, or that cannot be told.
    """
    if event.name != "release":
        return False
    found = release_of(event_payload(os.environ, "release"), Path.cwd())
    say(found.why)
    return found.runs
