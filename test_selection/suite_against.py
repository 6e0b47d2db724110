"""What of suite files the tests of a catalog know nothing of, and where entries meet on a test."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from test_selection.catalog import Catalog, CatalogTest
from test_selection.suite_finding import Finding, Severity, finding, nothing_mandatory
from test_selection.suite_meaning import Decider, Decision
from test_selection.suite_model import MANDATORY, Entry, Suite
from test_selection.suite_variant import raw_name, variant_of


def check_against(suites: Sequence[Suite], catalog: Catalog) -> Iterator[Finding]:
    """What only the tests there are can tell."""
    files = files_of(catalog)
    yield from _dead_paths(suites, files)
    used = _Used(suites)
    for test in catalog.tests:
        used.take(test)
    yield from used.dead_names(catalog)
    yield from used.ties()
    broken = catalog.collect_errors
    for suite in suites:
        told = not any(one.pattern.fullmatch(file) for one in suite.files for file in broken)
        if told and str(suite.path) not in used.mandatory:
            yield nothing_mandatory(suite)


def files_of(catalog: Catalog) -> set[str]:
    """Every file the catalog tells of."""
    return {*catalog.files, *(test.file for test in catalog.tests)}


def _dead_paths(suites: Sequence[Suite], files: Collection[str]) -> Iterator[Finding]:
    for suite in suites:
        for one in suite.files:
            if any(one.pattern.fullmatch(file) for file in files):
                continue
            close = difflib.get_close_matches(one.path.rpartition("/")[2], [*map(_base, files)], n=1)
            remedy = f"did you mean {close[0]!r}?" if close else "mend the path, or collect that file too"
            # Only who knows which tree was collected leaves the other's paths out before it asks.
            severity: Severity = "warning" if one.root == "device" else "error"
            yield finding(severity, suite, one.line, "path", one.path, "matches no file", remedy)


def _base(file: str) -> str:
    return file.rpartition("/")[2]


class _Used:
    """What of the suites the tests of a catalog have a use for."""

    def __init__(self, suites: Sequence[Suite]) -> None:
        self._suites = suites
        self._decider = Decider(suites)
        self._live: set[tuple[int, int]] = set()
        self._seen: set[tuple[str, str, str, str, str]] = set()
        self._templates: dict[str, set[str]] = defaultdict(set)
        self._tied: dict[tuple[int, int], list[tuple[str, Decision]]] = defaultdict(list)
        self.mandatory: set[str] = set()

    def take(self, test: CatalogTest) -> None:
        """Note what one test uses."""
        decision = self._decider.decide(test)
        if decision.expected is not None and decision.expected.mode == MANDATORY and decision.suite:
            self.mandatory.add(str(decision.suite.path))
        if decision.tied is not None and decision.entry is not None:
            self._tied[id(decision.entry), id(decision.tied.entry)].append((test.id, decision))
        self._note_names(test)

    def _note_names(self, test: CatalogTest) -> None:
        methods = self._decider.exact_methods(test.file)
        raw = raw_name(test, methods)
        key = (test.file, test.cls, test.template, *raw)
        if key in self._seen:
            return
        self._seen.add(key)
        self._templates[test.file].add(f"{test.cls}::{test.template}")
        variant = variant_of(test, raw, is_module=False)
        for one in (one for suite in self._suites for one in suite.files):
            if one.pattern.fullmatch(test.file):
                for entry in one.entries:
                    self._live |= {
                        (id(entry), at) for at, name in enumerate(entry.names) if variant.is_named(name)
                    }

    def dead_names(self, catalog: Catalog) -> Iterator[Finding]:
        """Names that mean no test of a file that was collected."""
        broken = catalog.collect_errors
        for suite in self._suites:
            for file in suite.files:
                matching = [name for name in catalog.files if file.pattern.fullmatch(name)]
                matching += [name for name in self._templates if file.pattern.fullmatch(name)]
                if not matching or any(name in broken for name in matching):
                    continue
                for entry in file.entries:
                    yield from self._dead(suite, entry, matching)

    def _dead(self, suite: Suite, entry: Entry, files: Iterable[str]) -> Iterator[Finding]:
        known = sorted({name for file in files for name in self._templates.get(file, ())})
        for at, name in enumerate(entry.names):
            if (id(entry), at) in self._live:
                continue
            names = known if name.qualified else [one.rpartition("::")[2] for one in known]
            close = difflib.get_close_matches(name.text, names, n=1, cutoff=0.8)
            # A test that has to pass and is not there is a hole; one that may fail is only litter.
            yield finding(
                "error" if entry.mode == MANDATORY else "warning", suite, name.line, "names", name.text,
                "matches no test", f"did you mean {close[0]!r}?" if close else "take it out, or mend it",
            )  # fmt: skip

    def ties(self) -> Iterator[Finding]:
        """Entries about the same tests of which only the order decides."""
        for rows in self._tied.values():
            first, decision = rows[0]
            suite, entry, other = decision.suite, decision.entry, decision.tied
            if suite is None or entry is None or other is None:
                continue
            exact = other.loose == 0
            if exact and other.place.file is decision.file:
                continue  # told as a name that stands twice
            there = f"{other.place.suite.path}:{other.entry.line}"
            same = entry.mode == other.entry.mode
            said = f"is {other.entry.mode} at {there} too" if same else f"is {other.entry.mode} at {there}"
            tests = f"{len(rows)} tests such as {first}"
            yield finding(
                "error" if exact and not same else "warning", suite, entry.line, "names", tests,
                f"{said}; this entry comes first and decides", "name each test in one of them",
            )  # fmt: skip
