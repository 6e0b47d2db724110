"""What suites mean for each test: whether it is one of theirs, and what is expected of it.

A variant (test, operator or module, dtype) belongs to a suite where an entry generates it: what the support
lists hold, with the entry's includes and without its excludes. Several entries about a test are united; of
those that generate a variant the most specific decides: one whose includes name its operator and dtype, then
one that restricts nothing, then one whose includes name others; then an exact name before a pattern; then
the first. What no entry names takes the file's `unlisted_test_mode`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from test_selection.catalog import CatalogTest
from test_selection.patterns import Pattern
from test_selection.selection import Expectation, Precision
from test_selection.suite_model import (
    MANDATORY,
    PATTERN,
    Edit,
    Entry,
    Named,
    Root,
    Rule,
    Suite,
    SuiteFile,
    Variant,
    module_name,
    op_keys,
    variant_of,
)

NOT_IN_SUITE = "not-in-suite"
EXCLUDED = "suite-excluded"
UNSUPPORTED_OP = "suite-unsupported-op"
UNSUPPORTED_MODULE = "suite-unsupported-module"
UNSUPPORTED_DTYPE = "suite-unsupported-dtype"
NOT_SELECTED = "suite-selectors"
UNLISTED_REASON = "not listed in the suite"
_UNLISTED = Entry(names=(), line=0)
# Of two suites that list none of a test's names, the one that asks for more decides.
_STRENGTH = {MANDATORY: 0, "xfail_strict": 1, "xfail": 2, "skip": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file entry about a test's file."""

    suite: Suite
    file: SuiteFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An entry that names a test."""

    place: Place
    entry: Entry
    loose: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the suites decide of one test.

    Attributes:
        expected: what is expected; None where it is out.
        out: the reason code it is left out for; empty where it is in.
        place: the file entry that decided, and its suite.
        entry: the entry that decided; None where the file's `unlisted_test_mode` did.
        forced: what flipped the mode to xfail, by `force_xfail`.
        tied: an entry that means this test just as exactly and only stands later; of another mode if any.
    """

    expected: Expectation | None = None
    out: str = ""
    place: Place | None = None
    entry: Entry | None = None
    forced: Named | None = None
    tied: Candidate | None = None


def for_root(suites: Sequence[Suite], root: Root) -> list[Suite]:
    """The suites as they speak of one tree: PyTorch's (`torch`) or the device's own (`device`).

    Paths without a token speak of either; a suite that is left without a file is left out.
    """
    kept = (
        replace(suite, files=tuple(one for one in suite.files if one.root in {None, root}))
        for suite in suites
    )
    return [suite for suite in kept if suite.files]


class Decider:
    """Decides tests one by one, remembering what they have in common."""

    def __init__(self, suites: Suite | Sequence[Suite]) -> None:
        self._suites = (suites,) if isinstance(suites, Suite) else suites
        self._by_file: dict[str, _FileEntries] = {}
        self._named: dict[tuple[str, ...], list[Candidate]] = {}
        self._lists: dict[tuple[int, ...], list[Candidate]] = {}
        self._decided: dict[tuple[int | str | bool | None, ...], Decision] = {}

    def decide(self, test: CatalogTest) -> Decision:
        """What the suites say of a test."""
        about_file = self._entries_of(test.file)
        if not about_file.places:
            return Decision(out=NOT_IN_SUITE)
        variant = self.variant(test)
        named = self._named.get(key := (test.file, test.cls, test.template, *variant.raw))
        if named is None:
            named = self._named[key] = self._shared(_named_by(about_file.places, variant))
        # Templates that the same entries name have their decisions in common, unless selectors ask further.
        asked = (test.template,) if any(one.entry.include or one.entry.exclude for one in named) else ()
        about = (id(named), id(about_file.places), test.op, test.dtype, variant.is_module, *asked)
        decision = self._decided.get(about)
        if decision is None:
            decision = self._decided[about] = _decide(about_file.places, named, variant)
        return decision

    def _shared(self, named: list[Candidate]) -> list[Candidate]:
        key = tuple(part for one in named for part in (id(one.place), id(one.entry), one.loose))
        return self._lists.setdefault(key, named)

    def narrow(self, tests: Iterable[CatalogTest]) -> tuple[list[CatalogTest], Counter[str]]:
        """The tests the suites would instantiate, in their order, and how many each reason code leaves out.

        A test that is to be skipped stays: it is planned, and its verdict says so.
        """
        kept, out = [], Counter[str]()
        for test in tests:
            if code := self.decide(test).out:
                out[code] += 1
            else:
                kept.append(test)
        return kept, out

    def expectations(self, tests: Iterable[CatalogTest]) -> dict[str, Expectation]:
        """What the suites declare of each test, by test id.

        Tests the suites leave out are not in it, nor are unlisted ones that have to pass as they are: that
        is what is expected of any test.
        """
        found = {}
        for test in tests:
            decision = self.decide(test)
            expected = decision.expected
            if expected is not None and (decision.entry is not None or not _plain(expected)):
                found[test.id] = expected
        return found

    def names_file(self, file: str) -> bool:
        """Whether a suite names a file."""
        return bool(self._entries_of(file).places)

    def exact_name(self, entry: Entry, test: CatalogTest) -> str | None:
        """The name by which an entry names a test exactly, if it does."""
        variant = self.variant(test)
        named = (name.text for name in entry.names if not name.loose and variant.is_named(name))
        return next(named, None)

    def variant(self, test: CatalogTest) -> Variant:
        """A test as the entries about its file see it."""
        return variant_of(test, self._entries_of(test.file).exact_methods)

    def _entries_of(self, file: str) -> _FileEntries:
        if file not in self._by_file:
            self._by_file[file] = _entries_of(self._suites, file)
        return self._by_file[file]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileEntries:
    """The file entries about a file, and the methods they name exactly."""

    places: list[Place]
    exact_methods: frozenset[str]


