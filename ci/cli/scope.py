"""`spyre-ci scope`: the table of reasons, and why one test or file is in or out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ci.cli.scope_text import explained_document, explained_lines, table_document, table_lines, tier_lines
from ci.config import completing
from ci.core.errors import UsageError
from ci.runner.collect import find_files
from ci.runner.source import fetch
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import CATALOG_FILE
from ci.steps.plan import past_durations
from ci.steps.select import scope_rules, tier_limits
from test_selection.catalog import Catalog, CatalogTest, parse_test, read_catalog
from test_selection.files import document_text
from test_selection.rules import Rules
from test_selection.scope import Explanation, explain, explain_file, file_table, scope_table
from test_selection.tiers import Destination, destination

app = typer.Typer(
    help="""Show which tests are in scope, which are not, and why.

    Prints the table of reasons of a catalog: code, in or out, tests, files, text, issue.

    Example: spyre-ci scope --run-dir runs/nightly
    """
)

CatalogFile = Annotated[
    Path | None, typer.Option("--catalog", help="Catalog to read; default: the run folder's.")
]


@app.callback(invoke_without_command=True)
def scope(
    ctx: typer.Context,
    run_dir: options.RunDir = None,
    catalog: CatalogFile = None,
    source: Annotated[
        str | None,
        typer.Option("--pytorch-src", metavar="WHERE", help="Count a tree's files, without a catalog."),
    ] = None,
    device: options.Device = None,
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="List each rule that has no effect.")
    ] = 0,
    json_output: options.Json = False,
) -> None:
    """Print the table of reasons of a catalog."""
    if ctx.invoked_subcommand is not None:
        options.refuse_before_verb(ctx)
        return
    if sum(value is not None for value in (run_dir, catalog, source)) > 1:
        raise UsageError("several inputs are named", remedy="give one of --run-dir, --catalog, --pytorch-src")
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    rules = scope_rules(context)
    if source is not None:
        name = context.settings.model.device.name
        files = find_files(fetch(source, context.state("sources")).tests, ())
        table = file_table(files, name, rules)
    else:
        found = _on_device(_catalog_of(context, run_dir, catalog), device)
        name, table = found.device, scope_table(found, rules)
    if json_output:
        typer.echo(document_text("scope", table_document(table, rules, name)))
        return
    for line in table_lines(table, rules, name, tests=source is None, verbose=verbose > 0):
        context.say(line)


@app.command("explain")
def explain_command(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A test id, a node id, or a test file.", autocompletion=completing.tests
        ),
    ],
    run_dir: options.RunDir = None,
    catalog: CatalogFile = None,
    device: options.Device = None,
    json_output: options.Json = False,
) -> None:
    """Show which rule decides a test or a file, what it matched, and which rules before it did not match.

    Example: spyre-ci scope explain 'test_view_ops.py::TestViewOps::test_contiguous'
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    rules = scope_rules(context)
    found = None
    if run_dir is not None or catalog is not None:
        found = _on_device(_catalog_of(context, run_dir, catalog), device)
    on = context.settings.model.device.name if found is None else found.device
    explained = _explained(name, found, on, rules)
    tiers = {} if explained.test.id == explained.test.file else _tiers_of(context, explained, on, rules)
    if json_output:
        typer.echo(document_text("scope-explain", explained_document(explained, rules, on, tiers)))
        return
    for line in (*explained_lines(explained, rules, on), *tier_lines(tiers)):
        context.say(line)


def _on_device(catalog: Catalog, device: str | None) -> Catalog:
    if device is None:
        return catalog
    return Catalog(pytorch=catalog.pytorch, device=device, files=catalog.files, tests=catalog.tests)


def _explained(name: str, catalog: Catalog | None, device: str, rules: Rules) -> Explanation:
    if "::" not in name:
        if not name.endswith(".py"):
            raise UsageError(
                f"{name!r} is neither a test id nor a test file",
                where="ID",
                remedy="write file::Class::template[key=value,…], or a file such as test_view_ops.py",
            )
        return explain_file(name.removeprefix("./"), device, rules)
    return explain(_find(name, catalog), device, rules)


def _find(name: str, catalog: Catalog | None) -> CatalogTest:
    """The test of the catalog; one that no catalog holds is taken from its id's parts."""
    for test in catalog.tests if catalog is not None else ():
        if name in (test.id, test.node):
            return test
    return parse_test(name, node=name)


def _tiers_of(context: Context, explained: Explanation, device: str, rules: Rules) -> dict[str, Destination]:
    """Where each tier has an explained test run, by what earlier runs of it took."""
    seconds = past_durations(context, device).tests.get(explained.test.id, 0.0)
    mask = sum(1 << index for index in explained.tiers)
    limits = tier_limits(context)
    return {name: destination(mask, seconds, rules.tiers, limits, name) for name in limits}


def _catalog_of(context: Context, run_dir: Path | None, catalog: Path | None) -> Catalog:
    """The catalog that is named, by itself or by its run; else the latest run's.

    Raises:
        MissingInputError: there is none.
    """
    return read_catalog(catalog or options.run_folder(context, run_dir, holding=CATALOG_FILE).catalog)
