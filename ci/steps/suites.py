"""Suite files as a step: check them, and promote what passes."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.commands import run_command
from ci.core.errors import BadFileError, CommandError, MissingInputError, SettingsError, UsageError
from ci.record.journal import XPASS_STRICT
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import read_results
from ci.steps.collect import root_of, suite_files
from ci.steps.context import Context
from ci.steps.folder import RunFolder, read_source
from test_selection.catalog import Catalog, read_catalog
from test_selection.files import read_bounded, write_text
from test_selection.selection import Selection, read_selection
from test_selection.suite_check import Finding, Known, check_suites, files_of, known_of
from test_selection.suite_decide import for_root
from test_selection.suite_model import Suite
from test_selection.suite_promote import PROMOTABLE, Promotion, promote
from test_selection.suite_read import load_suite, parse_suite, suite_paths

# Importing torch's lists of operators and modules takes some seconds, on a busy machine a minute.
TORCH_TIMEOUT_S = 180

_NAMES = """
import json, sys
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
ops = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name for op in op_db}
json.dump({"ops": sorted(ops), "modules": sorted(one.name for one in module_db)}, sys.stdout)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A promotion and the unified diff that makes it, of paths relative to where it was asked for."""

    promotion: Promotion
    diff: str


def check_step(
    context: Context, named: Sequence[Path], *, folder: RunFolder | None, catalog: Path | None
) -> list[Finding]:
    """Check suite files against a catalog where one is named, else against torch's lists.

    Args:
        context: the outside world.
        named: files, folders or globs; none stands for those of the settings.
        folder: the run whose catalog is meant.
        catalog: a catalog file.

    Raises:
        MissingInputError: a file that was named is not there.
        UsageError: neither a file is named nor a suite is set, or the catalog has none of their files.
    """
    noted = None if folder is None else read_source(folder)
    where = "" if noted is None else noted.where
    paths = suite_paths(named, Path.cwd()) if named else suite_files(context, is_op_suite=where is None)
    if not paths:
        raise UsageError("there is no suite file to check", remedy="name some, or set pytorch.suite")
    suites, broken = _readable(paths)
    file = catalog or (folder.catalog if folder is not None else None)
    if file is None:
        return [*broken, *check_suites(suites, None, _known_to_torch(context))]
    tests = read_catalog(file)
    # A catalog is of one tree; what suites say of the other it cannot tell.
    ours = suites if where == "" else for_root(suites, root_of(is_op_suite=where is None))
    found = [*broken, *check_suites(ours, tests, known_of(tests))]
    there = files_of(tests)
    reached = any(one.pattern.fullmatch(name) for suite in ours for one in suite.files for name in there)
    if not reached and not any(one.severity == "error" for one in found):
        raise UsageError(
            "contains none of the files that the suites name, so they were not checked",
            where=file,
            remedy="name a run or a catalog of their source tree",
        )
    return found


def promote_step(context: Context, folder: RunFolder) -> Patch:
    """Propose to expect success of what a run's suites expected to fail and what passed in it.

    Raises:
        MissingInputError: nothing says where its tests came from.
        SpyreCiError: a file of the run is missing or broken, or a suite cannot be taken.
        UsageError: the run has no suite.
    """
    noted = read_source(folder)
    if noted is None:  # of the op suite, or of a tree whose suites are others
        raise MissingInputError(
            "there is no source file",
            where=folder.source,
            remedy="copy the run's whole folder here, or promote where it ran",
        )
    is_op_suite = noted.where is None
    texts = {path: _text(path) for path in suite_files(context, is_op_suite=is_op_suite)}
    if not texts:
        raise UsageError("the run has no suite file", remedy="set pytorch.suite to the files it ran with")
    suites = [parse_suite(path, text) for path, text in texts.items()]
    passing = passing_xfails(read_results(folder.results), read_selection(folder.selection))
    catalog: Catalog = read_catalog(folder.catalog)
    found = promote(suites, texts, catalog.tests, passing, root=root_of(is_op_suite=is_op_suite))
    return Patch(promotion=found, diff="".join(_diff(texts, found.texts, Path.cwd())))


def write_patch(patch: Patch) -> None:
    """Write the changed suite files, each whole or not at all."""
    for path, text in patch.promotion.texts.items():
        write_text(path, text, mode=path.stat().st_mode & 0o777)


def passing_xfails(results: Iterable[Result], selection: Selection) -> set[str]:
    """Ids that a suite expected to fail and that passed; a strict one comes as failed."""
    found = set()
    for one in results:
        expected = selection.expectations.get(one.id)
        strict = one.verdict is Verdict.FAILED and XPASS_STRICT in one.message
        if expected and expected.mode in PROMOTABLE and (one.verdict is Verdict.XPASSED or strict):
            found.add(one.id)
    return found


def _readable(paths: Sequence[Path]) -> tuple[list[Suite], list[Finding]]:
    """The suites that can be read, and of the others why not."""
    suites, broken = [], []
    for path in paths:
        try:
            suites.append(load_suite(path))
        except SettingsError as error:
            broken.append(_finding(error, path))
    return suites, broken


def _finding(error: SettingsError, path: Path) -> Finding:
    where = error.where if error.where and re.search(r":\d+$", error.where) else f"{path}:1"
    return Finding(
        severity="error",
        where=where,
        key="file",
        value=path.name,
        message=f"cannot be used: {error.what}",
        remedy=error.remedy or "fix it",
    )


def _known_to_torch(context: Context) -> Known:
    """Torch's operators and modules, asked of another process; where it has none, nobody checks them."""
    try:
        told = json.loads(run_command([sys.executable, "-P", "-c", _NAMES], timeout_s=TORCH_TIMEOUT_S))
    except (CommandError, ValueError):
        context.say("torch cannot be asked for its operators, so their names are not checked")
        return Known()
    return Known(ops=set(told["ops"]), modules=set(told["modules"]), whole=True)


def _text(path: Path) -> str:
    try:
        return read_bounded(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadFileError(f"is not UTF-8: {error}", where=path, remedy="save it as UTF-8") from error


def _diff(before: Mapping[Path, str], after: Mapping[Path, str], base: Path) -> Iterator[str]:
    for path, text in after.items():
        name = path.resolve()
        name = name.relative_to(base.resolve()) if name.is_relative_to(base.resolve()) else name
        label = name.as_posix().removeprefix("/")
        for line in difflib.unified_diff(_lines(before[path]), _lines(text), f"a/{label}", f"b/{label}"):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines as patch has them: ended by a line feed and by nothing else."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
