"""`spyre-ci bisect`: the commit of PyTorch that broke a test."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ci.bisect.bisect import Request, bisect_step
from ci.bisect.record import KIND
from ci.steps import options
from test_selection.files import document_text


def bisect(
    ctx: typer.Context,
    test: Annotated[str | None, typer.Argument(metavar="TEST", help="Test id, as a report shows it.")] = None,
    source: options.Source = None,
    good: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="The test passes there; default: from the history.")
    ] = None,
    bad: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="The test fails there; default: from the history.")
    ] = None,
    builder: Annotated[
        str | None, typer.Option(help="How a commit is prepared: checkout, wheel or image.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Commits tried at once, a card each.")] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Probability at which the search ends, such as 0.99.")
    ] = None,
    device: options.Device = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again, whatever is known.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many commits and rounds.")] = False,
    config: options.Config = None,
    json_output: options.Json = False,
) -> None:
    """Find the commit of PyTorch that broke a test, in the fewest steps.

    The same command resumes an interrupted search.

    Example: spyre-ci bisect test_view_ops.py::TestViewOps::test_view --good v2.12.0 --bad main --dry-run
    """
    flags = {
        "device.name": device,
        "bisect.builder": builder,
        "bisect.workers": workers,
        "bisect.confidence": confidence,
    }
    context = options.make_context(ctx, flags, json_output=json_output, config=config)
    request = Request(test=test, source=source, good=good, bad=bad, fresh=fresh, dry_run=dry_run)
    code, record = bisect_step(context, request)
    if json_output:
        typer.echo(document_text(KIND, {**asdict(record), "exit_code": code}))
    raise typer.Exit(code)
