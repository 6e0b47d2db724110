"""Reader of torch-spyre's suite files: which files a suite runs, and what it expects of each test.

What is read here of `test_suite_config`: the files, the names of their tests, modes, and the ops and
dtypes an entry includes or excludes. Labels, tags, `no_grad`, modules, functions and `global` are checked
and kept as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from test_selection.catalog import CatalogTest
from test_selection.patterns import Pattern, compile_glob
from test_selection.selection import Expectation
from test_selection.yaml_reader import Reader

MANDATORY = "mandatory_success"
MODES = (MANDATORY, "xfail", "xfail_strict", "skip")
DEFAULT_UNLISTED = "xfail"

# Where the paths of suite files start: both stand for the folder that catalogs are relative to.
ROOTS = ("${TORCH_ROOT}/test/", "${TORCH_DEVICE_ROOT}/")

# A Python name holds none of these, so a name that does is a regular expression; `*`, `?` and `[` alone
# make a glob.
_REGEX_SIGNS = re.compile(r"[.\\()|^$+{}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Names an entry includes or excludes, each with its description (empty where it has none)."""

    include: Mapping[str, str] = field(default_factory=dict)
    exclude: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Some tests of a file and what is expected of them.

    Attributes:
        names: patterns of `Class::method`, or of the method where a name lacks its class.
        mode: `mandatory_success`, `xfail`, `xfail_strict` or `skip`.
        description: why, in the suite's words.
        ops: edits by operator.
        dtypes: edits by dtype.
        kept: what is not interpreted here: labels, tags, `no_grad`, modules, functions.
    """

    names: tuple[Pattern, ...]
    mode: str = MANDATORY
    description: str = ""
    ops: Edit = field(default_factory=Edit)
    dtypes: Edit = field(default_factory=Edit)
    kept: Mapping[str, Any] = field(default_factory=dict)

    def names_test(self, cls: str, template: str) -> bool:
        """Whether one of the names means this method."""
        full = f"{cls}::{template}"
        return any(one.fullmatch(full if "::" in one.pattern else template) for one in self.names)

    def expects(self, test: CatalogTest) -> Expectation | None:
        """What the entry says of a test it names; None where the test is none of its ops or dtypes.

        An excluded op or dtype is not run at all. An included one is what `xfail`, `xfail_strict` or `skip`
        is about, and only that; under `mandatory_success` it adds to a test and restricts nothing.
        """
        edits = ((self.ops, test.op), (self.dtypes, test.dtype))
        for edit, value in edits:
            if value is not None and value in edit.exclude:
                return Expectation(mode="skip", reason=edit.exclude[value] or self.description)
        if self.mode == MANDATORY:
            return Expectation(mode=MANDATORY, reason=self.description)
        if any(edit.include and value not in edit.include for edit, value in edits):
            return None
        reasons = (edit.include.get(value, "") for edit, value in edits if value is not None)
        return Expectation(mode=self.mode, reason=next(filter(None, reasons), self.description))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFile:
    """A file, or a glob of files, of a suite."""

    path: str
    pattern: Pattern
    unlisted_test_mode: str = DEFAULT_UNLISTED
    entries: tuple[Entry, ...] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite file as read.

    Attributes:
        path: where it was read from.
        files: in order; the first whose path matches a test's file decides.
        kept: labels and `global`, uninterpreted, with precisions as numbers.
    """

    path: Path
    files: tuple[SuiteFile, ...]
    kept: Mapping[str, Any] = field(default_factory=dict)


def load_suite(path: Path) -> Suite:
    """Read a suite file.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, with file, line, key and remedy.
    """
    root = Reader.load(path)
    root.known("test_suite_config")
    config = root.table("test_suite_config", required=True)
    config.known("labels", "description", "files", "global")
    rows = config.rows("files")
    if not rows:
        raise config.error("files", "files is empty", "list at least one file with its path")
    kept = config.kept("labels", "description")
    if "global" in config.content:
        kept["global"] = _global(config.table("global"))
    return Suite(path=path, files=tuple(_file(row) for row in rows), kept=kept)


def in_suite(suite: Suite, file: str) -> bool:
    """Whether the suite names a file."""
    return _file_of(suite, file) is not None


def unmatched_paths(suite: Suite, files: Iterable[str]) -> list[str]:
    """Paths of the suite that match none of `files` (relative to the tests' root)."""
    names = list(files)
    return [one.path for one in suite.files if not any(one.pattern.search(name) for name in names)]


