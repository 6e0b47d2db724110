"""The scope: rules in YAML that say of every test whether it is in or out, and why."""

from __future__ import annotations

import importlib.resources
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from test_selection.catalog import Catalog, CatalogTest
from test_selection.patterns import Pattern, compile_pattern
from test_selection.yaml_reader import Reader

MATCHERS = ("file", "class", "template", "op", "dtype", "device")
RULE_KEYS = ("code", "text", "issue", "verdict", *MATCHERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; it matches where every field it names matches one of that field's patterns."""

    code: str
    text: str
    verdict: str
    issue: str = ""
    patterns: Mapping[str, tuple[Pattern, ...]] = field(default_factory=dict)

    def accepts(self, name: str, value: str | None) -> bool:
        """Whether the rule lets this value of a field through; a field it does not name is free."""
        wanted = self.patterns.get(name)
        return wanted is None or (value is not None and any(one.search(value) for one in wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules in order, the first that matches decides; the last one matches everything."""

    path: Path
    rules: tuple[Rule, ...]
    # For each field and value the rules that accept it, as bits: a million tests have few values.
    _masks: dict[tuple[str, str | None], int] = field(default_factory=dict, repr=False, compare=False)

    def mask(self, name: str, value: str | None) -> int:
        """Bit i is set where rule i accepts `value` in the field `name`."""
        key = (name, value)
        if (known := self._masks.get(key)) is None:
            known = sum(1 << i for i, rule in enumerate(self.rules) if rule.accepts(name, value))
            self._masks[key] = known
        return known


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


def default_rules() -> Rules:
    """The rules that come with the package."""
    source = importlib.resources.files("test_selection") / "rules" / "pytorch.yaml"
    with importlib.resources.as_file(source) as path:
        return load_rules(path)


def load_rules(path: Path) -> Rules:
    """Read scope rules.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, with file, line, key and remedy.
    """
    root = Reader.load(path)
    root.known("rules")
    rows = root.rows("rules")
    if not rows:
        raise root.error("rules", "rules is empty", "list at least one rule")
    rules = tuple(_rule(row) for row in rows)
    _check_order(rows, rules)
    return Rules(path=path, rules=rules)


def decide(test: CatalogTest, device: str, rules: Rules) -> Decision:
    """Decide one test by the first rule that matches it."""
    return _decision(rules, _first(_test_mask(test, rules) & rules.mask("device", device)))


def file_in_scope(file: str, device: str, rules: Rules) -> bool:
    """Whether a file that could not be collected is in: only rules on file and device alone count."""
    by_file = sum(1 << i for i, rule in enumerate(rules.rules) if rule.patterns.keys() <= {"file", "device"})
    found = by_file & rules.mask("file", file) & rules.mask("device", device)
    return _decision(rules, _first(found)).in_scope


def apply_scope(catalog: Catalog, rules: Rules) -> Scope:
    """Decide every test of a catalog, and say which codes decided nothing."""
    device = rules.mask("device", catalog.device)
    inside = [rule.verdict == "in" for rule in rules.rules]
    used: Counter[int] = Counter()
    kept: list[CatalogTest] = []
    for test in catalog.tests:
        number = _first(_test_mask(test, rules) & device)
        used[number] += 1
        if inside[number]:
            kept.append(test)
    out: Counter[str] = Counter()
    for number, count in sorted(used.items()):
        if not inside[number]:
            out[rules.rules[number].code] += count
    codes = {rules.rules[number].code for number in used}
    unused = [code for code in dict.fromkeys(rule.code for rule in rules.rules) if code not in codes]
    return Scope(in_scope=kept, out=dict(out), unused=unused)


def _test_mask(test: CatalogTest, rules: Rules) -> int:
    mask = rules.mask
    found = mask("file", test.file) & mask("class", test.cls) & mask("template", test.template)
    return found & mask("op", test.op) & mask("dtype", test.dtype)


def _first(mask: int) -> int:
    """The index of the lowest bit; the last rule matches everything, so there is one."""
    return (mask & -mask).bit_length() - 1


def _decision(rules: Rules, number: int) -> Decision:
    rule = rules.rules[number]
    return Decision(in_scope=rule.verdict == "in", code=rule.code, rule=number)


def _rule(row: Reader) -> Rule:
    row.known(*RULE_KEYS)
    return Rule(
        code=row.text("code"),
        text=row.text("text"),
        verdict=row.choice("verdict", ("in", "out")),
        issue=row.text("issue", default=""),
        patterns={name: _patterns(row, name) for name in MATCHERS if name in row.content},
    )


def _patterns(row: Reader, name: str) -> tuple[Pattern, ...]:
    texts = row.texts(name)
    if not texts:
        raise row.error(name, f"{name} is an empty list", "give a glob or a /regex/, or leave the key out")
    try:
        return tuple(compile_pattern(one) for one in texts)
    except ValueError as error:
        raise row.error(name, str(error), "mend the pattern") from error


def _check_order(rows: Sequence[Reader], rules: Sequence[Rule]) -> None:
    """The last rule, and only it, matches everything; a code never means both in and out."""
    for row, rule in zip(rows[:-1], rules, strict=False):
        if not rule.patterns:
            raise row.error(
                "code",
                f"rule {rule.code!r} matches everything, so the rules after it never decide",
                f"give it one of {', '.join(MATCHERS)}, or move it to the end",
            )
    if rules[-1].patterns:
        raise rows[-1].error(
            "code",
            f"the last rule, {rules[-1].code!r}, does not match everything",
            "end with a rule that has a code, a text and a verdict only",
        )
    verdicts: dict[str, str] = {}
    for row, rule in zip(rows, rules, strict=True):
        if verdicts.setdefault(rule.code, rule.verdict) != rule.verdict:
            raise row.error(
                "code",
                f"code {rule.code!r} stands for both in and out",
                "give one of the rules another code",
            )
