"""`spyre-ci bisect`: the commit of PyTorch that broke a test."""

from __future__ import annotations

from typing import Annotated

import typer

from ci.bisect.bisect import Wanted, bisect_step
from ci.bisect.record import KIND, as_json
from ci.core.errors import UsageError
from ci.steps import options
from test_selection.files import document_text


def bisect(
    ctx: typer.Context,
    test: Annotated[
        str | None, typer.Argument(metavar="TEST", help="Canonical id, as a report has it.")
    ] = None,
    source: options.Source = None,
    good: Annotated[
        str | None, typer.Option("--good", metavar="COMMIT", help="It passed there; default: the history's.")
    ] = None,
    bad: Annotated[
        str | None, typer.Option("--bad", metavar="COMMIT", help="It fails there; default: the history's.")
    ] = None,
    builder: Annotated[
        str | None,
        typer.Option("--builder", help="How a commit is made ready: checkout, wheel or image."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Commits tried side by side, a card each.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", help="Probability at which the search ends, such as 0.99.")
    ] = None,
    absent: Annotated[
        str, typer.Option("--absent", help="What a commit without the test counts as: good, or skip.")
    ] = "skip",
    device: options.Device = None,
    resume: options.Resume = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, whatever is known.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many commits and rounds.")] = False,
    config: options.Config = None,
    json_output: options.Json = False,
) -> None:
    """Find the commit of PyTorch that broke a test, in the fewest steps.

    Ends that are not named come from the history of the main lane. The same command, or --resume, goes on
    with a search that was cut off.

    Example: spyre-ci bisect test_view_ops.py::TestViewOps::test_view --good v2.12.0 --bad main --dry-run
    """
    if absent not in {"good", "skip"}:
        raise UsageError(f"--absent is {absent!r}", remedy="give good or skip")
    flags = {
        "device.name": device,
        "bisect.builder": builder,
        "bisect.workers": workers,
        "bisect.confidence": confidence,
    }
    context = options.make_context(ctx, flags, json_output=json_output, config=config)
    wanted = Wanted(
        test=test,
        source=source,
        good=good,
        bad=bad,
        absent=absent,
        resume=resume,
        fresh=fresh,
        dry_run=dry_run,
    )
    outcome = bisect_step(context, wanted)
    if json_output:
        typer.echo(document_text(KIND, {**as_json(outcome.record), "exit_code": outcome.exit_code}))
    raise typer.Exit(outcome.exit_code)
