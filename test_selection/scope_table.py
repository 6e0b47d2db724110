"""The table of reasons: how many tests and files each code decides, and which rules never do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from test_selection.capabilities import declared_names
from test_selection.catalog import Catalog, CatalogTest
from test_selection.limits import OrderRule
from test_selection.matching import Masks, bits
from test_selection.rules import MustRun, Rules
from test_selection.scope import deciding_rules, file_rule
from test_selection.tiers import TierRule


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRow:
    """One code of a rules file.

    Attributes:
        code: the code.
        in_scope: whether its tests are in.
        tests: how many tests its rules decide.
        files: how many files those are of, with the files without tests that its rules decide.
        text: why, for people.
        issue: a link, where there is one.
    """

    code: str
    in_scope: bool
    tests: int
    files: int
    text: str
    issue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """An entry of the rules file without effect: its section, line, what it is called, and how it fails."""

    section: str
    line: int
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeTable:
    """What a rules file makes of a catalog, or of a tree's files.

    Attributes:
        reasons: by code, in the order of the rules.
        idle: entries that match nothing, or that other rules always come before.
        catch_all: files no rule but the last one names, sorted.
        must_run: how many in-scope tests the must-run list names.
        unknown_ops: ops the device declares and no test of the catalog is of, sorted.
    """

    reasons: list[CodeRow]
    idle: list[Idle]
    catch_all: list[str]
    must_run: int = 0
    unknown_ops: list[str] = field(default_factory=list)


def scope_table(catalog: Catalog, rules: Rules) -> ScopeTable:
    """The table of a catalog."""
    device, tests = catalog.device, catalog.tests
    numbers = deciding_rules(tests, device, rules)
    pairs = Counter(zip((test.file for test in tests), numbers, strict=True))
    by_file = {name: file_rule(name, device, rules) for name in {*catalog.files, *(f for f, _ in pairs)}}
    with_tests = {name for name, _ in pairs}
    pairs.update({(name, rule): 0 for name, rule in by_file.items() if name not in with_tests})
    inside = [one for one, rule in zip(tests, numbers, strict=True) if rules.rules[rule].verdict == "in"]
    serving, idle_must_run = _idle_entries(
        "must_run", rules.must_run, [one.serves for one in rules.must_run], inside, "matches no test in scope"
    )
    matched = _matched(catalog, by_file, rules)
    return ScopeTable(
        reasons=_reasons(rules, pairs),
        idle=[
            *_idle_rules(rules, {rule for _, rule in pairs}, matched),
            *_idle_entries("buckets", rules.buckets, [one.code for one in rules.buckets], tests)[1],
            *_idle_entries("order", rules.order, [one.code for one in rules.order], tests)[1],
            *idle_must_run,
        ],
        catch_all=sorted(name for name, rule in by_file.items() if rule == len(rules.rules) - 1),
        must_run=serving,
        unknown_ops=_unknown_ops(catalog, rules),
    )


def file_table(files: Iterable[str], device: str, rules: Rules) -> ScopeTable:
    """The table of a tree's files, by rules on file and device alone; nothing is said of idle rules."""
    by_file = {name: file_rule(name, device, rules) for name in files}
    pairs = dict.fromkeys(by_file.items(), 0)
    last = len(rules.rules) - 1
    return ScopeTable(
        reasons=_reasons(rules, pairs),
        idle=[],
        catch_all=sorted(name for name, rule in by_file.items() if rule == last),
    )


def _reasons(rules: Rules, pairs: Mapping[tuple[str, int], int]) -> list[CodeRow]:
    """A reason a code; `pairs` counts the tests of each (file, rule)."""
    tests: Counter[str] = Counter()
    files: dict[str, set[str]] = {}
    for (file, number), count in pairs.items():
        code = rules.rules[number].code
        tests[code] += count
        files.setdefault(code, set()).add(file)
    heads = {rule.code: rule for rule in reversed(rules.rules)}
    return [
        CodeRow(
            code=code,
            in_scope=heads[code].verdict == "in",
            tests=tests[code],
            files=len(files.get(code, ())),
            text=heads[code].text,
            issue=next((rule.issue for rule in rules.rules if rule.code == code and rule.issue), ""),
        )
        for code in dict.fromkeys(rule.code for rule in rules.rules)
    ]


def _unknown_ops(catalog: Catalog, rules: Rules) -> list[str]:
    """Declared ops without any test, unless no test has an op at all: most likely they are misspelt."""
    ops = {test.op for test in catalog.tests if test.op is not None}
    known = set().union(*(declared_names(op) for op in ops))
    return sorted(rules.capabilities.ops - known) if ops else []


def _matched(catalog: Catalog, files: Iterable[str], rules: Rules) -> int:
    """The rules that match a test or a file, whether or not another one decides it."""
    masks, found = rules.masks, 0
    for mask in masks.each(catalog.tests):
        found |= mask
    by_file = sum(1 << i for i, rule in enumerate(rules.rules) if rule.by_file)
    for name in files:
        found |= masks.value("file", name) & by_file
    return found & masks.value("device", catalog.device)


def _idle_rules(rules: Rules, used: set[int], matched: int) -> Iterable[Idle]:
    for number, rule in enumerate(rules.rules[:-1]):  # the last one is there for what nobody foresaw
        declares = rules.capabilities.ops if rule.unsupported == "op" else rules.capabilities.dtypes
        if number in used or (rule.unsupported and not declares):
            continue
        why = "earlier rules decide all it matches" if matched >> number & 1 else "matches nothing"
        yield Idle(section="rules", line=rule.line, name=rule.code, why=why)


def _idle_entries(
    section: str,
    entries: Sequence[TierRule | OrderRule | MustRun],
    names: Sequence[str],
    tests: Iterable[CatalogTest],
    why: str = "matches no test",
) -> tuple[int, list[Idle]]:
    """How many tests the entries match, and the entries that match none."""
    count = matched = 0
    for mask in Masks([one.patterns for one in entries]).each(tests):
        count += mask > 0
        matched |= mask
    used = set(bits(matched))
    rows = enumerate(zip(entries, names, strict=True))
    return count, [
        Idle(section=section, line=one.line, name=name, why=why)
        for index, (one, name) in rows
        if index not in used
    ]
