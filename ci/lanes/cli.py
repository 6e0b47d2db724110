"""`spyre-ci lanes`: recurring runs, what is next and why, and the worker that runs them."""

from __future__ import annotations

import typer

from ci.lanes import export_cli, next_cli, run_cli, status_cli

app = typer.Typer(help="Recurring runs: what is next and why, and the worker.", no_args_is_help=True)
app.command("next")(next_cli.next_)
app.command()(run_cli.run)
app.command()(status_cli.status)
app.command()(export_cli.export)
