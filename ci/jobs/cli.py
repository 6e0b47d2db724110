"""`spyre-ci job`: jobs on Kubernetes and OpenShift, from a spec to what they left."""

from __future__ import annotations

import typer

# What talks to a cluster or an engine is imported late: their clients take a second, which every verb pays.
app = typer.Typer(help="Jobs on Kubernetes and OpenShift.", no_args_is_help=True)
