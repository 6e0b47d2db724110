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
from typing import TypeAlias

from test_selection.catalog import CatalogTest
from test_selection.selection import Expectation, Precision
from test_selection.suite_match import (
    PATTERN,
    Candidate,
    Place,
    Variant,
    edit_about,
    rank,
    row_about,
    supported_rows,
    variant_of,
    why_not,
)
from test_selection.suite_model import MANDATORY, Entry, Named, Root, Suite

NOT_IN_SUITE = "not-in-suite"
UNLISTED_REASON = "not listed in the suite"
# Of two suites that list none of a test's names, the one that asks for more decides.
_STRENGTH = {MANDATORY: 0, "xfail_strict": 1, "xfail": 2, "skip": 3}


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


def in_suite(suites: Suites, file: str) -> bool:
    """Whether one of the suites names a file."""
    return _decider(suites).names_file(file)


def narrow(suites: Suites, tests: Iterable[CatalogTest]) -> tuple[list[CatalogTest], Counter[str]]:
    """The tests the suites would instantiate, in their order, and how many each reason code leaves out.

    A test that is to be skipped stays: it is planned, and its verdict says so.
    """
    decider = _decider(suites)
    kept, out = [], Counter[str]()
    for test in tests:
        code = decider.decide(test).out
        if code:
            out[code] += 1
        else:
            kept.append(test)
    return kept, out


def expectations(suites: Suites, tests: Iterable[CatalogTest]) -> dict[str, Expectation]:
    """What the suites declare of each test, by canonical id.

    Tests the suites leave out are not in it, nor are unlisted ones that have to pass as they are: that is
    what is expected of any test.
    """
    decider = _decider(suites)
    found = {}
    for test in tests:
        decision = decider.decide(test)
        expected = decision.expected
        if expected is not None and (decision.entry is not None or not _plain(expected)):
            found[test.id] = expected
    return found


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
        variant = variant_of(test, about_file.exact_methods)
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

    def names_file(self, file: str) -> bool:
        """Whether a suite names a file."""
        return bool(self._entries_of(file).places)

    def exact_name(self, entry: Entry, test: CatalogTest) -> str | None:
        """The name by which an entry names a test exactly, if it does."""
        variant = variant_of(test, self.exact_methods(test.file))
        named = (name.text for name in entry.names if not name.loose and variant.is_named(name))
        return next(named, None)

    def exact_methods(self, file: str) -> frozenset[str]:
        """The methods that entries about a file name exactly."""
        return self._entries_of(file).exact_methods

    def _entries_of(self, file: str) -> _FileEntries:
        if file not in self._by_file:
            self._by_file[file] = _entries_of(self._suites, file)
        return self._by_file[file]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileEntries:
    """The file entries about a file, and the methods they name exactly."""

    places: list[Place]
    exact_methods: frozenset[str]


Suites: TypeAlias = Suite | Sequence[Suite] | Decider


def _decider(suites: Suites) -> Decider:
    return suites if isinstance(suites, Decider) else Decider(suites)


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
    if not listed:
        return _unlisted(places, variant)
    ranked = listed if len(listed) == 1 else sorted(listed, key=lambda one: rank(one, variant))
    refused = ""
    for at, one in enumerate(ranked):
        if not (why := why_not(one.place, one.entry, variant)):
            return _decision(one.place, one.entry, variant, _tied(ranked[at:], variant))
        refused = refused or why
    return Decision(out=refused, place=ranked[0].place, entry=ranked[0].entry)


def _tied(ranked: Sequence[Candidate], variant: Variant) -> Candidate | None:
    first, found = ranked[0], None
    for one in ranked[1:]:
        if rank(one, variant) != rank(first, variant):
            break
        if not why_not(one.place, one.entry, variant):
            if one.entry.mode != first.entry.mode:
                return one
            found = found or one
    return found


def _unlisted(places: Sequence[Place], variant: Variant) -> Decision:
    plain = Entry(names=(), line=0)
    exact = [one for one in places if one.file.exact] or places
    # Within a suite the first path decides, between suites the one that asks for more.
    firsts = {id(one.suite): one for one in reversed(exact)}
    ranked = sorted(firsts.values(), key=lambda one: _STRENGTH[one.file.unlisted_test_mode])
    refused = ""
    for one in ranked:
        if not (why := why_not(one, plain, variant)):
            return _decision(one, None, variant, None)
        refused = refused or why
    return Decision(out=refused, place=ranked[0])


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
