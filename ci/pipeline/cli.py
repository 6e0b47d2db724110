"""`spyre-ci pipeline`: what pipelines ask, a verb a question; `plan` is beside the other plans, in ci/cli."""

from __future__ import annotations

import typer

from ci.pipeline.changes_cli import changes
from ci.pipeline.comment_cli import comment
from ci.pipeline.gate_cli import gate
from ci.pipeline.status_cli import status

app = typer.Typer(
    help="What pipelines ask: what runs, how it is split, whether it was enough.", no_args_is_help=True
)
app.command()(changes)
app.command()(gate)
app.command()(comment)
app.command()(status)