def _entries_of(suites: Sequence[Suite], file: str) -> _FileEntries:
    places = [
        Place(suite=suite, file=one) for suite in suites for one in suite.files if one.pattern.fullmatch(file)
    ]
    names = (name for place in places for entry in place.file.entries for name in entry.names)
    exact = frozenset(name.text.rpartition("::")[2] for name in names if name.loose < PATTERN)
    return _FileEntries(places=places, exact_methods=exact)


def _named_by(places: Sequence[Place], variant: Variant) -> list[Candidate]:
    found = []
    for place in places:
        for entry in place.file.entries:
            looseness = [name.loose for name in entry.names if variant.is_named(name)]
            if looseness:
                found.append(Candidate(place=place, entry=entry, loose=min(looseness)))
    return found


def _decide(places: Sequence[Place], listed: Sequence[Candidate], variant: Variant) -> Decision:
    ranked = sorted(listed, key=lambda one: rank(one, variant))
    rows: list[tuple[Place, Entry | None]] = [(one.place, one.entry) for one in ranked]
    rows = rows or [(place, None) for place in _unlisted(places)]
    refused = ""
    for at, (place, entry) in enumerate(rows):
        if not (why := why_not(place, entry or _UNLISTED, variant)):
            return _decision(place, entry, variant, _tied(ranked[at:], variant))
        refused = refused or why
    return Decision(out=refused, place=rows[0][0], entry=rows[0][1])


def _tied(ranked: Sequence[Candidate], variant: Variant) -> Candidate | None:
    found = None
    for one in ranked[1:]:
        first = ranked[0]
        if rank(one, variant) != rank(first, variant):
            break
        if not why_not(one.place, one.entry, variant):
            if one.entry.mode != first.entry.mode:
                return one
            found = found or one
    return found


def _unlisted(places: Sequence[Place]) -> list[Place]:
    """Who decides of unlisted tests: of a suite its first path, of suites the one that asks for more."""
    exact = [one for one in places if one.file.exact] or places
    firsts = {id(one.suite): one for one in reversed(exact)}
    return sorted(firsts.values(), key=lambda one: _STRENGTH[one.file.unlisted_test_mode])


def _decision(place: Place, entry: Entry | None, variant: Variant, tied: Candidate | None) -> Decision:
    mode = place.file.unlisted_test_mode if entry is None else entry.mode
    reason = UNLISTED_REASON if entry is None and mode != MANDATORY else ""
    line = place.file.line
    if entry is not None:
        reason, line = _reason(entry, variant), entry.line
    forced = _forced(place.suite, variant) if mode == MANDATORY else None
    if forced is not None:
        mode, reason = "xfail", forced.description or f"{forced.written} is marked force_xfail"
        line = forced.line
    return Decision(
        expected=Expectation(
            mode=mode,
            reason=reason,
            where=place.suite.at(line),
            precision=_precision(place.suite, entry, variant),
            no_grad=entry is not None and entry.no_grad,
            seed=place.suite.support.seed,
            cpu_move=() if entry is None else entry.cpu_move,
        ),
        place=place,
        entry=entry,
        forced=forced,
        tied=tied,
    )


def _reason(entry: Entry, variant: Variant) -> str:
    """Why, from the most special: the operator's description, the dtype's, the entry's."""
    named = row_about(edit_about(entry, variant).include, variant)
    rows = [named, *(entry.dtypes.include.get(part) for part in variant.dtypes)]
    return next((row.description for row in rows if row is not None and row.description), entry.description)


