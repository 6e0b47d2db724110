"""The stage: restrict, scope, then a share that stays the same whatever else is collected.

Keyword expressions have pytest's meaning of `-k`: and, or, not, brackets and parts of a name.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from test_selection.catalog import Catalog, CatalogTest
from test_selection.durations import Durations
from test_selection.errors import NothingToRunError, UsageError
from test_selection.estimates import estimate_tests
from test_selection.ids import parse_id
from test_selection.lock import PYTORCH, Lock, make_lock, members, narrowed
from test_selection.patterns import Pattern, compile_pattern
from test_selection.rules import Rules
from test_selection.scope import apply_scope, file_in_scope
from test_selection.selection import Expectation, Selection
from test_selection.selection_note import Asked, make_note
from test_selection.selection_order import By, share
from test_selection.suite_decide import Suites, expectations, in_suite, narrow

Match = Callable[[str], bool]

# pytest's names, and what canonical ids hold besides: `op=add`, `x,y`, `#2`, `%20`.
_TOKEN = re.compile(r"\s*(?:([\w:+\-.\[\]\\/=,#%~]+)|\S)")


def compile_keyword(text: str) -> Match:
    """Compile an expression such as `add and not (float64 or TestX)`.

    A name stands for any id that contains it, case not counting; `not` binds tighter than `and`, `and`
    tighter than `or`. Text without any name selects everything, as pytest's does.

    Raises:
        UsageError: the expression cannot be read; the message says at which column.
    """
    if not text.strip():
        return lambda _: True
    match = _Parser(text).parse()
    return lambda name: match(name.lower())


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        # (token, its column from 1, whether it can be a name)
        self.tokens = [
            (found[0].lstrip(), found.end() - len(found[0].lstrip()) + 1, found[1] is not None)
            for found in _TOKEN.finditer(text)
        ]
        self.at = 0

    @property
    def token(self) -> str:
        """The token that is next; empty at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def parse(self) -> Match:
        """The whole expression."""
        try:
            match = self.any_of()
        except RecursionError:
            self.refuse("fewer brackets")
        if self.token:
            self.refuse("`and`, `or` or the end")
        return match

    def any_of(self) -> Match:
        """Alternatives joined by `or`."""
        terms = [self.all_of()]
        while self.skip("or"):
            terms.append(self.all_of())
        return terms[0] if len(terms) == 1 else lambda name: any(term(name) for term in terms)

    def all_of(self) -> Match:
        """Conditions joined by `and`."""
        terms = [self.one()]
        while self.skip("and"):
            terms.append(self.one())
        return terms[0] if len(terms) == 1 else lambda name: all(term(name) for term in terms)

    def one(self) -> Match:
        """A negation, something in brackets, or a name."""
        if self.skip("not"):
            inner = self.one()
            return lambda name: not inner(name)
        if self.skip("("):
            inside = self.any_of()
            if not self.skip(")"):
                self.refuse("`)`")
            return inside
        if self.token in {"", "and", "or"} or not self.tokens[self.at][2]:
            self.refuse("a name, `not` or `(`")
        part = self.token.lower()
        self.at += 1
        return lambda name: part in name

    def skip(self, token: str) -> bool:
        """Step over the token if it is next."""
        if self.token != token:
            return False
        self.at += 1
        return True

    def refuse(self, wanted: str) -> NoReturn:
        """Say where the expression stops making sense."""
        ended = self.at >= len(self.tokens)
        column = len(self.text) + 1 if ended else self.tokens[self.at][1]
        seen = "the end" if ended else repr(self.token)
        raise UsageError(
            f"cannot read {self.text!r} at column {column}: expected {wanted}, not {seen}",
            where="-k",
            remedy="join parts of names by and, or, not and brackets, such as 'add and not float64'",
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
    catalog: Catalog,
    rules: Rules,
    *,
    stage: int | None,
    percent: float,
    by: By = "count",
    files: Sequence[str] = (),
    keyword: str | None = None,
    suite: Suites | None = None,
    only_ids: Collection[str] | None = None,
    whole_files: Collection[str] = (),
    durations: Durations | None = None,
    lock: Lock | None = None,
    lock_source: str = "made for this selection",
    must_run: Collection[str] = (),
    scope_version: str = "",
) -> Selection:
    """Choose what runs: restrict by files and keyword, then scope, then the suite, then the share.

    The share is what stands on the ladder below `percent`. The ladder is that of the lock, made anew of
    those of its tests that files, keyword and suite let through: who is in depends on the lock and on that
    restriction, never on who came since.

    Ids that are named one by one (`only_ids`) are all taken, whatever their place: the share is for those
    who did not say which. A file that could not be collected is listed where its file passes; a keyword
    cannot tell, and at 0 % nothing was asked of it.

    Args:
        catalog: every collected test.
        rules: of the scope.
        stage: the row of the roll-out, or None.
        percent: share of the tests in scope, 0 to 100.
        by: what the share is of, the number of tests or their seconds.
        files: globs or `/regex/` on files.
        keyword: an expression as pytest's `-k` takes it.
        suite: narrows to its files and declares expectations.
        only_ids: canonical ids; these and no others.
        whole_files: names of files whose tests are all taken beside `only_ids`.
        durations: what was measured, for estimates.
        lock: everybody's place; None makes one of this catalog.
        lock_source: which lock it is, for people.
        must_run: ids that come first on the ladder.
        scope_version: version text of the scope.

    Raises:
        UsageError: a file pattern matches nothing, an expression or percentage cannot be read, or none of
            `only_ids` is in the catalog.
    """
    share(percent)
    rows, unmatched = restrict(catalog.tests, files, keyword, known_files=catalog.files)
    if unmatched:
        raise _no_file(unmatched, catalog)
    missing = _missing(catalog, only_ids, whole_files)
    if only_ids is not None:
        named, whole = set(only_ids), set(whole_files)
        rows = [test for test in rows if test.id in named or test.file in whole]
    scope = apply_scope(replace(catalog, tests=rows), rules)
    inside, out = scope.in_scope, Counter(scope.out)
    if suite is not None:
        inside, left_out = narrow(suite, inside)
        out.update(left_out)
    chosen, note = (inside if percent > 0 else []), None
    if only_ids is None and percent > 0:
        if lock is None:
            lock = lock_of(
                catalog, rules, durations=durations, must_run=must_run, scope_version=scope_version
            )
        lock = narrowed(lock, _narrowing(files, keyword, suite))
        chosen = members(inside, lock, percent=percent, by=by, must_run=must_run)
        asked = Asked(percent=percent, by=by, source=lock_source, scope_version=scope_version)
        note = make_note(lock, inside, chosen, asked)
    times = None if durations is None else estimate_tests(inside, durations, among=catalog.tests)
    return Selection(
        stage=stage,
        percent=percent,
        ids=[test.id for test in chosen],
        in_scope=len(inside),
        in_scope_s=None if times is None else sum(times.values()),
        selected_s=None if times is None else sum(times[test.id] for test in chosen),
        out_of_scope=dict(out),
        expectations=_expectations(suite, chosen),
        collect_errors=_errors(catalog, rules, files, suite, _named(only_ids, whole_files))
        if percent > 0
        else {},
        missing=missing,
        ladder=note,
    )


