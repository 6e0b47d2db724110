"""`spyre-ci reproduce`: one test of a past run, run again."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from ci.core.errors import UsageError
from ci.reproduce.debugging import debug
from ci.reproduce.evidence import Evidence
from ci.reproduce.report import document, known_lines, outcome, ran_lines
from ci.reproduce.reproduce import Request, look_up, run_again
from ci.reproduce.shell import open_shell
from ci.steps import options
from ci.steps.context import Context
from test_selection.files import document_text

KIND = "reproduce"
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
            help="Folder, id, `latest`, or the zip of a CI's results; default: the latest.",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--run", help="Run it here, as in the run.")] = False,
    tries: Annotated[
        int,
        typer.Option(
            min=1, max=MOST_TRIES, help="Run it until it fails in the same way, at most this often."
        ),
    ] = 1,
    with_before: Annotated[
        bool, typer.Option("--with-before", help="First run what ran before it in the same process.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Which try of it; default: the last that failed.")
    ] = None,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Run it here, in the foreground, under pytest's --pdb.")
    ] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Open a shell in the image of the run.")] = False,
    image: Annotated[
        str | None, typer.Option(help="Open a shell in this image in place of the run's.")
    ] = None,
    seed: options.Seed = None,
    source: options.Source = None,
    device: options.Device = None,
    json_output: options.Json = False,
) -> None:
    """Reproduce one test of a run: same command, environment, seed and image.

    Example: spyre-ci reproduce test_contiguous latest
    Example: spyre-ci reproduce --run --seed 7 -- 'test_view_ops.py::TestViewOps::test_contiguous' latest
    """
    if run is not None and "::" in run and "::" not in test:  # a run has no `::` in its name, and a test has
        test, run = run, test
    again, shell = again or tries > 1 or with_before, shell or image is not None
    modes = [name for name, given in (("--run", again), ("--pdb", pdb), ("--shell", shell)) if given]
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)} are given", remedy="give one of them")
    flags = {"device.name": device, "run.seed": seed}
    context = options.make_context(ctx, flags, json_output=json_output)
    request = Request(
        name=test,
        run=run,
        source=source,
        seed=seed,
        attempt=attempt or 0,
        tries=tries,
        with_before=with_before,
    )
    found = look_up(context, request)
    for line in known_lines(found):
        context.say(line)
    if pdb:
        debug(context, request, found)
    if shell:
        open_shell(context, found, image)
    if again:
        _run(context, request, found, json_output=json_output)
    context.say(f"to reproduce: {found.command}")
    if json_output:
        typer.echo(document_text(KIND, document(found, None)))


def _run(context: Context, request: Request, found: Evidence, *, json_output: bool) -> NoReturn:
    """Run it, say what that showed, and end as the run did."""
    ran = run_again(context, request, found)
    for line in ran_lines(found, ran):
        context.say(line)
    if outcome(found, ran) == "not reproduced" and found.before and not request.with_before:
        command = found.command.replace("--run", "--run --with-before", 1)
        context.say(f"to run what ran before it in its process, too: {command}")
    if json_output:
        typer.echo(document_text(KIND, document(found, ran)))
    raise typer.Exit(ran.exit_code)