def expectations(suite: Suite, tests: Iterable[CatalogTest]) -> dict[str, Expectation]:
    """What the suite declares of each test, by canonical id.

    The first entry that names the test and is about its op and dtype decides; the rest of a file's tests
    take the file's `unlisted_test_mode`. Tests of files the suite does not name are left out, as are
    unlisted ones that have to pass: that is what is expected of any test.
    """
    files: dict[str, SuiteFile | None] = {}
    entries: dict[tuple[str, str, str], list[Entry]] = {}
    found: dict[str, Expectation] = {}
    for test in tests:
        if test.file not in files:
            files[test.file] = _file_of(suite, test.file)
        if (file := files[test.file]) is None:
            continue
        key = (test.file, test.cls, test.template)
        if key not in entries:
            entries[key] = [one for one in file.entries if one.names_test(test.cls, test.template)]
        declared = (one.expects(test) for one in entries[key])
        expected = next((one for one in declared if one is not None), None)
        if expected is not None:
            found[test.id] = expected
        elif file.unlisted_test_mode != MANDATORY:
            found[test.id] = Expectation(mode=file.unlisted_test_mode, reason="not listed in the suite")
    return found


def _file_of(suite: Suite, file: str) -> SuiteFile | None:
    return next((one for one in suite.files if one.pattern.search(file)), None)


def _file(row: Reader) -> SuiteFile:
    row.known("path", "unlisted_test_mode", "tests", "labels", "tags", "description")
    path = row.text("path")
    return SuiteFile(
        path=path,
        pattern=_compiled(row, "path", partial(compile_glob, _relative(row, path))),
        unlisted_test_mode=row.choice("unlisted_test_mode", MODES, DEFAULT_UNLISTED),
        entries=tuple(_entry(one) for one in row.rows("tests")),
        kept=row.kept("labels", "tags", "description"),
    )


def _relative(row: Reader, path: str) -> str:
    for root in ROOTS:
        if path.startswith(root):
            path = path.removeprefix(root)
            break
    if "$" in path or path.startswith("/") or ".." in path.split("/") or not path:
        raise row.error(
            "path",
            f"path {path!r} does not start at the tests' root",
            "start it with ${TORCH_ROOT}/test/ or ${TORCH_DEVICE_ROOT}/, or write it relative to the root",
        )
    return path


def _entry(row: Reader) -> Entry:
    row.known("names", "mode", "description", "labels", "tags", "no_grad", "edits")
    names = row.texts("names")
    if not names:
        raise row.error("names", "names is empty", "name at least one test, such as TestX::test_y")
    edits = row.table("edits")
    edits.known("ops", "dtypes", "modules", "functions")
    modules = edits.table("modules")
    modules.known("include", "exclude")
    return Entry(
        names=tuple(_compiled(row, "names", partial(_name_pattern, name)) for name in names),
        mode=row.choice("mode", MODES, MANDATORY),
        description=row.text("description", default=""),
        ops=_edit(edits.table("ops")),
        dtypes=_edit(edits.table("dtypes"), "torch."),
        kept={**row.kept("labels", "tags", "no_grad"), **edits.kept("modules", "functions")},
    )


def _edit(row: Reader, prefix: str = "") -> Edit:
    """What is included and excluded; names may start with `prefix`, which the catalog leaves out."""
    row.known("include", "exclude")
    edit = Edit(
        include=_named(row.rows("include", "name"), prefix),
        exclude=_named(row.rows("exclude", "name"), prefix),
    )
    if both := sorted(edit.include.keys() & edit.exclude.keys()):
        raise row.error("exclude", f"{both[0]!r} is both included and excluded", "keep it in one of them")
    return edit


def _named(rows: Sequence[Reader], prefix: str) -> dict[str, str]:
    found = {}
    for row in rows:
        row.known("name", "description", "precision", "force_xfail", "dtypes")
        row.precision()
        found[row.text("name").removeprefix(prefix)] = row.text("description", default="")
    return found


def _global(row: Reader) -> dict[str, Any]:
    row.known("supported_dtypes", "supported_ops", "supported_modules", "input_config")
    found: dict[str, Any] = row.kept("input_config")
    for key in ("supported_dtypes", "supported_ops", "supported_modules"):
        if key in row.content:
            found[key] = [_supported(one) for one in row.rows(key, "name")]
    return found


def _supported(row: Reader) -> dict[str, Any]:
    row.known("name", "description", "precision", "force_xfail", "dtypes")
    found = {"name": row.text("name"), **row.kept("description", "force_xfail")}
    if precision := row.precision():
        found["precision"] = precision
    if "dtypes" in row.content:
        found["dtypes"] = [_supported(one) for one in row.rows("dtypes", "name")]
    return found


def _name_pattern(name: str) -> Pattern:
    return re.compile(name) if _REGEX_SIGNS.search(name) else compile_glob(name)


def _compiled(row: Reader, key: str, compiled: Callable[[], Pattern]) -> Pattern:
    try:
        return compiled()
    except (re.error, RecursionError) as error:
        raise row.error(key, f"{key} holds a pattern that cannot be read: {error}", "mend it") from error
