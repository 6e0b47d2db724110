"""What a plan must keep to, test by test: who runs alone, what stays in order, who needs several cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from test_selection.buckets import BucketRule
from test_selection.catalog import CatalogTest
from test_selection.limits import Limits
from test_selection.matching import FIELDS, Masks, Patterns, bits, read_code, read_line, read_patterns
from test_selection.yaml_reader import Reader

CHAINS = ("class", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRule:
    """How the tests it matches run.

    Attributes:
        code: the reason, short.
        text: the reason, for people.
        line: where it stands in its file, from 1.
        patterns: by field.
        alone: whether each runs in a process of its own.
        in_order: `class` or `file`, whose tests stay together in source order; empty where they need not.
    """

    code: str
    text: str
    line: int
    patterns: Patterns
    alone: bool = False
    in_order: str = ""


def read_order(row: Reader) -> OrderRule:
    """Read one entry of `order`.

    Raises:
        SettingsError: a key or value that cannot be taken, or an entry that says nothing or both.
    """
    row.known("code", "text", "alone", "in_order", *FIELDS)
    code, alone = read_code(row), row.content.get("alone", False)
    if not isinstance(alone, bool):
        raise row.error("alone", f"alone is {alone!r}", "write true, or leave it out")
    in_order = row.choice("in_order", CHAINS) if "in_order" in row.content else ""
    if alone == bool(in_order):
        said = "both alone and in_order" if alone else "neither alone nor in_order"
        raise row.error("code", f"order rule {code!r} says {said}", "give it one of them")
    patterns = read_patterns(row, FIELDS)
    if not patterns:
        raise row.error(
            "code", f"order rule {code!r} matches every test", f"give it one of {', '.join(FIELDS)}"
        )
    text = read_line(row, "text")
    return OrderRule(code=code, text=text, line=row.line, patterns=patterns, alone=alone, in_order=in_order)


def limits_of(
    tests: Iterable[CatalogTest], order: Sequence[OrderRule], buckets: Sequence[BucketRule]
) -> Limits:
    """What a plan of these tests keeps to; the first rule that matches a test decides how it runs.

    Args:
        tests: in source order, which chains keep.
        order: `Rules.order`.
        buckets: `Rules.buckets`; of those that match a test, the first with needs says how many cards.
    """
    rows = list(tests)
    alone: set[str] = set()
    in_order: dict[str, str] = {}
    for test, mask in zip(rows, Masks([one.patterns for one in order]).each(rows), strict=True):
        if not mask:
            continue
        rule = order[next(bits(mask))]
        if rule.alone:
            alone.add(test.id)
        else:
            in_order[test.id] = test.cls if rule.in_order == "class" else ""
    return Limits(alone=alone, in_order=in_order, cards=_cards(rows, buckets))


def _cards(tests: Sequence[CatalogTest], buckets: Sequence[BucketRule]) -> dict[str, int]:
    rules = [one for one in buckets if one.needs is not None]
    found = {}
    for test, mask in zip(tests, Masks([one.patterns for one in rules]).each(tests), strict=True):
        needs = rules[next(bits(mask))].needs if mask else None
        if needs is not None and needs.cards > 1:
            found[test.id] = needs.cards
    return found
