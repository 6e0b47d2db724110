"""The rules file: what is in scope, what a tier leaves to a later one, and what always runs first."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from test_selection.capabilities import KINDS, Capabilities, Undeclared
from test_selection.catalog import CatalogTest
from test_selection.limits import OrderRule, read_order
from test_selection.rule_fields import (
    FIELDS,
    Masks,
    Patterns,
    Reason,
    Wanted,
    read_line,
    read_patterns,
    read_reason,
)
from test_selection.tiers import TierRule, read_tier
from test_selection.yaml_reader import Reader

MATCHERS = (*FIELDS, "device")
_CONDITIONS = (*MATCHERS, "unsupported")
_HEAD = ("code", "text", "issue", "verdict")
_VERSION_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class MustRun:
    """Tests that run at every stage, and the model or deployment pattern they serve."""

    serves: str
    line: int
    patterns: Patterns


def read_must_run(row: Reader) -> MustRun:
    """Read one entry of `must_run`.

    Raises:
        SettingsError: a key or value that cannot be taken.
    """
    row.known("serves", *FIELDS)
    patterns = read_patterns(row, FIELDS)
    serves = read_line(row, "serves")
    if not patterns:
        raise row.error("serves", f"{serves!r} names no tests", f"give it one of {', '.join(FIELDS)}")
    return MustRun(serves=serves, line=row.line, patterns=patterns)


def must_run_ids(tests: Iterable[CatalogTest], entries: Sequence[MustRun]) -> list[str]:
    """The ids of the tests an entry names, in the order of the tests.

    Args:
        tests: the tests in scope.
        entries: `Rules.must_run`.
    """
    rows = list(tests)
    masks = Masks([one.patterns for one in entries]).each(rows)
    return [test.id for test, mask in zip(rows, masks, strict=True) if mask]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Reason):
    """One rule of the scope.

    Attributes:
        verdict: `in` or `out`.
        unsupported: `op` or `dtype` where the rule is about what the device does not declare, else empty.
    """

    verdict: str
    unsupported: str = ""

    @property
    def by_file(self) -> bool:
        """Whether a file's name and the device are all it asks for."""
        return self.patterns.keys() <= {"file", "device"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A rules file.

    Attributes:
        path: where it was read from.
        rules: in order, the first that matches decides; the last one matches everything.
        tiers: what needs a later tier.
        must_run: what releases depend on.
        order: what runs alone or in order.
        capabilities: what the device declares.
    """

    path: Path
    rules: tuple[Rule, ...]
    tiers: tuple[TierRule, ...] = ()
    must_run: tuple[MustRun, ...] = ()
    order: tuple[OrderRule, ...] = ()
    capabilities: Capabilities = field(default_factory=Capabilities)
    # Filled while deciding: a million tests have few values.
    _masks: list[Masks] = field(default_factory=list, repr=False, compare=False)

    @property
    def masks(self) -> Masks:
        """Which rules match a test, whatever its device."""
        if not self._masks:
            self._masks.append(Masks([rule.patterns for rule in self.rules]))
        return self._masks[0]

    @property
    def file_mask(self) -> int:
        """The rules on file and device alone, as bits."""
        return sum(1 << i for i, rule in enumerate(self.rules) if rule.by_file)

    def for_device(self, capabilities: Capabilities) -> Rules:
        """The same rules where the device declares these ops and dtypes."""
        rules = tuple(_bound(rule, capabilities) for rule in self.rules)
        return replace(self, rules=rules, capabilities=capabilities, _masks=[])

    def place(self, rule: int) -> str:
        """`file:line` of a rule."""
        return f"{self.path}:{self.rules[rule].line}"


def default_rules() -> Rules:
    """The rules that come with the package."""
    source = importlib.resources.files("test_selection") / "rules" / "pytorch.yaml"
    with importlib.resources.as_file(source) as path:
        return load_rules(path)


def load_rules(path: Path) -> Rules:
    """Read a rules file.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, with file, line, key and remedy.
    """
    root = Reader.load(path)
    root.known("rules", "tiers", "must_run", "order")
    rows = root.rows("rules")
    if not rows:
        raise root.error("rules", "rules is empty", "list at least one rule")
    found = [(row, rule) for row in rows for rule in _rules(row)]
    _check_order(found)
    return Rules(
        path=path,
        rules=tuple(rule for _, rule in found),
        tiers=tuple(read_tier(row) for row in root.rows("tiers")),
        must_run=tuple(read_must_run(row) for row in root.rows("must_run")),
        order=tuple(read_order(row) for row in root.rows("order")),
    )


def rules_version(rules: Rules) -> str:
    """Twelve hex digits that change with what the rules decide, and with nothing else.

    In it are the rules in their order, the must-run list and what the device declares; comments, layout,
    texts and links are not, nor are tier rules, which move tests between tiers and not in or out.
    """
    content = {
        "rules": [[rule.code, rule.verdict, rule.unsupported, _texts(rule.patterns)] for rule in rules.rules],
        "must_run": [_texts(row.patterns) for row in rules.must_run],
        "ops": sorted(rules.capabilities.ops),
        "dtypes": sorted(rules.capabilities.dtypes),
    }
    text = json.dumps(content, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_VERSION_CHARS]


def _texts(patterns: Patterns) -> dict[str, list[str]]:
    return {name: sorted({one.text for one in wanted}) for name, wanted in sorted(patterns.items())}


def _bound(rule: Rule, capabilities: Capabilities) -> Rule:
    if not rule.unsupported:
        return rule
    return replace(rule, patterns={**rule.patterns, **_undeclared(rule.unsupported, capabilities)})


def _undeclared(kind: str, capabilities: Capabilities) -> dict[str, tuple[Wanted, ...]]:
    pattern = Undeclared(kind=kind, capabilities=capabilities)
    return {kind: (Wanted(text=f"not in device.{kind}s", pattern=pattern),)}


def _rules(row: Reader) -> Iterator[Rule]:
    """The rule of one row, or one for each alternative of its `any`."""
    row.known(*_HEAD, "any", *_CONDITIONS)
    head = read_reason(row) | {"verdict": row.choice("verdict", ("in", "out"))}
    alternatives = row.rows("any")
    if "any" not in row.content:
        yield _rule(row, head)
        return
    if not alternatives:
        raise row.error("any", "any is empty", f"list alternatives, each with one of {', '.join(MATCHERS)}")
    if beside := [name for name in _CONDITIONS if name in row.content]:
        raise row.error(
            beside[0],
            f"{beside[0]} is given together with any",
            "move it into each of the alternatives it is meant for",
        )
    for one in alternatives:
        one.known(*_CONDITIONS)
        if not one.content:
            raise one.error("any", "any holds an empty table", "give it a pattern, or take it out")
        yield _rule(one, head)


def _rule(row: Reader, head: dict[str, Any]) -> Rule:
    patterns = read_patterns(row, MATCHERS)
    kind = row.choice("unsupported", KINDS) if "unsupported" in row.content else ""
    if kind and kind in patterns:
        raise row.error(kind, f"{kind} is given together with `unsupported: {kind}`", "keep one of them")
    if kind:
        patterns |= _undeclared(kind, Capabilities())
    return Rule(**head | {"line": row.line}, unsupported=kind, patterns=patterns)


def _check_order(found: Sequence[tuple[Reader, Rule]]) -> None:
    """The last rule, and only it, matches everything; a code never means both in and out."""
    for row, rule in found[:-1]:
        if not rule.patterns:
            raise row.error(
                "code",
                f"rule {rule.code!r} matches everything, so the rules after it never decide",
                f"give it one of {', '.join(_CONDITIONS)}, or move it to the end",
            )
    row, last = found[-1]
    if last.patterns:
        raise row.error(
            "code",
            f"the last rule, {last.code!r}, does not match everything",
            "end with a rule that has a code, a text and a verdict only",
        )
    verdicts: dict[str, str] = {}
    for row, rule in found:
        if verdicts.setdefault(rule.code, rule.verdict) != rule.verdict:
            raise row.error(
                "code",
                f"code {rule.code!r} is used for both in and out",
                "give one of the rules another code",
            )
