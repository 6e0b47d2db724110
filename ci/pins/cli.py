"""`spyre-ci pins`: versions that are held, their ledger, and whether and why they may change."""

from __future__ import annotations

import typer

from ci.pins import campaign_cli, change_cli, record_cli, request_cli, status_cli

app = typer.Typer(help="Pinned versions: their ledger, and when they may change.", no_args_is_help=True)
app.command()(status_cli.status)
app.command()(record_cli.record)
app.command()(record_cli.diff)
app.command()(request_cli.request)
app.command()(request_cli.withdraw)
app.command()(request_cli.schedule)
app.command()(request_cli.adopt)
app.command()(status_cli.decide)
app.command()(change_cli.checklist)
app.command()(change_cli.apply)
app.add_typer(campaign_cli.app, name="campaign")
