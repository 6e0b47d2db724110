"""Promotion: tests that were expected to fail and pass now become tests that have to pass. Pure.

Every proposal is tried on paper before it is made: the changed file is read again and decides every test of
the catalog, and what would decide another test differently is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from test_selection.catalog import CatalogTest
from test_selection.errors import SettingsError
from test_selection.selection import Expectation
from test_selection.suite_decide import Decider, Decision, for_root
from test_selection.suite_edit import Change, SuiteText
from test_selection.suite_model import MANDATORY, Root, Suite
from test_selection.suite_read import parse_suite

PROMOTABLE = frozenset({"xfail", "xfail_strict"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What is proposed.

    Attributes:
        texts: the changed files, by path.
        promoted: ids that have to pass then.
        left: ids that pass and are not promoted, with the reason.
    """

    texts: Mapping[Path, str] = field(default_factory=dict)
    promoted: frozenset[str] = frozenset()
    left: Mapping[str, str] = field(default_factory=dict)


# File, entry and name; of what no entry names, the method.
_Key = tuple[int, int, str]
_UNLISTED = -1


def promote(
    suites: Sequence[Suite],
    texts: Mapping[Path, str],
    tests: Sequence[CatalogTest],
    passing: Collection[str],
    *,
    root: Root | None = None,
) -> Promotion:
    """Propose changes of the suites for tests that pass.

    Args:
        suites: as they were read from `texts`.
        texts: the files, by the suites' paths.
        tests: every test of the catalog: what was not run blocks what would speak for it.
        passing: ids of tests that were expected to fail and passed.
        root: the tree the tests are of; None where the suites speak of no other.
    """
    named = Decider(suites)
    tests = [test for test in tests if named.names_file(test.file)]
    before = _decisions(suites, tests, root)
    promoted: set[str] = set()
    left = {name: _why_left(before[name]) for name in sorted(passing) if name in before}
    changed = dict(texts)
    now = list(suites)
    for at, suite in enumerate(suites):
        proposal = _Proposal(
            suite=suite,
            text=SuiteText(suite.path, texts[suite.path]),
            tests=tests,
            before=before,
            passing=frozenset(passing),
            decided=partial(_decided_with, now, at, tests=tests, root=root),
        )
        text, ids = proposal.settle()
        if ids:
            changed[suite.path] = text
            now[at] = parse_suite(suite.path, text)
            promoted |= ids
    return Promotion(
        texts={path: text for path, text in changed.items() if text != texts[path]},
        promoted=frozenset(promoted),
        left={name: why for name, why in left.items() if name not in promoted},
    )


def _decisions(
    suites: Sequence[Suite], tests: Sequence[CatalogTest], root: Root | None
) -> dict[str, Decision]:
    decider = Decider(suites if root is None else for_root(suites, root))
    return {test.id: decider.decide(test) for test in tests}


def _decided_with(
    suites: Sequence[Suite], at: int, suite: Suite, *, tests: Sequence[CatalogTest], root: Root | None
) -> dict[str, Decision]:
    """What the suites decide with another one in one's place."""
    return _decisions([*suites[:at], suite, *suites[at + 1 :]], tests, root)


def _why_left(decision: Decision) -> str:
    if decision.expected is None or decision.expected.mode not in PROMOTABLE:
        return "its suite no longer expects it to fail"
    if decision.forced is not None:
        where = decision.expected.where
        return (
            f"{decision.forced.written} is marked force_xfail at {where}: remove that when all of it passes"
        )
    return "other variants of its name do not pass or were not run, or its lines cannot be changed alone"


