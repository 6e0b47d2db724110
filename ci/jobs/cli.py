"""`spyre-ci job`: jobs on Kubernetes and OpenShift, from a spec to what they left."""

from __future__ import annotations

import typer

from ci.jobs.cluster_cli import cancel, list_jobs, logs, watch
from ci.jobs.transfer_cli import fetch_verb, put_verb
from ci.jobs.validate_cli import validate

# What reads a spec or reports a run stands above the room and is registered there.
app = typer.Typer(help="Jobs on Kubernetes and OpenShift.", no_args_is_help=True)
app.command()(watch)
app.command()(logs)
app.command()(cancel)
app.command("list")(list_jobs)
app.command()(validate)
app.command("fetch")(fetch_verb)
app.command("put")(put_verb)
