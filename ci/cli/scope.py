"""`spyre-ci scope`: the table of reasons, and why one test or file is in or out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.cli import options
from ci.errors import UsageError
from ci.steps.scoping import scope_catalog, scope_rules, tree_files
from test_selection.buckets import BucketRule
from test_selection.catalog import Catalog, CatalogTest
from test_selection.explain import Explanation, Said, explain, explain_file, parse_test
from test_selection.rules import Rules, rules_version
from test_selection.scope_table import ScopeTable, file_table, scope_table

app = typer.Typer(help="What is in scope, what is not, and why.")

CatalogFile = Annotated[
    Path | None, typer.Option("--catalog", help="Catalog to read; default: the run folder's.")
]
_SHOWN_FILES = 20


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
    json_output: options.Json = False,
) -> None:
    """Print the table of reasons of a catalog: code, in or out, tests, files, text, issue.

    Example: spyre-ci scope --run-dir runs/nightly
    """
    if ctx.invoked_subcommand is not None:
        if any(value is not None for value in (run_dir, catalog, source, device)) or json_output:
            raise UsageError(
                "options stand before the verb", where="spyre-ci scope", remedy="write them behind it"
            )
        return
    if sum(value is not None for value in (run_dir, catalog, source)) > 1:
        raise UsageError("several inputs are named", remedy="give one of --run-dir, --catalog, --pytorch-src")
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    rules = scope_rules(context)
    if source is not None:
        name = context.settings.model.device.name
        table = file_table(tree_files(context, source), name, rules)
    else:
        found = _on_device(scope_catalog(context, run_dir, catalog), device)
        name, table = found.device, scope_table(found, rules)
    if json_output:
        typer.echo(json.dumps(_document(table, rules, name), indent=1))
        return
    for line in table_lines(table, rules, name, tests=source is None):
        context.say(line)


@app.command("explain")
def explain_command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="A canonical id, a node id, or a test file.")],
    run_dir: options.RunDir = None,
    catalog: CatalogFile = None,
    device: options.Device = None,
    json_output: options.Json = False,
) -> None:
    """Say which rule decides a test or a file, what it matched, and what the rules before it said.

    Example: spyre-ci scope explain 'test_view_ops.py::TestViewOps::test_contiguous'
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    rules = scope_rules(context)
    found = None
    if run_dir is not None or catalog is not None:
        found = _on_device(scope_catalog(context, run_dir, catalog), device)
    on = context.settings.model.device.name if found is None else found.device
    told = _explained(name, found, on, rules)
    if json_output:
        typer.echo(json.dumps(_explained_document(told, rules, on), indent=1))
        return
    for line in explained_lines(told, rules, on):
        context.say(line)


def _on_device(catalog: Catalog, device: str | None) -> Catalog:
    if device is None:
        return catalog
    return Catalog(pytorch=catalog.pytorch, device=device, files=catalog.files, tests=catalog.tests)


