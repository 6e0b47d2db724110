"""`spyre-ci compare`: what one run changes against another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ci.cli.compared_runs import compare_runs
from ci.core.errors import UsageError
from ci.core.workflow_commands import defused
from ci.report.compare.as_json import KIND, as_json
from ci.report.compare.comparison import check as check_of
from ci.report.compare.lines import render_markdown, show
from ci.report.compare.page import render_page
from ci.steps import options
from test_selection.files import document_text, write_text

_RUN = "Run folder or id, `latest`, `latest-1` for the one before it, or the zip of an artifact."


def compare(
    ctx: typer.Context,
    base: Annotated[str, typer.Argument(metavar="BASE", help=f"What is compared with. {_RUN}")],
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, named in the same way.")] = "latest",
    limit: Annotated[int, typer.Option(min=0, help="How many of a kind are named; 0: all.")] = 20,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print it as Markdown, as a comment on a pull request has it.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the times drawn.")
    ] = None,
    checking: Annotated[
        bool,
        typer.Option(
            "--check",
            help="End with 1 where tests newly fail or are newly flaky, with 3 where that is unknown.",
        ),
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Compare two runs test by test: newly failing, fixed, slower.

    New failures, fixed, newly flaky, slower beyond noise, added, removed: RUN compared with BASE.

    Example: spyre-ci compare latest-1 latest
    """
    if markdown and json_output:
        raise UsageError("both --markdown and --json are given", remedy="give one of them")
    context = options.make_context(ctx, {}, json_output=markdown or json_output)
    compared = compare_runs(context, base, run)
    found, outcome = compared.comparison, check_of(compared.comparison)
    for note in compared.notes:
        context.say(note)
    if json_output:
        typer.echo(document_text(KIND, as_json(found, outcome, limit=limit)))
    elif markdown:
        # Where it is printed into a log of GitHub's, no line of it is a command.
        for line in render_markdown(found, found.base.run, limit=limit).splitlines():
            typer.echo(defused(line))
    else:
        show(context.console, found, limit=limit)
    if html is not None:
        write_text(html, render_page(found, outcome))
        context.say(f"page: {html}")
    if checking:
        context.say(f"check: {outcome.said}")
        raise typer.Exit(outcome.code)
