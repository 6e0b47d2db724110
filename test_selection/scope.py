"""The scope: which tests of a catalog are in, which are out and why; the first rule that matches decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from test_selection.catalog import Catalog, CatalogTest
from test_selection.rules import Rule, Rules, default_rules, load_rules, rules_version

__all__ = [
    "Decision",
    "Rule",
    "Rules",
    "Scope",
    "apply_scope",
    "decide",
    "deciding_rules",
    "default_rules",
    "file_in_scope",
    "file_rule",
    "load_rules",
    "rules_version",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the scope says of one test: in or out, the reason code, and the rule's index from 0."""

    in_scope: bool
    code: str
    rule: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a whole catalog.

    Attributes:
        in_scope: the tests that are in, in the order of the catalog.
        out: how many tests each reason code left out.
        unused: codes none of whose rules decided anything, in the order of the rules.
    """

    in_scope: list[CatalogTest]
    out: Mapping[str, int]
    unused: list[str]


def decide(test: CatalogTest, device: str, rules: Rules) -> Decision:
    """Decide one test by the first rule that matches it."""
    return _decision(rules, _first(rules.masks.test(test) & rules.masks.value("device", device)))


def file_rule(file: str, device: str, rules: Rules) -> int:
    """The index of the first rule on file and device alone that matches a file."""
    by_file = sum(1 << i for i, rule in enumerate(rules.rules) if rule.by_file)
    return _first(by_file & rules.masks.value("file", file) & rules.masks.value("device", device))


def file_in_scope(file: str, device: str, rules: Rules) -> bool:
    """Whether a file that could not be collected is in: only rules on file and device alone count."""
    return _decision(rules, file_rule(file, device, rules)).in_scope


def deciding_rules(tests: Sequence[CatalogTest], device: str, rules: Rules) -> list[int]:
    """The index of the rule that decides each test, in the order of the tests."""
    there = rules.masks.value("device", device)
    first: dict[int, int] = {}
    found = []
    for mask in rules.masks.each(tests):
        if (number := first.get(mask)) is None:
            number = first[mask] = _first(mask & there)
        found.append(number)
    return found


def apply_scope(catalog: Catalog, rules: Rules) -> Scope:
    """Decide every test of a catalog, and say which codes decided nothing."""
    numbers = deciding_rules(catalog.tests, catalog.device, rules)
    used = Counter(numbers)
    inside = {number for number in used if rules.rules[number].verdict == "in"}
    out: Counter[str] = Counter()
    for number, count in sorted(used.items()):
        if number not in inside:
            out[rules.rules[number].code] += count
    codes = {rules.rules[number].code for number in used}
    return Scope(
        in_scope=[test for test, number in zip(catalog.tests, numbers, strict=True) if number in inside],
        out=dict(out),
        unused=[code for code in dict.fromkeys(rule.code for rule in rules.rules) if code not in codes],
    )


def _first(mask: int) -> int:
    """The index of the lowest bit; the last rule matches everything, so there is one."""
    return (mask & -mask).bit_length() - 1


def _decision(rules: Rules, number: int) -> Decision:
    rule = rules.rules[number]
    return Decision(in_scope=rule.verdict == "in", code=rule.code, rule=number)