def _explained(name: str, catalog: Catalog | None, device: str, rules: Rules) -> Explanation:
    if "::" not in name:
        if not name.endswith(".py"):
            raise UsageError(
                f"{name!r} is neither a canonical id nor a test file",
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
    return parse_test(name)


def table_lines(table: ScopeTable, rules: Rules, device: str, *, tests: bool) -> Iterator[str]:
    """The table for people.

    Args:
        table: what to show.
        rules: the rules it was made with.
        device: the device it is about.
        tests: whether tests were counted, or files alone.
    """
    yield f"scope of {device} by {rules.path} (version {rules_version(rules)})"
    width = max(len(one.code) for one in table.reasons)
    counted = f"{'tests':>11}  " if tests else ""
    yield f"  {'code':<{width}}  {'':<3}  {counted}{'files':>6}  text"
    for one in table.reasons:
        number = f"{one.tests:>11,}  " if tests else ""
        issue = f" ({one.issue})" if one.issue else ""
        verdict = "in" if one.in_scope else "out"
        yield f"  {one.code:<{width}}  {verdict:<3}  {number}{one.files:>6,}  {one.text}{issue}"
    if tests:
        inside = sum(one.tests for one in table.reasons if one.in_scope)
        yield f"in scope: {inside:,} of {sum(one.tests for one in table.reasons):,} tests"
        yield f"must run: {table.must_run:,} tests by {len(rules.must_run)} entries"
    yield f"files left to the last rule: {len(table.catch_all)}"
    yield from (f"  {name}" for name in table.catch_all[:_SHOWN_FILES])
    if len(table.catch_all) > _SHOWN_FILES:
        yield f"  and {len(table.catch_all) - _SHOWN_FILES} more; --json lists all"
    for idle in table.idle:
        yield f"idle: {rules.path}:{idle.line}: {idle.section}: {idle.name}: {idle.why}"


def explained_lines(told: Explanation, rules: Rules, device: str) -> Iterator[str]:
    """An explanation for people."""
    rule = rules.rules[told.rule]
    yield f"{told.test.id} on {device}: {rule.verdict}"
    yield f"  decided by {rules.place(told.rule)}: {rule.code}: {rule.text}"
    if rule.issue:
        yield f"  issue: {rule.issue}"
    for field, (pattern, value) in told.said[-1].hits.items():
        yield f"  {field} {value!r} matches {pattern!r}"
    if not rule.patterns:
        yield "  it matches everything: no other rule did"
    earlier = [one for one in told.said[:-1] if one.hits]
    if told.said[:-1]:
        yield f"rules before it: {len(told.said) - 1}, of which {len(earlier)} match in part"
    yield from (f"  {_said_line(one, rules)}" for one in earlier)
    if told.before:
        yield "rules that may decide single tests of it first:"
        yield from (f"  {rules.place(index)}: {rules.rules[index].code}" for index in told.before)
    for index in told.buckets:
        bucket = rules.buckets[index]
        where = f"{rules.path}:{bucket.line}"
        yield f"bucket: {where}: {bucket.code}: {bucket.text} ({_bucket_words(bucket)})"
    yield from (f"must run: {text}" for text in told.serves)


def _said_line(said: Said, rules: Rules) -> str:
    hits = [f"{name} {value!r} matches {pattern!r}" for name, (pattern, value) in said.hits.items()]
    misses = [
        f"{name} {value!r} does not match" if value else f"it has no {name}"
        for name, value in said.misses.items()
    ]
    return f"{rules.place(said.rule)}: {rules.rules[said.rule].code}: {', '.join((*hits, *misses))}"


def _bucket_words(bucket: BucketRule) -> str:
    parts = [f"not before {bucket.bucket}"] if bucket.bucket else []
    if bucket.seconds_above is not None:
        parts.append(f"where it takes above {bucket.seconds_above:g} s")
    if bucket.needs is not None:
        parts.append(f"needs {bucket.needs.cards} cards, {bucket.needs.memory_gib:g} GiB")
    return ", ".join(parts)


def _document(table: ScopeTable, rules: Rules, device: str) -> dict[str, Any]:
    return {
        "schema": "spyre-ci/scope/1",
        "device": device,
        "rules": str(rules.path),
        "version": rules_version(rules),
        "reasons": [asdict(one) for one in table.reasons],
        "idle": [asdict(one) for one in table.idle],
        "catch_all": table.catch_all,
        "must_run": table.must_run,
    }


def _explained_document(told: Explanation, rules: Rules, device: str) -> dict[str, Any]:
    rule = rules.rules[told.rule]
    return {
        "schema": "spyre-ci/scope-explain/1",
        "id": told.test.id,
        "device": device,
        "in_scope": rule.verdict == "in",
        "code": rule.code,
        "text": rule.text,
        "issue": rule.issue,
        "rule": rules.place(told.rule),
        "matched": {name: {"pattern": p, "value": v} for name, (p, v) in told.said[-1].hits.items()},
        "before": [
            {
                "rule": rules.place(one.rule),
                "code": rules.rules[one.rule].code,
                "matched": sorted(one.hits),
                "missed": sorted(one.misses),
            }
            for one in told.said[:-1]
        ],
        "may_decide_first": [rules.place(index) for index in told.before],
        "buckets": [asdict(rules.buckets[index]) | {"patterns": None} for index in told.buckets],
        "must_run": told.serves,
    }
