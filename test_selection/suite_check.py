"""Checking suite files: what is twice, dead, unknown or at odds with itself, each with its line. Pure."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from test_selection.catalog import Catalog, CatalogTest
from test_selection.errors import did_you_mean
from test_selection.suite_decide import Decider, Decision
from test_selection.suite_model import (
    MANDATORY,
    Edit,
    Entry,
    Named,
    Suite,
    SuiteFile,
    is_about_module,
    module_name,
    op_key,
    op_keys,
)

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a suite file says that cannot be meant.

    Attributes:
        severity: an error makes the suite do other than it says; a warning may be meant.
        where: `file:line`.
        key: the key it stands under.
        value: what stands there.
        message: what is wrong with it.
        remedy: what to do about it.
    """

    severity: Severity
    where: str
    key: str
    value: str
    message: str
    remedy: str

    def as_json(self) -> dict[str, Any]:
        """The finding for machines."""
        return asdict(self)

    def __str__(self) -> str:
        said = f"{self.where}: {self.severity}: {self.key}: {self.value!r} {self.message}"
        return f"{said}\n  remedy: {self.remedy}"


def nothing_mandatory(suite: Suite) -> Finding:
    """That the suite cannot fail."""
    first = suite.files[0]
    return Finding(
        "warning", suite.at(first.line), "files", first.path,
        "and the rest of the suite contain no test that must pass, so the suite cannot fail",
        "promote what passes (`spyre-ci suite promote`), or drop the suite",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What there is: names as catalogs have them; None where it could not be found out.

    Attributes:
        ops: operators.
        modules: modules.
        whole: whether that is all of torch, so that a name that is not among them is a mistake.
    """

    ops: Collection[str] | None = None
    modules: Collection[str] | None = None
    whole: bool = False


def known_of(catalog: Catalog) -> Known:
    """The operators and modules that the tests of a catalog are about."""
    modules = {test.op for test in catalog.tests if test.op and is_about_module(test)}
    return Known(ops={test.op for test in catalog.tests if test.op} - modules, modules=modules)


def _unknown_names(suite: Suite, known: Known, files: Collection[str] | None) -> Iterator[Finding]:
    """Operators and modules nobody has; of files the catalog lacks it cannot tell."""
    rows = [("supported_ops", row) for row in (suite.support.ops or {}).values()]
    module_rows = [("supported_modules", row) for row in (suite.support.modules or {}).values()]
    for file in suite.files:
        if files is None or any(map(file.pattern.fullmatch, files)):
            for entry in file.entries:
                rows += [("edits.ops", row) for row in _rows_without_class(entry.ops)]
                module_rows += [("edits.modules", row) for row in _rows_without_class(entry.modules)]
    whose = "torch" if known.whole else "the catalog"
    yield from _strangers(suite, rows, known.ops, op_key, f"is not an operator of {whose}")
    yield from _strangers(suite, module_rows, known.modules, module_name, f"is not a module of {whose}")


def _rows_without_class(edit: Edit) -> Iterable[Named]:
    return (row for row in (*edit.include.values(), *edit.exclude.values()) if not row.located)


def _strangers(
    suite: Suite,
    rows: Iterable[tuple[str, Named]],
    names: Collection[str] | None,
    key_of: Callable[[str], str],
    message: str,
) -> Iterator[Finding]:
    """The rows that name none of `names`, each with the key it stands under."""
    if not names:
        return
    keys = {part: name for name in names for part in (key_of(name), *op_keys(name))}
    for key, row in rows:
        if row.name in keys or key_of(row.written.removeprefix("torch.")) in keys:
            continue
        close = difflib.get_close_matches(row.name, keys, n=1, cutoff=0.8)
        # The device's own test base brings operators of its own, so a strange one may be meant.
        remedy = (
            f"did you mean {keys[close[0]]!r}?"
            if close
            else "leave it out, or collect the tests that have it"
        )
        severity: Severity = "error" if close else "warning"
        yield Finding(severity, suite.at(row.line), key, row.written, message, remedy)


def _check_against(suites: Sequence[Suite], catalog: Catalog) -> Iterator[Finding]:
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
    names = [name.rpartition("/")[2] for name in files]
    for suite in suites:
        for one in suite.files:
            if any(one.pattern.fullmatch(file) for file in files):
                continue
            base = one.path.rpartition("/")[2]
            remedy = did_you_mean(base, names, "fix the path, or collect that file too")
            # Only who knows which tree was collected leaves the other's paths out before it asks.
            severity: Severity = "warning" if one.root == "device" else "error"
            yield Finding(severity, suite.at(one.line), "path", one.path, "matches no file", remedy)


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
        if decision.expected is not None and decision.expected.mode == MANDATORY and decision.place:
            self.mandatory.add(str(decision.place.suite.path))
        if decision.tied is not None and decision.entry is not None:
            self._tied[id(decision.entry), id(decision.tied.entry)].append((test.id, decision))
        self._note_names(test)

    def _note_names(self, test: CatalogTest) -> None:
        variant = self._decider.variant(test)
        key = (test.file, test.cls, test.template, *variant.raw)
        if key in self._seen:
            return
        self._seen.add(key)
        self._templates[test.file].add(f"{test.cls}::{test.template}")
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
            # A test that has to pass and is not there is a hole; one that may fail is only litter.
            yield Finding(
                "error" if entry.mode == MANDATORY else "warning", suite.at(name.line), "names", name.text,
                "matches no test", did_you_mean(name.text, names, "remove it, or fix it", cutoff=0.8),
            )  # fmt: skip

    def ties(self) -> Iterator[Finding]:
        """Entries about the same tests of which only the order decides."""
        for rows in self._tied.values():
            first, decision = rows[0]
            place, entry, other = decision.place, decision.entry, decision.tied
            if place is None or entry is None or other is None:
                continue
            exact = other.loose == 0
            if exact and other.place.file is place.file:
                continue  # told as a name that stands twice
            there = other.place.suite.at(other.entry.line)
            same = entry.mode == other.entry.mode
            said = f"is {other.entry.mode} at {there} too" if same else f"is {other.entry.mode} at {there}"
            tests = f"{len(rows)} tests such as {first}"
            yield Finding(
                "error" if exact and not same else "warning", place.suite.at(entry.line), "names", tests,
                f"{said}; this entry comes first and decides", "name each test in one of them",
            )  # fmt: skip


def check_suites(suites: Sequence[Suite], catalog: Catalog | None, known: Known) -> list[Finding]:
    """Everything that is wrong with the suites, by file and line.

    Args:
        suites: as they were read.
        catalog: the tests there are; None leaves out what only a catalog can tell.
        known: the operators and modules there are.
    """
    found: list[Finding] = []
    for suite in suites:
        found += _inside(suite)
        found += _unknown_names(suite, known, files_of(catalog) if catalog is not None else None)
    if catalog is None:
        found += [nothing_mandatory(suite) for suite in suites if not _asks_for_success(suite)]
    else:
        found += _check_against(suites, catalog)
    return sorted(set(found), key=lambda one: (_place(one), one.key, one.value, one.message))


def _place(one: Finding) -> tuple[str, int]:
    path, _, line = one.where.rpartition(":")
    return path, int(line)


def _inside(suite: Suite) -> Iterator[Finding]:
    """What a suite says that does not go together, whatever tests there are."""
    yield from _supports(suite)
    for file in suite.files:
        yield from _names_twice(suite, file)
        for entry in file.entries:
            yield from _tags(suite, entry)
            yield from _selectors(suite, entry)
            for row in entry.modules.include.values():
                if "." not in row.name and not row.located:
                    yield Finding(
                        "warning", suite.at(row.line), "modules", row.written, "is not a full class name",
                        "write it as torch.nn.Linear, or give module_path",
                    )  # fmt: skip


def _supports(suite: Suite) -> Iterator[Finding]:
    support = suite.support
    if support.dtypes is None:
        return
    for row in [*(support.ops or {}).values(), *(support.modules or {}).values()]:
        for dtype in row.dtypes.values():
            if dtype.name not in support.dtypes:
                yield Finding(
                    "error", suite.at(dtype.line), "dtypes", dtype.written,
                    f"of {row.written} is outside supported_dtypes, so no test has it",
                    "add it to supported_dtypes, or take it out here",
                )  # fmt: skip


def _names_twice(suite: Suite, file: SuiteFile) -> Iterator[Finding]:
    """The same name in two places of a file entry; what the edits tell apart is meant."""
    seen: dict[str, list[tuple[int, Entry]]] = defaultdict(list)
    for entry in file.entries:
        for name in entry.names:
            for line, other in seen[name.text]:
                if other is not entry and _edited(other) != _edited(entry):
                    continue
                severity: Severity = "warning"
                message, remedy = f"is on line {line} already", "keep one of them"
                if other.mode != entry.mode:
                    severity = "error"
                    message = (
                        f"is {entry.mode} here and {other.mode} on line {line}, which comes first and decides"
                    )
                    remedy += ", or tell them apart with edits"
                yield Finding(severity, suite.at(name.line), "names", name.text, message, remedy)
            seen[name.text].append((name.line, entry))


def _edited(entry: Entry) -> list[set[str]]:
    """What an entry's edits name, by which it is told apart from others of the same names."""
    edits = (entry.ops, entry.dtypes, entry.modules)
    return [set(named) for edit in edits for named in (edit.include, edit.exclude)]


def _tags(suite: Suite, entry: Entry) -> Iterator[Finding]:
    for tag in entry.tags:
        if not tag.isidentifier():
            yield Finding(
                "warning", suite.at(entry.line), "tags", tag, "is no identifier, so `-m` cannot select it",
                "use letters, digits and underscores: " + re.sub(r"\W", "_", tag),
            )  # fmt: skip


def _selectors(suite: Suite, entry: Entry) -> Iterator[Finding]:
    for rule in (*entry.include, *entry.exclude):
        for key in rule.unknown:
            yield Finding(
                "warning", suite.at(rule.line), "selectors", key, "is not evaluated: catalogs do not hold it",
                "select by has_ops, ops_in_supported, name_patterns or module_patterns",
            )  # fmt: skip


def _asks_for_success(suite: Suite) -> bool:
    return any(
        file.unlisted_test_mode == MANDATORY or any(entry.mode == MANDATORY for entry in file.entries)
        for file in suite.files
    )
