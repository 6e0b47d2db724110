"""The stage: restrict, scope, then a share that stays the same whatever else is collected."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from test_selection.catalog import Catalog, CatalogTest
from test_selection.durations import Durations, estimate_tests
from test_selection.errors import NothingToRunError, UsageError
from test_selection.ids import parse_id
from test_selection.keywords import compile_keyword
from test_selection.patterns import Pattern, compile_pattern
from test_selection.scope import Rules, apply_scope, file_in_scope
from test_selection.selection import Expectation, Selection
from test_selection.suite_config import Suites, expectations, in_suite, narrow

# A float holds 53 bits without rounding, so that no place comes out as 1.
_PLACE_BITS = 53


def place(name: str) -> float:
    """Where a test stands in [0, 1), from the SHA-256 of its canonical id and nothing else."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _PLACE_BITS)) / 2.0**_PLACE_BITS


def select(tests: Iterable[CatalogTest], percent: float) -> list[CatalogTest]:
    """The tests whose place is below percent / 100: a smaller share lies inside a larger one.

    Raises:
        UsageError: `percent` is not between 0 and 100.
    """
    if not 0 <= percent <= 100:  # noqa: PLR2004  # per cent
        raise UsageError(f"{percent} is not a percentage", remedy="give a number from 0 to 100")
    share = percent / 100
    return [test for test in tests if place(test.id) < share]


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
    files: Sequence[str] = (),
    keyword: str | None = None,
    suite: Suites | None = None,
    only_ids: Collection[str] | None = None,
    durations: Durations | None = None,
) -> Selection:
    """Choose what runs: restrict by files and keyword, then scope, then the suite, then the share.

    Ids that are named one by one (`only_ids`) are all taken, whatever their place: the share is for those
    who did not say which. A file that could not be collected is listed where its file passes; a keyword
    cannot tell, and at 0 % nothing was asked of it.

    Raises:
        UsageError: a file pattern matches nothing, an expression or percentage cannot be read, or none of
            `only_ids` is in the catalog.
    """
    rows, unmatched = restrict(catalog.tests, files, keyword, known_files=catalog.files)
    if unmatched:
        raise _no_file(unmatched, catalog)
    missing = _missing(catalog, only_ids)
    if only_ids is not None:
        named = set(only_ids)
        rows = [test for test in rows if test.id in named]
    scope = apply_scope(Catalog(pytorch=catalog.pytorch, device=catalog.device, tests=rows), rules)
    inside, out = scope.in_scope, Counter(scope.out)
    if suite is not None:
        inside, left_out = narrow(suite, inside)
        out.update(left_out)
    chosen = select(inside, percent)
    if only_ids is not None and percent > 0:
        chosen = inside
    return Selection(
        stage=stage,
        percent=percent,
        ids=[test.id for test in chosen],
        in_scope=len(inside),
        in_scope_s=None if durations is None else sum(estimate_tests(inside, durations).values()),
        out_of_scope=dict(out),
        expectations=_expectations(suite, chosen),
        collect_errors=_errors(catalog, rules, files, suite, only_ids) if percent > 0 else {},
        missing=missing,
    )


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


def _missing(catalog: Catalog, only_ids: Collection[str] | None) -> list[str]:
    """The ids asked for one by one that the catalog lacks; a file that failed to collect has none."""
    if only_ids is None:
        return []
    known = {test.id for test in catalog.tests}
    missing = sorted(set(only_ids) - known)
    if missing and len(missing) == len(set(only_ids)) and not _files_of(missing) & {*catalog.collect_errors}:
        raise UsageError(
            f"none of the {len(missing)} named tests is in the catalog, such as {missing[0]!r}",
            remedy="collect the same files, device and PyTorch version they came from",
        )
    return missing


def _files_of(ids: Iterable[str]) -> set[str]:
    return {parse_id(name)[0] for name in ids}


def _expectations(suite: Suites | None, tests: Iterable[CatalogTest]) -> Mapping[str, Expectation]:
    return {} if suite is None else expectations(suite, tests)


def _errors(
    catalog: Catalog,
    rules: Rules,
    files: Sequence[str],
    suite: Suites | None,
    only_ids: Collection[str] | None,
) -> dict[str, str]:
    patterns = [file_pattern(text) for text in files]
    named = None if only_ids is None else _files_of(only_ids)
    return {
        name: error
        for name, error in catalog.collect_errors.items()
        if (not patterns or any(one.search(name) for one in patterns))
        and (named is None or name in named)
        and (suite is None or in_suite(suite, name))
        and file_in_scope(name, catalog.device, rules)
    }
