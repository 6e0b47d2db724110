"""`spyre-ci replay`: a recorded run, shown again."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

import typer

from ci.cli import options
from ci.config import completing
from ci.live.sink import open_sink
from ci.steps.folder import JOURNALS, find_run
from ci.steps.replaying import replay_step


def replay(
    ctx: typer.Context,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run folder, id or `latest`.", autocompletion=completing.runs)
    ] = "latest",
    speed: Annotated[
        float,
        typer.Option(
            min=0, max=1e6, help="How many times as fast as it was; 0: without any waiting, for reading."
        ),
    ] = 0,
    events: options.Events = None,
) -> None:
    """Show a recorded run again, as it was seen while it ran. Nothing is run.

    Example: spyre-ci replay latest --speed 60
    """
    context = options.make_context(ctx, {}, json_output=options.to_stdout(events))
    folder = find_run(context.runs, run, holding=JOURNALS)
    replay_step(
        context,
        folder,
        speed=speed,
        open_events=partial(open_sink, events, say=context.say),
        sleep=time.sleep,
    )
