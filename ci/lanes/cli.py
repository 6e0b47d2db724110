"""`spyre-ci lanes`: recurring runs, what is next and why, and the worker that runs them."""

from __future__ import annotations

import typer

app = typer.Typer(help="Recurring runs: what is next and why, and the worker.", no_args_is_help=True)
