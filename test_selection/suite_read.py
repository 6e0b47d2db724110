"""Reading suite files, by name, folder or glob; a mistake has its file, line, key and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from test_selection.capabilities import ALIASES, DTYPES, dtype_name
from test_selection.errors import MissingInputError
from test_selection.patterns import compile_glob
from test_selection.selection import Precision
from test_selection.suite_model import (
    DEFAULT_UNLISTED,
    MANDATORY,
    MODES,
    Edit,
    Entry,
    Name,
    Named,
    Rule,
    Suite,
    SuiteFile,
    Support,
    compile_name,
    compile_path,
    loose,
    module_name,
    op_key,
    split_path,
)
from test_selection.yaml_reader import Reader, parse_document

# What rows of operators and modules carry for the device's own test base: inputs to build, tags to print.
_INPUTS = ("sample_inputs_func", "constructor_inputs", "forward_inputs", "module_path", "tags", "labels")
_ROW = ("name", "description", "precision", "force_xfail", "dtypes", *_INPUTS)
_Row = TypeVar("_Row")


def read_edit(row: Reader, name_of: Callable[[str], str]) -> Edit:
    """What is included and excluded."""
    row.known("include", "exclude")
    edit = Edit(
        include=read_named(row.rows("include", "name"), name_of),
        exclude=read_named(row.rows("exclude", "name"), name_of),
    )
    if both := sorted(edit.include.keys() & edit.exclude.keys()):
        written = edit.exclude[both[0]].written
        raise row.error("exclude", f"{written!r} is both included and excluded", "keep it in one of them")
    return edit


def read_named(rows: Iterable[Reader], name_of: Callable[[str], str]) -> dict[str, Named]:
    """Rows by name; the first of a name counts, for operators are listed once for every set of inputs."""
    found: dict[str, Named] = {}
    for row in rows:
        row.known(*_ROW)
        written = row.text("name")
        if name_of is dtype_name and dtype_name(written) not in DTYPES:
            row.choice("name", sorted({*DTYPES, *ALIASES}))  # which says what is meant
        one = Named(
            name=name_of(written),
            written=written,
            line=row.line_of("name"),
            description=read_description(row),
            precision=read_precision(row),
            force_xfail=row.flag("force_xfail"),
            dtypes=read_named(row.rows("dtypes", "name"), dtype_name),
            located=bool(row.content.get("module_path")),
        )
        found.setdefault(one.name, one)
    return found


def read_precision(row: Reader) -> Precision | None:
    """Tolerances, as numbers though YAML 1.1 takes `1e-3` (no dot) for text; None where none are given."""
    given = row.table("precision")
    given.known("atol", "rtol")
    found = {key: given.number(key) for key, value in given.content.items() if value is not None}
    return Precision(**found) if found else None


def read_description(row: Reader) -> str:
    """A description; one that is left empty says nothing."""
    return row.text("description") if row.content.get("description") not in (None, "") else ""


def compiled(row: Reader, key: str, make: Callable[[], _Row], seen: str | None = None) -> _Row:
    """`make()`, a pattern; one that cannot be read is told with its place."""
    try:
        return make()
    except (re.error, RecursionError, OverflowError) as error:
        written = row.content.get(key) if seen is None else seen
        raise row.error(
            key, f"{key} holds {written!r}, a pattern that cannot be read: {error}", "fix it"
        ) from error


def suite_paths(named: Sequence[str | Path], base: Path) -> list[Path]:
    """The suite files that are meant by files, folders and globs.

    A folder stands for every `.yaml` and `.yml` below it. What was named first comes first, the rest of a
    folder or glob by name; a file that is named twice is read once.

    Args:
        named: paths, relative to `base` where they are not absolute.
        base: the folder relative paths start in.

    Raises:
        MissingInputError: nothing of that name is there.
    """
    found: dict[Path, None] = {}
    for one in named:
        found.update(dict.fromkeys(_expanded(base / one)))
    return list(found)


def _expanded(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        files = [one for one in path.rglob("*") if one.suffix in {".yaml", ".yml"} and one.is_file()]
    else:
        parts = path.parts
        wild = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
        pattern = "/".join(parts[wild:])
        try:
            files = [one for one in Path(*parts[:wild]).glob(pattern) if one.is_file()] if pattern else []
        except (ValueError, NotImplementedError, OSError):
            files = []
    if not files:
        raise MissingInputError(
            "there is no such suite file", where=path, remedy="name a file, a folder of them or a glob"
        )
    return sorted(files)


# torch.manual_seed takes no more.
_MAX_SEED = 2**64 - 1


def load_suite(path: Path) -> Suite:
    """Read a suite file.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, with file, line, key and remedy.
    """
    return _suite(Reader.load(path), path)


def parse_suite(path: Path, text: str) -> Suite:
    """Read a suite from its text; `path` is what its errors and lines name.

    Raises:
        SettingsError: a key or value that cannot be taken, with file, line, key and remedy.
    """
    document = parse_document(path, text)
    return _suite(Reader(document, (), document.content), path)


def _suite(root: Reader, path: Path) -> Suite:
    root.known("test_suite_config")
    config = root.table("test_suite_config", required=True)
    config.known("labels", "description", "files", "global")
    rows = config.rows("files")
    if not rows:
        raise config.error("files", "files is empty", "list at least one file with its path")
    return Suite(
        path=path,
        files=tuple(_file(row) for row in rows),
        support=_support(config.table("global")),
    )


def _file(row: Reader) -> SuiteFile:
    row.known("path", "unlisted_test_mode", "tests", "labels", "tags", "description")
    path = row.text("path")
    root, rest = split_path(path)
    _refuse_outside(row, path, rest)
    pattern, exact = compiled(row, "path", partial(compile_path, root, rest))
    return SuiteFile(
        path=path,
        root=root,
        pattern=pattern,
        exact=exact,
        line=row.line_of("path"),
        unlisted_test_mode=row.choice("unlisted_test_mode", MODES, DEFAULT_UNLISTED),
        entries=tuple(_entry(one) for one in row.rows("tests")),
    )


def _refuse_outside(row: Reader, path: str, rest: str) -> None:
    if "${" in rest or rest.startswith(("/", "$")) or ".." in rest.split("/") or not rest:
        raise row.error(
            "path",
            f"path {path!r} does not start at the tests' root",
            "start it with ${TORCH_ROOT}/test/ or ${TORCH_DEVICE_ROOT}/, or write it relative to the root",
        )


def _entry(row: Reader) -> Entry:
    row.known("names", "mode", "description", "labels", "tags", "no_grad", "edits", "selectors")
    names = _names(row)
    if not names:
        raise row.error("names", "names is empty", "name at least one test, such as TestX::test_y")
    edits = row.table("edits")
    edits.known("ops", "dtypes", "modules", "functions")
    functions = edits.table("functions")
    functions.known("cpu_move")
    selectors = row.table("selectors")
    selectors.known("include", "exclude")
    tags = row.content.get("tags") or []
    return Entry(
        names=names,
        line=row.line,
        mode=row.choice("mode", MODES, MANDATORY),
        description=read_description(row),
        ops=read_edit(edits.table("ops"), op_key),
        dtypes=read_edit(edits.table("dtypes"), dtype_name),
        modules=read_edit(edits.table("modules"), module_name),
        cpu_move=tuple(one.text("name") for one in functions.rows("cpu_move", "name")),
        no_grad=row.flag("no_grad"),
        include=tuple(_rule(one) for one in selectors.rows("include")),
        exclude=tuple(_rule(one) for one in selectors.rows("exclude")),
        tags=tuple(map(str, tags if isinstance(tags, list) else [tags])),
    )


def _names(row: Reader) -> tuple[Name, ...]:
    single = not isinstance(row.content.get("names"), list)
    found = []
    for index, text in enumerate(row.texts("names")):
        at = (*row.at, "names") if single else (*row.at, "names", index)
        found.append(
            Name(
                text=text,
                pattern=compiled(row, "names", partial(compile_name, text), text),
                qualified="::" in text,
                loose=loose(text),
                line=row.document.line(at) or 0,
            )
        )
    return tuple(found)


def _support(row: Reader) -> Support:
    row.known("devices", "supported_dtypes", "supported_ops", "supported_modules", "input_config")

    def listed(key: str, name_of: Callable[[str], str]) -> Mapping[str, Named] | None:
        return None if row.content.get(key) is None else read_named(row.rows(key, "name"), name_of)

    inputs = row.table("input_config")
    inputs.known("seed")
    return Support(
        # torch-spyre reads an empty list of dtypes as no list.
        dtypes=listed("supported_dtypes", dtype_name) or None,
        ops=listed("supported_ops", op_key),
        modules=listed("supported_modules", module_name),
        seed=_seed(inputs),
    )


def _seed(row: Reader) -> int | None:
    value = row.content.get("seed")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_SEED:
        raise row.error("seed", f"seed is {value!r}, not a whole number of 0 or more", "write it as 123")
    return value


def _rule(row: Reader) -> Rule:
    row.known("has_ops", "ops_in_supported", "markers", "name_patterns", "module_patterns", "decorators")
    patterns = {
        key: tuple(compiled(row, key, partial(compile_glob, text), text) for text in row.texts(key))
        for key in ("name_patterns", "module_patterns")
    }
    return Rule(
        has_ops=row.flag("has_ops") if "has_ops" in row.content else None,
        ops_in_supported=row.flag("ops_in_supported") if "ops_in_supported" in row.content else None,
        names=patterns["name_patterns"],
        modules=patterns["module_patterns"],
        unknown=tuple(key for key in ("markers", "decorators") if row.texts(key)),
        line=row.line,
    )
