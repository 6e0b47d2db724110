"""`spyre-ci reproduce`: one test of a run, brought back."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ci.core.container_shell import become
from ci.core.errors import UsageError
from ci.reproduce.debugging import debug
from ci.reproduce.evidence import Evidence
from ci.reproduce.lookup import Wanted, look_up
from ci.reproduce.reproduce import run_again
from ci.reproduce.shell import new_folder, shell_words
from ci.reproduce.words import KIND, document, outcome, ran_lines, told_lines
from ci.steps import options
from ci.steps.context import Context
from test_selection.files import document_text

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
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Run it here, in the foreground, under pytest's --pdb.")
    ] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Open a shell in the image of the run.")] = False,
    image: Annotated[
        str | None, typer.Option("--image", help="With --shell: this image in place of the run's.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="With --shell: none, host or a network's name; a stranger's image has none."),
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
    # A run has no `::` in its name, and a test has; but a HUD's address may, as in http://[::1]:8000.
    if run is not None and "::" in run and "://" not in run and "::" not in test:
        test, run = run, test
    if archive is not None and run is not None:
        raise UsageError(f"both RUN {run!r} and --from {archive} are given", remedy="give one of them")
    _refuse("--run", given=again, others={"--tries": tries > 1, "--with-before": with_before})
    _refuse("--shell", given=shell, others={"--image": image, "--network": network})
    if shell:
        others = {"--run": again, "--pdb": pdb, "--json": json_output}
        options.refuse_beside("--shell", others, why="--shell opens a shell and runs nothing")
    if pdb:
        others = {"--run": again, "--json": json_output}
        options.refuse_beside("--pdb", others, why="--pdb runs the test itself, at this terminal")
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
    if pdb:
        debug(context, wanted, found)
    if shell:
        _open(context, found, image, network)
    if again:
        _again(context, wanted, found, json_output=json_output)
    context.say(f"to bring it back: {found.command}")
    if json_output:
        typer.echo(document_text(KIND, document(found, None, ())))


def _refuse(option: str, *, given: bool, others: Mapping[str, object]) -> None:
    """Refuse options that say how another is done, where that other one is not given."""
    alone = [name for name, one in others.items() if one not in (None, False)]
    if alone and not given:
        raise UsageError(f"{', '.join(alone)} without {option}", remedy=f"give {option} as well")


def _again(context: Context, wanted: Wanted, found: Evidence, *, json_output: bool) -> NoReturn:
    """Run it, say what came of it, and end as the run did."""
    ran, notes = run_again(context, wanted, found)
    for line in ran_lines(found, ran):
        context.say(line)
    if outcome(found, ran) == "not reproduced" and found.before and not wanted.with_before:
        line = found.command.replace("--run", "--run --with-before", 1)
        context.say(f"to run what ran before it in its process, too: {line}")
    if json_output:
        typer.echo(document_text(KIND, document(found, ran, notes)))
    raise typer.Exit(ran.exit_code)


def _open(context: Context, found: Evidence, image: str | None, network: str | None) -> NoReturn:
    """Open the image in this process's place."""
    folder = new_folder(context.settings.state_dir)
    try:
        words = shell_words(context, found, image=image, network=network, folder=folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # nothing of anybody's is in it yet
        raise
    context.say(f"/workspace is the copy {folder / 'workspace'}; in the image: {found.command}")
    become(words)
