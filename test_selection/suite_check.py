"""Checking suite files: what is twice, dead, unknown or at odds with itself, each with its line. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from test_selection.catalog import Catalog
from test_selection.suite_against import check_against, files_of
from test_selection.suite_finding import Finding, finding, nothing_mandatory
from test_selection.suite_model import MANDATORY, Entry, Suite, SuiteFile
from test_selection.suite_vocabulary import Known, unknown_names


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
