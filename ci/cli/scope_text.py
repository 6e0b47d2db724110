"""The table of reasons and an explanation, in lines for people and as documents for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ci.core.text import counted
from test_selection.files import schema_name
from test_selection.rules import Rules, rules_version
from test_selection.scope import Explanation, RuleMatch, ScopeTable
from test_selection.tiers import Destination, TierRule

_SHOWN_FILES = 20


def table_lines(
    table: ScopeTable, rules: Rules, device: str, *, tests: bool, verbose: bool = False
) -> Iterator[str]:
    """The table for people.

    Args:
        table: what to show.
        rules: the rules it was made with.
        device: the device it is about.
        tests: whether tests were counted, or files alone.
        verbose: whether each entry without effect is listed, or only their number.
    """
    yield f"scope of {device} by {rules.path} (version {rules_version(rules)})"
    width = max(len(one.code) for one in table.reasons)
    column = f"{'tests':>11}  " if tests else ""
    yield f"  {'code':<{width}}  {'':<3}  {column}{'files':>6}  text"
    for one in table.reasons:
        number = f"{one.tests:>11,}  " if tests else ""
        issue = f" ({one.issue})" if one.issue else ""
        verdict = "in" if one.in_scope else "out"
        yield f"  {one.code:<{width}}  {verdict:<3}  {number}{one.files:>6,}  {one.text}{issue}"
    if tests:
        inside = sum(one.tests for one in table.reasons if one.in_scope)
        yield f"in scope: {inside:,} of {counted(sum(one.tests for one in table.reasons), 'test')}"
        entries = counted(len(rules.must_run), "entry", "entries")
        yield f"must run: {counted(table.must_run, 'test')} by {entries}"
    yield f"files left to the last rule: {len(table.catch_all)}"
    yield from (f"  {name}" for name in table.catch_all[:_SHOWN_FILES])
    if len(table.catch_all) > _SHOWN_FILES:
        yield f"  and {len(table.catch_all) - _SHOWN_FILES} more; --json lists all"
    idle = [f"{rules.path}:{one.line}: {one.section}: {one.name}: {one.why}" for one in table.idle]
    ops = [f"device.ops (settings): {op}: no collected test is of this operator" for op in table.unknown_ops]
    if verbose:
        yield from (f"idle: {text}" for text in (*ops, *idle))
    elif idle or ops:
        yield f"idle: {counted(len(idle) + len(ops), 'entry has', 'entries have')} no effect (-v lists them)"


def explained_lines(explained: Explanation, rules: Rules, device: str) -> Iterator[str]:
    """An explanation for people."""
    rule = rules.rules[explained.rule]
    yield f"{explained.test.id} on {device}: {rule.verdict}"
    yield f"  decided by {rules.place(explained.rule)}: {rule.code}: {rule.text}"
    if rule.issue:
        yield f"  issue: {rule.issue}"
    for field, (pattern, value) in explained.matches[-1].hits.items():
        yield f"  {field} {value!r} matches {pattern!r}"
    if not rule.patterns:
        yield "  it matches everything: no other rule did"
    earlier = [one for one in explained.matches[:-1] if one.hits]
    if explained.matches[:-1]:
        yield f"rules before it: {len(explained.matches) - 1}, of which {len(earlier)} match in part"
    yield from (f"  {_match_line(one, rules)}" for one in earlier)
    if explained.before:
        yield "rules that may decide single tests of it first:"
        yield from (f"  {rules.place(index)}: {rules.rules[index].code}" for index in explained.before)
    for index in explained.tiers:
        tier = rules.tiers[index]
        where = f"{rules.path}:{tier.line}"
        yield f"tier: {where}: {tier.code}: {tier.text} ({_tier_words(tier)})"
    yield from (f"must run: {text}" for text in explained.serves)


def tier_lines(tiers: Mapping[str, Destination]) -> Iterator[str]:
    """Where each tier has the test run, for people."""
    for name, to in tiers.items():
        where = "runs here" if to.bucket == name else f"moves to the {to.bucket} tier ({to.reason})"
        beyond = f"; {to.beyond}, the last one" if to.beyond else ""
        yield f"tier {name}: {where}{beyond}"


def _match_line(match: RuleMatch, rules: Rules) -> str:
    hits = [f"{name} {value!r} matches {pattern!r}" for name, (pattern, value) in match.hits.items()]
    misses = [
        f"{name} {value!r} does not match" if value else f"it has no {name}"
        for name, value in match.misses.items()
    ]
    return f"{rules.place(match.rule)}: {rules.rules[match.rule].code}: {', '.join((*hits, *misses))}"


def _tier_words(tier: TierRule) -> str:
    parts = [f"not before {tier.tier}"] if tier.tier else []
    if tier.seconds_above is not None:
        parts.append(f"where it takes above {tier.seconds_above:g} s")
    if tier.needs is not None:
        parts.append(f"needs cards: {tier.needs.cards}, GiB: {tier.needs.memory_gib:g}")
    return ", ".join(parts)


def table_document(table: ScopeTable, rules: Rules, device: str) -> dict[str, Any]:
    """The table for machines."""
    return {
        "schema": schema_name("scope"),
        "device": device,
        "rules": str(rules.path),
        "version": rules_version(rules),
        "reasons": [asdict(one) for one in table.reasons],
        "idle": [asdict(one) for one in table.idle],
        "catch_all": table.catch_all,
        "must_run": table.must_run,
        "unknown_ops": table.unknown_ops,
    }


def explained_document(
    explained: Explanation, rules: Rules, device: str, tiers: Mapping[str, Destination]
) -> dict[str, Any]:
    """An explanation for machines."""
    rule = rules.rules[explained.rule]
    return {
        "schema": schema_name("scope-explain"),
        "id": explained.test.id,
        "device": device,
        "in_scope": rule.verdict == "in",
        "code": rule.code,
        "text": rule.text,
        "issue": rule.issue,
        "rule": rules.place(explained.rule),
        "matched": {name: {"pattern": p, "value": v} for name, (p, v) in explained.matches[-1].hits.items()},
        "before": [
            {
                "rule": rules.place(one.rule),
                "code": rules.rules[one.rule].code,
                "matched": sorted(one.hits),
                "missed": sorted(one.misses),
            }
            for one in explained.matches[:-1]
        ],
        "may_decide_first": [rules.place(index) for index in explained.before],
        "buckets": [f"{rules.path}:{rules.tiers[index].line}" for index in explained.tiers],
        "runs_in": {name: asdict(to) for name, to in tiers.items()},
        "must_run": explained.serves,
    }
