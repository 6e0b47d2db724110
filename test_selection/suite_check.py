"""Checking suite files: what is twice, dead, unknown or at odds with itself, each with its line. Pure."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from test_selection.catalog import Catalog, CatalogTest
from test_selection.suite_decide import Decider, Decision
from test_selection.suite_match import is_about_module, raw_name, variant_of
from test_selection.suite_model import (
    MANDATORY,
    Edit,
    Entry,
    Named,
    Suite,
    SuiteFile,
    module_name,
    op_key,
    op_keys,
)

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
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


def finding(  # noqa: PLR0917  # the parts of a finding, always in this order
    severity: Severity, suite: Suite, line: int, key: str, value: str, message: str, remedy: str
) -> Finding:
    """A finding at a line of a suite file."""
    return Finding(
        severity=severity, where=f"{suite.path}:{line}", key=key, value=value, message=message, remedy=remedy
    )


def nothing_mandatory(suite: Suite) -> Finding:
    """That the suite cannot fail."""
    return finding(
        "warning", suite, suite.files[0].line, "files", suite.files[0].path,
        "and the rest of the suite hold no test that has to pass, so the suite cannot fail",
        "promote what passes (`spyre-ci suite promote`), or drop the suite",
    )  # fmt: skip


Subject = Literal["operator", "module"]


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


def unknown_names(suite: Suite, known: Known, files: Collection[str] | None) -> Iterator[Finding]:
    """Operators and modules nobody has; of files the catalog lacks it cannot tell."""
    support = suite.support
    ops = _Vocabulary(subject="operator", names=known.ops, whole=known.whole, key_of=op_key)
    modules = _Vocabulary(subject="module", names=known.modules, whole=known.whole, key_of=module_name)
    yield from ops.check(suite, "supported_ops", (support.ops or {}).values())
    yield from modules.check(suite, "supported_modules", (support.modules or {}).values())
    told = (one for one in suite.files if files is None or any(map(one.pattern.fullmatch, files)))
    for entry in (entry for file in told for entry in file.entries):
        for key, vocabulary, edit in (("ops", ops, entry.ops), ("modules", modules, entry.modules)):
            rows = _rows_without_class(edit)
            yield from vocabulary.check(suite, f"edits.{key}", rows)


def _rows_without_class(edit: Edit) -> Iterable[Named]:
    return (row for row in (*edit.include.values(), *edit.exclude.values()) if not row.located)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vocabulary:
    """The operators or modules there are."""

    subject: Subject
    names: Collection[str] | None
    whole: bool
    key_of: Callable[[str], str]

    def check(self, suite: Suite, key: str, rows: Iterable[Named]) -> Iterator[Finding]:
        if not self.names:
            return
        keys = {part: name for name in self.names for part in (self.key_of(name), *op_keys(name))}
        for row in rows:
            if row.name in keys or self.key_of(row.written.removeprefix("torch.")) in keys:
                continue
            close = difflib.get_close_matches(row.name, keys, n=1, cutoff=0.8)
            hint = f"did you mean {keys[close[0]]!r}?" if close else "leave it out"
            # The device's own test base brings operators of its own, so a strange one may be meant.
            where = "torch" if self.whole else "the catalog"
            remedy = hint if close else f"{hint}, or collect the tests that have it"
            yield finding(
                "error" if close else "warning", suite, row.line, key, row.written,
                f"is no {self.subject} of {where}", remedy,
            )  # fmt: skip


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
        found += unknown_names(suite, known, files_of(catalog) if catalog is not None else None)
    if catalog is None:
        found += [finding for suite in suites for finding in _never_mandatory(suite)]
    else:
        found += check_against(suites, catalog)
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
                    yield finding(
                        "warning", suite, row.line, "modules", row.written, "is no full name of a class",
                        "write it as torch.nn.Linear, or give module_path",
                    )  # fmt: skip


def _supports(suite: Suite) -> Iterator[Finding]:
    support = suite.support
    if support.dtypes is None:
        return
    for row in [*(support.ops or {}).values(), *(support.modules or {}).values()]:
        for dtype in row.dtypes.values():
            if dtype.name not in support.dtypes:
                yield finding(
                    "error", suite, dtype.line, "dtypes", dtype.written,
                    f"of {row.written} is outside supported_dtypes, so no test has it",
                    "add it to supported_dtypes, or take it out here",
                )  # fmt: skip


def _names_twice(suite: Suite, file: SuiteFile) -> Iterator[Finding]:
    """The same name in two places of a file entry; what the includes tell apart is meant."""
    seen: dict[str, list[tuple[int, Entry]]] = defaultdict(list)
    for entry in file.entries:
        for name in entry.names:
            for line, other in seen[name.text]:
                if (found := _twice(suite, name.text, (line, other), (name.line, entry))) is not None:
                    yield found
            seen[name.text].append((name.line, entry))


def _twice(suite: Suite, name: str, first: tuple[int, Entry], second: tuple[int, Entry]) -> Finding | None:
    one, two = first[1], second[1]
    if one is not two and _includes(one) != _includes(two):
        return None
    excludes = {key: set(getattr(one, key).exclude) for key in ("ops", "dtypes", "modules")}
    if one is not two and any(excludes[key] != set(getattr(two, key).exclude) for key in excludes):
        return None
    if one.mode != two.mode:
        return finding(
            "error", suite, second[0], "names", name,
            f"is {two.mode} here and {one.mode} on line {first[0]}, which comes first and decides",
            "keep one of them, or tell them apart with edits",
        )  # fmt: skip
    return finding(
        "warning", suite, second[0], "names", name, f"stands on line {first[0]} already", "keep one of them"
    )


def _includes(entry: Entry) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(edit.include) for edit in (entry.ops, entry.dtypes, entry.modules))


def _tags(suite: Suite, entry: Entry) -> Iterator[Finding]:
    tags = entry.kept.get("tags") or []
    for tag in tags if isinstance(tags, list) else [tags]:
        if not str(tag).isidentifier():
            yield finding(
                "warning", suite, entry.line, "tags", str(tag), "is no identifier, so `-m` cannot ask for it",
                "use letters, digits and underscores: " + re.sub(r"\W", "_", str(tag)),
            )  # fmt: skip


def _selectors(suite: Suite, entry: Entry) -> Iterator[Finding]:
    for rule in (*entry.include, *entry.exclude):
        for key in rule.unknown:
            yield finding(
                "warning", suite, rule.line, "selectors", key, "is not evaluated: catalogs do not hold it",
                "select by has_ops, ops_in_supported, name_patterns or module_patterns",
            )  # fmt: skip


def _never_mandatory(suite: Suite) -> Iterator[Finding]:
    asked = any(
        file.unlisted_test_mode == MANDATORY or any(entry.mode == MANDATORY for entry in file.entries)
        for file in suite.files
    )
    if not asked:
        yield nothing_mandatory(suite)
