"""Why a test, or a file, is in or out: the rule that decided, and what each rule before it said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.ids import parse_id
from test_selection.matching import Masks, bits, first_hit, value_of
from test_selection.rules import Rule, Rules
from test_selection.scope import file_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one rule said of a test.

    Attributes:
        rule: its index from 0.
        hits: by field, the pattern that matched, as written, and the value it matched.
        misses: by field that did not match, the value it was asked of; None where the test has none.
    """

    rule: int
    hits: Mapping[str, tuple[str, str]]
    misses: Mapping[str, str | None]

    @property
    def matches(self) -> bool:
        """Whether the whole rule matches."""
        return not self.misses


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a test is in or out.

    Attributes:
        test: the test; of a file alone, only its file is set.
        rule: the index of the rule that decided.
        said: what each rule said, up to and with the one that decided.
        buckets: the indexes of the bucket rules whose patterns match it.
        serves: what the must-run entries that name it serve.
        before: of a file alone, the rules that may decide single tests of it before its own rule does.
    """

    test: CatalogTest
    rule: int
    said: list[Said]
    buckets: list[int]
    serves: list[str]
    before: list[int]


def explain(test: CatalogTest, device: str, rules: Rules) -> Explanation:
    """Ask the rules of one test, in order, until one decides; no table of masks is used here."""
    said: list[Said] = []
    for number, rule in enumerate(rules.rules):
        said.append(_said(number, rule, test, device))
        if said[-1].matches:
            break
    must = Masks([one.patterns for one in rules.must_run]).test(test)
    return Explanation(
        test=test,
        rule=said[-1].rule,
        said=said,
        buckets=list(bits(Masks([one.patterns for one in rules.buckets]).test(test))),
        serves=[rules.must_run[index].serves for index in bits(must)],
        before=[],
    )


def explain_file(file: str, device: str, rules: Rules) -> Explanation:
    """Ask the rules of a file as a whole: those on file and device alone can decide it."""
    number = file_rule(file, device, rules)
    test = CatalogTest(id=file, node=file, file=file)
    said = [_said(index, rule, test, device) for index, rule in enumerate(rules.rules[: number + 1])]
    possible = rules.masks.value("file", file) & rules.masks.value("device", device)
    return Explanation(
        test=test,
        rule=number,
        said=[one for one in said if rules.rules[one.rule].by_file],
        buckets=[],
        serves=[],
        before=[index for index in bits(possible) if index < number],
    )


def parse_test(text: str) -> CatalogTest:
    """The test an id names, from its parts alone: nothing is known of its node or its markers.

    Raises:
        UsageError: it is not a canonical id.
    """
    file, cls, template, params = parse_id(text)
    if not file or not template:
        raise UsageError(
            f"{text!r} names no {'test' if file else 'file'}",
            remedy="write file::Class::template[key=value,…]",
        )
    return CatalogTest(
        id=text,
        node=text,
        file=file,
        cls=cls,
        template=template,
        op=params.get("op") or params.get("module"),
        dtype=params.get("dtype") or params.get("dtypes"),
    )


def _said(number: int, rule: Rule, test: CatalogTest, device: str) -> Said:
    hits: dict[str, tuple[str, str]] = {}
    misses: dict[str, str | None] = {}
    for field, wanted in rule.patterns.items():
        value = device if field == "device" else value_of(test, field)
        if (hit := first_hit(wanted, value)) is not None:
            hits[field] = hit
        else:
            misses[field] = ", ".join(value) or None if isinstance(value, tuple) else value or None
    return Said(rule=number, hits=hits, misses=misses)
