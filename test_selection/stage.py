"""The stage: restrict, scope, then a share that stays the same whatever else is collected."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from test_selection.catalog import Catalog, CatalogTest
from test_selection.durations import Durations
from test_selection.errors import NothingToRunError, UsageError
from test_selection.estimates import estimate_tests
from test_selection.ids import parse_id
from test_selection.keyword_expression import compile_keyword
from test_selection.lock import PYTORCH, Lock, make_lock, members, narrowed
from test_selection.patterns import Pattern, compile_pattern
from test_selection.rules import Rules
from test_selection.scope import apply_scope, file_in_scope
from test_selection.selection import Selection, make_note
from test_selection.selection_order import By, share
from test_selection.suite_decide import Decider


@dataclass(frozen=True, slots=True, kw_only=True)
class InScope:
    """What a share is taken of: a catalog with the scope's rules.

    Attributes:
        catalog: every collected test.
        rules: of the scope.
        tree: which tests, `op-suite` or `pytorch`.
        durations: what was measured, for estimates; None: nothing is estimated.
        must_run: ids that come first in the selection order.
        scope_version: version text of the scope.
    """

    catalog: Catalog
    rules: Rules
    tree: str = PYTORCH
    durations: Durations | None = None
    must_run: Collection[str] = ()
    scope_version: str = ""

    def lock(self, history: Mapping[str, float] | None = None) -> Lock:
        """Lock all that is in scope, with an estimate of each test.

        Args:
            history: share of past runs that failed, by id. With it, even an empty one, it and seconds settle
                ties; with None they do not, so that machines with other pasts select the same tests.
        """
        inside = apply_scope(self.catalog, self.rules).in_scope
        return make_lock(
            inside,
            torch=self.catalog.pytorch,
            device=self.catalog.device,
            tree=self.tree,
            scope=self.scope_version,
            must_run=self.must_run,
            seconds=estimate_tests(inside, self.durations or Durations(), among=self.catalog.tests),
            history=history,
            weighed=history is not None,
        )


def restrict(
    tests: Iterable[CatalogTest],
    files: Sequence[str],
    keyword: str | None,
    *,
    known_files: Collection[str] = (),
) -> tuple[list[CatalogTest], list[str]]:
    """The tests in the named files whose id the keyword expression accepts.

    Args:
        tests: what to choose from.
        files: globs or `/regex/` on files, relative to the tests' root; none means all files.
        keyword: an expression as pytest's `-k` takes it, or None.
        known_files: files that are there without having tests, such as those that failed to collect.

    Returns:
        The tests that are left, in their order, and the patterns that match no file at all.

    Raises:
        UsageError: a pattern or the expression cannot be read.
    """
    rows = list(tests)
    patterns = {text: file_pattern(text) for text in files}
    names = sorted({*known_files, *(test.file for test in rows)})
    hit = {text: {name for name in names if one.search(name)} for text, one in patterns.items()}
    if files:
        wanted = set().union(*hit.values())
        rows = [test for test in rows if test.file in wanted]
    if keyword is not None:
        accepts = compile_keyword(keyword)
        rows = [test for test in rows if accepts(test.id)]
    return rows, [text for text, found in hit.items() if not found]


def make_selection(
    what: InScope,
    *,
    stage: int | None,
    percent: float,
    by: By = "count",
    files: Sequence[str] = (),
    keyword: str | None = None,
    suite: Decider | None = None,
    only_ids: Collection[str] | None = None,
    whole_files: Collection[str] = (),
    lock: Lock | None = None,
    lock_source: str = "made for this run",
) -> Selection:
    """Choose what runs: restrict by files and keyword, then scope, then the suite, then the share.

    The share is what ranks below `percent` in the selection order. That is the lock's, made anew of those of
    its tests that files, keyword and suite let through: who is in depends on the lock and on that
    restriction, never on who came since.

    Ids that are named one by one (`only_ids`) are all taken, whatever their rank: the share is for those
    who did not say which. A file that could not be collected is listed where its file passes; a keyword
    cannot tell, and at 0 % nothing was asked of it.

    Args:
        what: the catalog and its scope.
        stage: the row of the roll-out, or None.
        percent: share of the tests in scope, 0 to 100.
        by: what the share is of, the number of tests or their seconds.
        files: globs or `/regex/` on files.
        keyword: an expression as pytest's `-k` takes it.
        suite: narrows to its files and declares expectations.
        only_ids: test ids; these and no others.
        whole_files: names of files whose tests are all taken beside `only_ids`.
        lock: everybody's rank; None makes one of this catalog.
        lock_source: which lock it is, for people.

    Raises:
        UsageError: a file pattern matches nothing, an expression or percentage cannot be read, or none of
            `only_ids` is in the catalog.
    """
    share(percent)
    catalog = what.catalog
    rows, unmatched = restrict(catalog.tests, files, keyword, known_files=catalog.files)
    if unmatched:
        raise _no_file(unmatched, catalog)
    missing = _missing(catalog, only_ids, whole_files)
    if only_ids is not None:
        named, whole = set(only_ids), set(whole_files)
        rows = [test for test in rows if test.id in named or test.file in whole]
    scope = apply_scope(replace(catalog, tests=rows), what.rules)
    inside, out = scope.in_scope, Counter(scope.out)
    if suite is not None:
        inside, left_out = suite.narrow(inside)
        out.update(left_out)
    chosen, note = (inside if percent > 0 else []), None
    if only_ids is None and percent > 0:

        def keep(tests: list[CatalogTest]) -> list[CatalogTest]:
            # It restricts the order as it restricts a catalog, by nothing that an id does not tell.
            rows = restrict(tests, files, keyword)[0]
            return rows if suite is None else suite.narrow(rows)[0]

        lock = narrowed(lock or what.lock(), keep)
        chosen = members(inside, lock, percent=percent, by=by, must_run=what.must_run)
        note = make_note(
            lock,
            inside,
            chosen,
            percent=percent,
            by=by,
            source=lock_source,
            scope_version=what.scope_version,
        )
    times = None if what.durations is None else estimate_tests(inside, what.durations, among=catalog.tests)
    errors: dict[str, str] = {}
    if percent > 0:
        only_files = None if only_ids is None else _files_of(only_ids) | {*whole_files}
        errors = _errors(what, files, suite, only_files)
    return Selection(
        stage=stage,
        percent=percent,
        ids=[test.id for test in chosen],
        in_scope=len(inside),
        in_scope_s=None if times is None else sum(times.values()),
        selected_s=None if times is None else sum(times[test.id] for test in chosen),
        out_of_scope=dict(out),
        expectations={} if suite is None else suite.expectations(chosen),
        collect_errors=errors,
        missing=missing,
        ladder=note,
    )


def require_tests(selection: Selection) -> None:
    """Refuse a selection of nothing where a share above 0 % was asked for.

    Raises:
        NothingToRunError: there is no test to run (exit code 3).
    """
    if selection.ids or not selection.percent:
        return
    if selection.moved:
        moved = ", ".join(f"{len(ids):,} to {tier}" for tier, ids in selection.moved.items())
        raise NothingToRunError(
            f"nothing to run in tier {selection.bucket}: every selected test moves ({moved})",
            remedy="name a later tier with --tier, or raise its limits (tiers in the settings)",
        )
    reasons = ", ".join(f"{count} {code}" for code, count in selection.out_of_scope.items()) or "none"
    raise NothingToRunError(
        f"nothing to run: {selection.percent:g} % of the {selection.in_scope} tests in scope is none "
        f"(out of scope: {reasons}; files that failed to collect: {len(selection.collect_errors)})",
        remedy="raise the percentage, loosen --files, -k or the suite, or fix the files that failed",
    )


def file_pattern(text: str) -> Pattern:
    """The pattern of one glob of `--files`.

    Raises:
        UsageError: it is neither a glob nor a regular expression between slashes.
    """
    try:
        return compile_pattern(text.removeprefix("./"))
    except ValueError as error:
        raise UsageError(str(error), where="--files", remedy="give a glob such as 'test_*.py'") from error


def _no_file(unmatched: Sequence[str], catalog: Catalog) -> UsageError:
    names = sorted({*catalog.files, *(test.file for test in catalog.tests)})
    close = [found for text in unmatched for found in difflib.get_close_matches(text, names, n=1)]
    hint = f"did you mean {', '.join(close)}? " if close else ""
    return UsageError(
        f"no collected file matches {', '.join(map(repr, unmatched))}",
        where="--files",
        remedy=f"{hint}paths are relative to the tests' root; `**/` stands for any folder",
    )


def _missing(catalog: Catalog, only_ids: Collection[str] | None, whole_files: Collection[str]) -> list[str]:
    """The ids asked for one by one that the catalog lacks; a file that failed to collect has none."""
    if only_ids is None:
        return []
    known = {test.id for test in catalog.tests}
    missing = sorted(set(only_ids) - known)
    lost = missing and len(missing) == len(set(only_ids)) and not whole_files
    if lost and not _files_of(missing) & {*catalog.collect_errors}:
        raise UsageError(
            f"none of the {len(missing)} named tests is in the catalog, such as {missing[0]!r}",
            remedy="collect the same files, device and PyTorch version they came from",
        )
    return missing


def _files_of(ids: Iterable[str]) -> set[str]:
    return {parse_id(name)[0] for name in ids}


def _errors(
    what: InScope, files: Sequence[str], suite: Decider | None, only_files: Collection[str] | None
) -> dict[str, str]:
    """The errors of files in scope that could not be collected."""
    patterns = [file_pattern(text) for text in files]
    return {
        name: error
        for name, error in what.catalog.collect_errors.items()
        if (not patterns or any(one.search(name) for one in patterns))
        and (only_files is None or name in only_files)
        and (suite is None or suite.names_file(name))
        and file_in_scope(name, what.catalog.device, what.rules)
    }