@dataclass(slots=True, kw_only=True)
class _Proposal:
    """The changes of one suite."""

    suite: Suite
    text: SuiteText
    tests: Sequence[CatalogTest]
    before: Mapping[str, Decision]
    passing: frozenset[str]
    decided: Callable[[Suite], dict[str, Decision]]
    dropped: set[_Key] = field(default_factory=set)
    of_entry: dict[tuple[int, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    of_name: dict[_Key, set[str]] = field(default_factory=lambda: defaultdict(set))

    def settle(self) -> tuple[str, frozenset[str]]:
        """The changed text and the ids it promotes, after whatever would do harm was dropped."""
        base = self.decided(self.suite)
        while chosen := self._chosen():
            text = self.text.applied(self._changes(chosen))
            wrong = self._wrong(text, chosen, base)
            if not wrong:
                return text, frozenset().union(*(self.of_name[key] for key in chosen))
            self.dropped |= wrong
        return self.text.text, frozenset()

    def __post_init__(self) -> None:
        """Read whose tests are whose: by entry, and by entry and name (of a pattern's tests, the method)."""
        decider = Decider([self.suite])
        files = {id(one): at for at, one in enumerate(self.suite.files)}
        entries = {
            id(entry): (at, number)
            for at, one in enumerate(self.suite.files)
            for number, entry in enumerate(one.entries)
        }
        for test in self.tests:
            decision = self.before[test.id]
            if decision.place is None or decision.place.suite.path != self.suite.path:
                continue
            if decision.expected is None:
                continue
            unlisted = (files[id(decision.place.file)], _UNLISTED)
            place = unlisted if decision.entry is None else entries[id(decision.entry)]
            self.of_entry[place].add(test.id)
            name = _method(test) if decision.entry is None else decider.exact_name(decision.entry, test)
            self.of_name[(*place, name or _method(test))].add(test.id)

    def _chosen(self) -> list[_Key]:
        """Names of which every variant passes."""
        self.dropped |= {key for key, ids in self.of_name.items() if not self._promotable(ids)}
        return sorted(key for key in self.of_name if key not in self.dropped)

    def _promotable(self, ids: Collection[str]) -> bool:
        return all(
            name in self.passing
            and (expected := self.before[name].expected) is not None
            and expected.mode in PROMOTABLE
            and self.before[name].forced is None
            for name in ids
        )

    def _changes(self, chosen: Sequence[_Key]) -> list[Change]:
        by_place: dict[tuple[int, int], list[_Key]] = defaultdict(list)
        for key in chosen:
            by_place[key[:2]].append(key)
        changes = []
        for (file, entry), keys in by_place.items():
            names = [key[2] for key in keys]
            whole = set().union(*(self.of_name[key] for key in keys)) == self.of_entry[file, entry]
            if entry == _UNLISTED:
                changes += self.text.add(file, names)
            elif whole:
                changes += self.text.flip(file, entry)
            else:
                changes += self.text.move(file, entry, names)
        return changes

    def _wrong(self, text: str, chosen: Sequence[_Key], base: Mapping[str, Decision]) -> set[_Key]:
        """What of the chosen does other than promote its own tests."""
        try:
            after = self.decided(parse_suite(self.suite.path, text))
        except SettingsError:
            return set(chosen)
        owner = {name: key for key in chosen for name in self.of_name[key]}
        wrong: set[_Key] = set()
        harmed = False
        for test in self.tests:
            key, wanted = owner.get(test.id), base[test.id].expected
            if key is not None and wanted is not None:
                wanted = replace(wanted, mode=MANDATORY)
            if not _same(after[test.id].expected, wanted):
                harmed = True
                wrong |= {key} if key is not None else {one for one in chosen if _may_mean(one[2], test)}
        return wrong or set(chosen[-1:] if harmed else ())


def _may_mean(name: str, test: CatalogTest) -> bool:
    method = name.rpartition("::")[2]
    return method == test.template or method in test.node


def _same(one: Expectation | None, other: Expectation | None) -> bool:
    """Whether two expectations ask for the same; the words of their reasons do not count."""
    if one is None or other is None:
        return one is other
    return replace(one, reason="") == replace(other, reason="")


def _method(test: CatalogTest) -> str:
    return f"{test.cls}::{test.template}" if test.cls else test.template
