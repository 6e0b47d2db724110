"""The scope: which tests of a catalog are in, which are out and why; the first rule that matches decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from test_selection.catalog import Catalog, CatalogTest
from test_selection.matching import Masks, bits, first_hit, value_of
from test_selection.rules import Rule, Rules


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


def file_rule(file: str, device: str, rules: Rules) -> int:
    """The index of the first rule on file and device alone that matches a file."""
    by_file = sum(1 << i for i, rule in enumerate(rules.rules) if rule.by_file)
    return _first(by_file & rules.masks.value("file", file) & rules.masks.value("device", device))


def file_in_scope(file: str, device: str, rules: Rules) -> bool:
    """Whether a file that could not be collected is in: only rules on file and device alone count."""
    return rules.rules[file_rule(file, device, rules)].verdict == "in"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """What of one rule matches a test.

    Attributes:
        rule: its index from 0.
        hits: by field, the pattern that matched, as written, and the value it matched.
        misses: by field that did not match, the value it was asked of; None where the test has none.
    """

    rule: int
    hits: Mapping[str, tuple[str, str]]
    misses: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a test is in or out.

    Attributes:
        test: the test; of a file alone, only its file is set.
        matches: of each rule, up to and with the one that decided.
        buckets: the indexes of the tier rules whose patterns match it.
        serves: what the must-run entries that name it serve.
        before: of a file alone, the rules that may decide single tests of it before its own rule does.
    """

    test: CatalogTest
    matches: list[RuleMatch]
    buckets: list[int]
    serves: list[str]
    before: list[int]

    @property
    def rule(self) -> int:
        """The index of the rule that decided."""
        return self.matches[-1].rule


def explain(test: CatalogTest, device: str, rules: Rules) -> Explanation:
    """Ask the rules of one test, in order, until one decides; no table of masks is used here."""
    matches: list[RuleMatch] = []
    for number, rule in enumerate(rules.rules):
        matches.append(_match(number, rule, test, device))
        if not matches[-1].misses:
            break
    must = Masks([one.patterns for one in rules.must_run]).test(test)
    return Explanation(
        test=test,
        matches=matches,
        buckets=list(bits(Masks([one.patterns for one in rules.buckets]).test(test))),
        serves=[rules.must_run[index].serves for index in bits(must)],
        before=[],
    )


def explain_file(file: str, device: str, rules: Rules) -> Explanation:
    """Ask the rules of a file as a whole: those on file and device alone can decide it."""
    number = file_rule(file, device, rules)
    test = CatalogTest(id=file, node=file, file=file)
    matches = [_match(index, rule, test, device) for index, rule in enumerate(rules.rules[: number + 1])]
    possible = rules.masks.value("file", file) & rules.masks.value("device", device)
    return Explanation(
        test=test,
        matches=[one for one in matches if rules.rules[one.rule].by_file],
        buckets=[],
        serves=[],
        before=[index for index in bits(possible) if index < number],
    )


def _match(number: int, rule: Rule, test: CatalogTest, device: str) -> RuleMatch:
    hits: dict[str, tuple[str, str]] = {}
    misses: dict[str, str | None] = {}
    for field, wanted in rule.patterns.items():
        value = device if field == "device" else value_of(test, field)
        if (hit := first_hit(wanted, value)) is not None:
            hits[field] = hit
        else:
            misses[field] = ", ".join(value) or None if isinstance(value, tuple) else value or None
    return RuleMatch(rule=number, hits=hits, misses=misses)
