"""The scope: which tests of a catalog are in, which are out and why; the first rule that matches decides.

The table of reasons says how many tests and files each code decides, and which rules never do; an explanation
says what of the rules matches one test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from test_selection.capabilities import declared_names
from test_selection.catalog import Catalog, CatalogTest
from test_selection.limits import OrderRule
from test_selection.rule_fields import Masks, bits, first_hit, value_of
from test_selection.rules import MustRun, Rule, Rules
from test_selection.tiers import TierRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a whole catalog.

    Attributes:
        in_scope: the tests that are in, in the order of the catalog.
        out: how many tests each reason code left out.
    """

    in_scope: list[CatalogTest]
    out: Mapping[str, int]


def file_rule(file: str, device: str, rules: Rules) -> int:
    """The index of the first rule on file and device alone that matches a file."""
    return _first(rules.file_mask & rules.masks.value("file", file) & rules.masks.value("device", device))


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
    """Decide every test of a catalog."""
    numbers = deciding_rules(catalog.tests, catalog.device, rules)
    used = Counter(numbers)
    inside = {number for number in used if rules.rules[number].verdict == "in"}
    out: Counter[str] = Counter()
    for number, count in sorted(used.items()):
        if number not in inside:
            out[rules.rules[number].code] += count
    return Scope(
        in_scope=[test for test, number in zip(catalog.tests, numbers, strict=True) if number in inside],
        out=dict(out),
    )


def _first(mask: int) -> int:
    """The index of the lowest bit; the last rule matches everything, so there is one."""
    return (mask & -mask).bit_length() - 1


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
        catch_all: files no rule but the last one names, sorted.
        idle: entries that match nothing, or that other rules always come before.
        must_run: how many in-scope tests the must-run list names.
        unknown_ops: ops the device declares and no test of the catalog is of, sorted.
    """

    reasons: list[CodeRow]
    catch_all: list[str]
    idle: list[Idle] = field(default_factory=list)
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
    return replace(
        _table(by_file, pairs, rules),
        idle=[
            *_idle_rules(rules, {rule for _, rule in pairs}, matched),
            *_idle_entries("tiers", rules.tiers, [one.code for one in rules.tiers], tests)[1],
            *_idle_entries("order", rules.order, [one.code for one in rules.order], tests)[1],
            *idle_must_run,
        ],
        must_run=serving,
        unknown_ops=_unknown_ops(catalog, rules),
    )


def file_table(files: Iterable[str], device: str, rules: Rules) -> ScopeTable:
    """The table of a tree's files, by rules on file and device alone; nothing is said of idle rules."""
    by_file = {name: file_rule(name, device, rules) for name in files}
    return _table(by_file, dict.fromkeys(by_file.items(), 0), rules)


def _table(by_file: Mapping[str, int], pairs: Mapping[tuple[str, int], int], rules: Rules) -> ScopeTable:
    """A reason a code; `by_file` has the rule of each file, `pairs` counts the tests of each (file, rule)."""
    tests: Counter[str] = Counter()
    files: dict[str, set[str]] = {}
    for (file, number), count in pairs.items():
        code = rules.rules[number].code
        tests[code] += count
        files.setdefault(code, set()).add(file)
    heads = {rule.code: rule for rule in reversed(rules.rules)}
    reasons = [
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
    last = len(rules.rules) - 1
    return ScopeTable(
        reasons=reasons, catch_all=sorted(name for name, rule in by_file.items() if rule == last)
    )


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
    for name in files:
        found |= masks.value("file", name) & rules.file_mask
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
        tiers: the indexes of the tier rules whose patterns match it.
        serves: what the must-run entries that name it serve.
        before: of a file alone, the rules that may decide single tests of it before its own rule does.
    """

    test: CatalogTest
    matches: list[RuleMatch]
    tiers: list[int]
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
        tiers=list(bits(Masks([one.patterns for one in rules.tiers]).test(test))),
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
        tiers=[],
        serves=[],
        before=[index for index in bits(possible) if index < number],
    )


def _match(number: int, rule: Rule, test: CatalogTest, device: str) -> RuleMatch:
    hits: dict[str, tuple[str, str]] = {}
    misses: dict[str, str | None] = {}
    for name, wanted in rule.patterns.items():
        value = device if name == "device" else value_of(test, name)
        if (hit := first_hit(wanted, value)) is not None:
            hits[name] = hit
        else:
            misses[name] = ", ".join(value) or None if isinstance(value, tuple) else value or None
    return RuleMatch(rule=number, hits=hits, misses=misses)