def lock_of(
    catalog: Catalog,
    rules: Rules,
    *,
    tree: str = PYTORCH,
    durations: Durations | None = None,
    history: Mapping[str, float] | None = None,
    weighed: bool = False,
    must_run: Collection[str] = (),
    scope_version: str = "",
) -> Lock:
    """Lock all of a catalog that is in scope.

    Args:
        catalog: every collected test.
        rules: of the scope.
        tree: `op-suite` or `pytorch`.
        durations: what was measured; the lock keeps an estimate of each test.
        history: share of past runs that failed, by id.
        weighed: whether history and seconds settle ties; of a lock that is made for one run they do not, so
            that machines with other pasts select the same tests.
        must_run: ids that come first.
        scope_version: version text of the scope.
    """
    inside = apply_scope(catalog, rules).in_scope
    return make_lock(
        inside,
        torch=catalog.pytorch,
        device=catalog.device,
        tree=tree,
        scope=scope_version,
        must_run=must_run,
        seconds=estimate_tests(inside, durations or Durations(), among=catalog.tests),
        history=history,
        weighed=weighed,
    )


def _narrowing(
    files: Sequence[str], keyword: str | None, suite: Suites | None
) -> Callable[[list[CatalogTest]], list[CatalogTest]]:
    """What restricts a ladder as it restricts a catalog; it may look at nothing that an id does not tell."""

    def keep(tests: list[CatalogTest]) -> list[CatalogTest]:
        rows = restrict(tests, files, keyword)[0]
        return rows if suite is None else narrow(suite, rows)[0]

    return keep


def require_tests(selection: Selection) -> None:
    """Refuse a selection of nothing where a share above 0 % was asked for.

    Raises:
        NothingToRunError: there is no test to run (exit code 3).
    """
    if selection.ids or not selection.percent:
        return
    reasons = ", ".join(f"{count} {code}" for code, count in selection.out_of_scope.items()) or "none"
    raise NothingToRunError(
        f"nothing to run: {selection.percent:g} % of {selection.in_scope} in-scope tests is no test "
        f"(out of scope: {reasons}; files that failed to collect: {len(selection.collect_errors)})",
        remedy="raise the percentage, loosen --files, -k or the suite, or mend the files that failed",
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


def _named(only_ids: Collection[str] | None, whole_files: Collection[str]) -> set[str] | None:
    """The files of tests that are named; None where none are."""
    return None if only_ids is None else _files_of(only_ids) | {*whole_files}


def _expectations(suite: Suites | None, tests: Iterable[CatalogTest]) -> Mapping[str, Expectation]:
    return {} if suite is None else expectations(suite, tests)


def _errors(
    catalog: Catalog,
    rules: Rules,
    files: Sequence[str],
    suite: Suites | None,
    named: Collection[str] | None,
) -> dict[str, str]:
    patterns = [file_pattern(text) for text in files]
    return {
        name: error
        for name, error in catalog.collect_errors.items()
        if (not patterns or any(one.search(name) for one in patterns))
        and (named is None or name in named)
        and (suite is None or in_suite(suite, name))
        and file_in_scope(name, catalog.device, rules)
    }
