"""`spyre-ci reproduce`: one test of a run, brought back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ci.cli import options
from ci.errors import EXIT_OK, UsageError
from ci.reproduce.words import document, outcome, ran_lines, told_lines
from ci.steps.reproducing import Wanted, look_up, run_again

MOST_TRIES = 1000


def reproduce(
    ctx: typer.Context,
    test: Annotated[
        str, typer.Argument(metavar="ID", help="The test: its id, pytest's name for it, or a part of one.")
    ],
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="Folder, id, `latest`, github-NUMBER.ATTEMPT, or a page of a HUD; default: the latest.",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--run", help="Run it here, as it was run there.")] = False,
    archive: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE|DIR", help="Artifact of a CI's run, in place of RUN."),
    ] = None,
    tries: Annotated[
        int,
        typer.Option("--tries", min=1, max=MOST_TRIES, help="Run it until it fails so, at most so often."),
    ] = 1,
    with_before: Annotated[
        bool, typer.Option("--with-before", help="Run first what ran before it in the same process.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Which try of it; default: the last that failed.")
    ] = None,
    seed: options.Seed = None,
    source: options.Source = None,
    device: options.Device = None,
    json_output: options.Json = False,
) -> None:
    """Bring one test of a run back: its command, environment, seed and image.

    Example: spyre-ci reproduce test_add latest
    """
    if run is not None and "::" in run and "::" not in test:
        test, run = run, test  # a run has no `::` in its name, and a test has
    if archive is not None and run is not None:
        raise UsageError(f"both RUN {run!r} and --from {archive} are given", remedy="give one of them")
    if not again and (tries > 1 or with_before):
        raise UsageError("--tries and --with-before say how it is run", remedy="give --run as well")
    flags = {"device.name": device, "run.seed": seed}
    context = options.make_context(ctx, flags, json_output=json_output)
    wanted = Wanted(
        name=test,
        run=run,
        archive=archive,
        source=source,
        seed=seed,
        attempt=attempt or 0,
        tries=tries,
        with_before=with_before,
    )
    found = look_up(context, wanted)
    for line in told_lines(found):
        context.say(line)
    if not again:
        context.say(f"to bring it back: {found.command}")
        if json_output:
            typer.echo(json.dumps(document(found, None, ()), indent=1))
        raise typer.Exit(EXIT_OK)
    ran, notes = run_again(context, wanted, found)
    for line in ran_lines(found, ran):
        context.say(line)
    if outcome(found, ran) == "not reproduced" and found.before and not with_before:
        line = found.command.replace("--run", "--run --with-before", 1)
        context.say(f"to run what ran before it in its process, too: {line}")
    if json_output:
        typer.echo(json.dumps(document(found, ran, notes), indent=1))
    raise typer.Exit(ran.exit_code)