def _forced(suite: Suite, variant: Variant) -> Named | None:
    rows = [row_about(supported_rows(suite, variant) or {}, variant)]
    rows += [(suite.support.dtypes or {}).get(part) for part in variant.dtypes]
    return next((row for row in rows if row is not None and row.force_xfail), None)


def _precision(suite: Suite, entry: Entry | None, variant: Variant) -> Precision | None:
    """The most specific tolerances: of the entry's dtype, then of the operator's, then of the dtype."""
    named = row_about(supported_rows(suite, variant) or {}, variant)
    levels: list[Mapping[str, Named]] = [
        entry.dtypes.include if entry is not None else {},
        named.dtypes if named is not None else {},
        suite.support.dtypes or {},
    ]
    for level in levels:
        rows = (level.get(part) for part in variant.dtypes)
        if (found := next((row.precision for row in rows if row and row.precision), None)) is not None:
            return found
    return None


def _plain(expected: Expectation) -> bool:
    extras = (expected.precision, expected.seed, expected.no_grad or None, expected.cpu_move or None)
    return expected.mode == MANDATORY and all(one is None for one in extras)


def rank(one: Candidate, variant: Variant) -> tuple[int, int, int]:
    """Smaller is more specific: misses of the includes, hits of them, how loosely the test is named."""
    entry, hits, misses = one.entry, 0, 0
    subject = edit_about(entry, variant).include
    if subject and variant.test.op is not None:
        hit = row_about(subject, variant) is not None
        hits, misses = hits + hit, misses + (not hit)
    if entry.dtypes.include and variant.dtypes:
        hit = any(part in entry.dtypes.include for part in variant.dtypes)
        hits, misses = hits + hit, misses + (not hit)
    return misses, -hits, one.loose


def why_not(place: Place, entry: Entry, variant: Variant) -> str:
    """The reason code an entry does not generate a variant for; empty where it does."""
    support = place.suite.support
    edit, listed = edit_about(entry, variant), supported_rows(place.suite, variant)
    supported = None
    if variant.test.op is not None:
        if row_about(edit.exclude, variant) is not None:
            return EXCLUDED
        supported = None if listed is None else row_about(listed, variant)
        if listed is not None and supported is None and row_about(edit.include, variant) is None:
            return UNSUPPORTED_MODULE if variant.is_module else UNSUPPORTED_OP
    own = supported.dtypes if supported is not None else {}
    for part in variant.dtypes:
        if part in entry.dtypes.exclude:
            return EXCLUDED
        if part in entry.dtypes.include:
            continue
        if (support.dtypes is not None and part not in support.dtypes) or (own and part not in own):
            return UNSUPPORTED_DTYPE
    return "" if _selected(place, entry, variant) else NOT_SELECTED


def _selected(place: Place, entry: Entry, variant: Variant) -> bool:
    if entry.include and not any(_holds(rule, place, variant, unknown=True) for rule in entry.include):
        return False
    return not any(_holds(rule, place, variant, unknown=False) for rule in entry.exclude)


def _holds(rule: Rule, place: Place, variant: Variant, *, unknown: bool) -> bool:
    """Whether a rule's conditions hold; what cannot be known neither includes nor excludes anything."""
    if rule.unknown and not unknown:
        return False
    has_op = variant.test.op is not None and not variant.is_module
    supported = place.suite.support.ops
    in_supported = has_op and (supported is None or row_about(supported, variant) is not None)
    return (
        rule.has_ops in {None, has_op}
        and rule.ops_in_supported in {None, in_supported}
        and (not rule.names or any(one.fullmatch(variant.test.template) for one in rule.names))
        and (not rule.modules or any(_in_module(one, variant.test.file) for one in rule.modules))
    )


def _in_module(pattern: Pattern, file: str) -> bool:
    return bool(pattern.fullmatch(file) or pattern.fullmatch(file.rpartition("/")[2]))


def supported_rows(suite: Suite, variant: Variant) -> Mapping[str, Named] | None:
    """The supported operators or modules, whichever the variant is about; None where nothing is listed."""
    return suite.support.modules if variant.is_module else suite.support.ops


def edit_about(entry: Entry, variant: Variant) -> Edit:
    """What an entry edits of operators or modules, whichever the variant is about."""
    return entry.modules if variant.is_module else entry.ops


def row_about(listed: Mapping[str, Named], variant: Variant) -> Named | None:
    """The row of a list that is about the variant's operator or module."""
    if not listed or variant.test.op is None:
        return None
    if variant.is_module:
        return listed.get(module_name(variant.test.op))
    return next((listed[key] for key in op_keys(variant.test.op) if key in listed), None)
