"""`spyre-ci pins`: versions that are held, their ledger, and whether and why they may change."""

from __future__ import annotations

import typer

app = typer.Typer(help="Pinned versions: their ledger, and when they may change.", no_args_is_help=True)
