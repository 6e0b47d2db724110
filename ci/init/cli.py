"""`spyre-ci init`: settings, workflows and a Jenkinsfile in a back end's checkout, shown before written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ci.core.errors import EXIT_OK, EXIT_TEST_FAILED, UsageError
from ci.core.text import counted, plain
from ci.init.proposal import Proposal, Wanted, carry_out, differences, document, lines, propose, remedies
from ci.init.toolkit import installed
from ci.steps import options
from ci.steps.context import Context


def init(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The back end's checkout.")] = Path(),
    write: Annotated[
        bool, typer.Option("--write", help="Write what is shown; people's changes stay.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 where something would change.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Name that PrivateUse1 gets; default: as the sources say."),
    ] = None,
    package: Annotated[
        str | None,
        typer.Option("--package", help="Package that registers it; default: as the project says."),
    ] = None,
    toolkit: Annotated[
        str | None,
        typer.Option("--toolkit", metavar="OWNER/NAME", help="Repository that workflows call."),
    ] = None,
    toolkit_ref: Annotated[
        str | None,
        typer.Option("--toolkit-ref", metavar="REF", help="Commit of it; default: that of this spyre-ci."),
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option("--again", metavar="FILE", help="Make a file again that was removed."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="FILE", help="Leave a file as it is, and what is new out of it."),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Set up a back end's checkout: settings, workflows and a Jenkinsfile.

    The difference is shown and nothing written, until --write. Nothing of the checkout is imported or run.
    After an upgrade the same command merges what is new into files that people have changed.

    Example: spyre-ci init --device spyre
    """
    if write and check:
        raise UsageError("--write and --check are both given", remedy="leave one of them out")
    context = options.make_context(ctx, {}, json_output=json_output)
    wanted = Wanted(
        device=device,
        package=package,
        toolkit=toolkit,
        ref=toolkit_ref,
        again=again or (),
        keep=keep or (),
    )
    with context.console.status("looking at the checkout") as status:
        proposal = propose(
            folder,
            wanted,
            installed(),
            show=lambda count: status.update(f"looking at the checkout: {count:,} files"),
        )
    if write:
        carry_out(proposal)
    code = _code(proposal, check=check)
    if json_output:
        typer.echo(document(proposal, written=write, code=code))
    else:
        _tell(context, proposal, write=write)
    raise typer.Exit(code)


def _code(proposal: Proposal, *, check: bool) -> int:
    wrong = bool(proposal.conflicts) or (check and bool(proposal.writes))
    return EXIT_TEST_FAILED if wrong else EXIT_OK


def _tell(context: Context, proposal: Proposal, *, write: bool) -> None:
    for text in differences(proposal.changes):
        _say(context, text.rstrip("\n"))
    for line in [*lines(proposal), *(f"note: {one}" for one in proposal.notes)]:
        _say(context, line)
    if not proposal.writes and not proposal.conflicts:
        _say(context, "nothing to do")
    elif proposal.writes:
        files = counted(len(proposal.writes), "file")
        _say(context, f"{files} written" if write else f"{files} to write: --write writes them")
    for line in remedies(proposal):
        _say(context, f"conflict: {line}")


def _say(context: Context, text: str) -> None:
    # Of files of a checkout: neither markup nor a terminal's command.
    context.console.print(Text(plain(text)), soft_wrap=True)
