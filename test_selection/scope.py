"""The scope: rules in YAML that say of every test whether it is in or out, and why."""

from __future__ import annotations

import difflib
import importlib.resources
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from test_selection.catalog import Catalog, CatalogTest
from test_selection.errors import SettingsError
from test_selection.patterns import Pattern, compile_pattern
from test_selection.yaml_lines import Document, load_document

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
    document = load_document(path)
    _check_keys(document, (), document.content, ("rules",))
    rows = document.content.get("rules")
    if not isinstance(rows, list) or not rows:
        _refuse(document, ("rules",), f"rules is {rows!r}, not a list of rules", "list at least one rule")
    rules = tuple(_rule(document, index, row) for index, row in enumerate(rows))
    _check_order(document, rules)
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


def _rule(document: Document, index: int, row: Any) -> Rule:
    at: tuple[str | int, ...] = ("rules", index)
    if not isinstance(row, dict):
        _refuse(
            document, at, f"rule {index + 1} is {row!r}, not a table of keys", "start it with `- code: …`"
        )
    _check_keys(document, at, row, RULE_KEYS)
    if row.get("verdict") not in ("in", "out"):
        _refuse(
            document,
            (*at, "verdict"),
            f"verdict is {row.get('verdict')!r}, not in or out",
            "write `verdict: in` or `verdict: out`",
        )
    return Rule(
        code=_text(document, at, row, "code"),
        text=_text(document, at, row, "text"),
        verdict=row["verdict"],
        issue=_text(document, at, row, "issue") if "issue" in row else "",
        patterns={name: _patterns(document, (*at, name), row[name]) for name in MATCHERS if name in row},
    )


def _text(document: Document, at: Sequence[str | int], row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        _refuse(document, (*at, key), f"{key} is {value!r}, not text", f"give the rule a {key}")
    return value.strip()


def _patterns(document: Document, at: Sequence[str | int], value: Any) -> tuple[Pattern, ...]:
    found = value if isinstance(value, list) else [value]
    if not found or not all(isinstance(one, str) and one for one in found):
        _refuse(
            document,
            at,
            f"{at[-1]} is {value!r}, not a pattern or a list of patterns",
            "write a glob or a /regex/, and quote what YAML would read as a number or a truth value",
        )
    try:
        return tuple(compile_pattern(one) for one in found)
    except ValueError as error:
        _refuse(document, at, str(error), "mend the expression between the slashes")


def _check_keys(
    document: Document, at: Sequence[str | int], row: Mapping[Any, Any], known: Sequence[str]
) -> None:
    for key in row:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
            _refuse(document, (*at, str(key)), f"unknown key {str(key)!r}", remedy)


def _check_order(document: Document, rules: Sequence[Rule]) -> None:
    """The last rule, and only it, matches everything; a code never means both in and out."""
    for index, rule in enumerate(rules[:-1]):
        if not rule.patterns:
            _refuse(
                document,
                ("rules", index),
                f"rule {rule.code!r} matches everything, so the rules after it never decide",
                f"give it one of {', '.join(MATCHERS)}, or move it to the end",
            )
    if rules[-1].patterns:
        _refuse(
            document,
            ("rules", len(rules) - 1),
            f"the last rule, {rules[-1].code!r}, does not match everything",
            "end with a rule that has a code, a text and a verdict only",
        )
    verdicts: dict[str, str] = {}
    for index, rule in enumerate(rules):
        if verdicts.setdefault(rule.code, rule.verdict) != rule.verdict:
            _refuse(
                document,
                ("rules", index, "code"),
                f"code {rule.code!r} stands for both in and out",
                "give one of the rules another code",
            )


def _refuse(document: Document, at: Sequence[str | int], what: str, remedy: str) -> NoReturn:
    raise SettingsError(what, where=document.place(at), remedy=remedy)
