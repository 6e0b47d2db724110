"""The tests that a change can break: which they are, in which order, and what a budget keeps. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from test_selection.catalog import CatalogTest
from test_selection.op_map import OpMap, family, is_function

WHOLE_FILE = "*"
# The budget that keeps all that a change can break.
EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a change says of tests; each key of a mapping comes with the reason, for people.

    Attributes:
        everything: why any test may break; empty where the rest says all.
        files: test files that changed.
        helpers: test files that import a changed file.
        ops: families of the ops whose kernel, decomposition or lowering changed.
        functions: Python functions of torch that changed, `file:function`; or `file:*` for every one.
    """

    everything: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    ops: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTests:
    """Tests in the order in which a change is likely to break them.

    Attributes:
        ids: all of them.
        reasons: by id, why the evidence names a test; others come behind these.
        always: ids that no evidence can rule out: no trace of them, or their own file changed.
        everything: why any test may break; where that is so, all are named.
    """

    ids: list[str]
    reasons: Mapping[str, str]
    always: frozenset[str]
    everything: tuple[str, ...] = ()

    @property
    def named(self) -> list[str]:
        """The ids that the evidence names, and those that it cannot rule out, in order."""
        if self.everything:
            return self.ids
        return [name for name in self.ids if name in self.reasons or name in self.always]


class _Calls(NamedTuple):
    """What a test's trace has of a change: the ops it calls, families besides, and a function's reason."""

    ops: tuple[int, ...] = ()
    others: int = 0
    why: str = ""
    has_functions: bool = False


def rank_tests(
    tests: Sequence[CatalogTest],
    evidence: Evidence,
    op_map: OpMap,
    *,
    failed: Collection[str] = (),
    quarantined: Collection[str] = (),
) -> RankedTests:
    """Order tests by what a change can break.

    Tests of changed files come first, then those that import one, then those that call a changed op, then
    those that call a changed function. Among the callers of an op: those about that op, those that call few
    others, one for each overload and dtype, one for each template. What failed lately comes before all of
    these, what is in quarantine behind them.

    Args:
        tests: in the order that the rest keeps.
        evidence: of the change.
        op_map: what each test calls.
        failed: ids that did not pass in the last run.
        quarantined: ids whose failures do not count.
    """
    families = ["" if is_function(op) else family(op) for op in op_map.ops]
    calls = [_calls(places, evidence, op_map.ops, families) for places in op_map.sets]
    changed = {_plain(name) for name in evidence.ops}
    about = {op for op in {test.op for test in tests} if op and not changed.isdisjoint(_names(op))}
    kinds: dict[str, tuple[int, str]] = {}
    found: dict[str, _Calls] = {}
    always = set()
    for test in tests:
        place = op_map.of.get(test.id)
        found[test.id] = one = _Calls() if place is None else calls[place]
        # The functions that a test calls are not noted in every run.
        unknown = place is None or (evidence.functions and not one.has_functions)
        if unknown or test.file in evidence.files:
            always.add(test.id)
        if (kind := _kind(test, one, evidence, about=test.op in about)) is not None:
            kinds[test.id] = kind
    named = [test for test in tests if test.id in kinds]
    named.sort(key=lambda test: (test.op not in about, found[test.id].others, test.id))
    rounds = _rounds(named, found)
    named.sort(
        key=lambda test: (
            test.id in quarantined,
            test.id not in failed,
            kinds[test.id][0],
            rounds[test.id],
        )
    )
    rest = [test for test in tests if test.id not in kinds]
    return RankedTests(
        ids=[test.id for test in named]
        + sorted((test.id for test in rest), key=lambda name: name not in always),
        reasons={name: why for name, (_, why) in kinds.items()},
        always=frozenset(always),
        everything=tuple(evidence.everything),
    )


def _calls(
    places: Iterable[int], evidence: Evidence, traced: Sequence[str], families: Sequence[str]
) -> _Calls:
    ops, others, why, has_functions = [], set(), "", False
    for place in places:
        if not (name := families[place]):
            has_functions = True
            file = traced[place].partition(":")[0]
            of_file = evidence.functions.get(f"{file}:{WHOLE_FILE}", "")
            why = why or evidence.functions.get(traced[place]) or of_file
        elif name in evidence.ops:
            ops.append(place)
            why = evidence.ops[name]
        else:
            others.add(name)
    return _Calls(tuple(ops), len(others), why, has_functions)


def _kind(test: CatalogTest, calls: _Calls, evidence: Evidence, *, about: bool) -> tuple[int, str] | None:
    """The place of a test's strongest evidence, and its reason; None where there is none."""
    if test.file in evidence.files:
        return 0, evidence.files[test.file]
    if test.file in evidence.helpers:
        return 1, evidence.helpers[test.file]
    if calls.ops:
        return 2, calls.why
    if about:
        return 2, f"its op is {test.op}"
    return (3, calls.why) if calls.why else None


def _rounds(tests: Iterable[CatalogTest], found: Mapping[str, _Calls]) -> dict[str, int]:
    """0 for each test that is the first to call one of its ops, 1 for the first of a template, else 2."""
    seen: set[object] = set()
    rounds = {}
    for test in tests:
        ops, template = found[test.id].ops, (test.file, test.cls, test.template)
        new = [not seen.issuperset(ops), template not in seen, True]
        rounds[test.id] = new.index(True)
        seen.update(ops, [template])
    return rounds


def _plain(op: str) -> str:
    return op.replace(".", "_").strip("_")


def _names(op: str) -> set[str]:
    """What ATen may call an op of OpInfo: `linalg.det` is linalg_det there, `masked.sum` is a sum."""
    return {_plain(op), *map(_plain, op.split("."))}


def keep_share(ranked: RankedTests, percent: float) -> list[str]:
    """Cut the named tests at a share of all; what is always in is kept on top.

    Args:
        ranked: the tests; all are kept where any may break.
        percent: of all of them, 0 to 100.
    """
    if ranked.everything:
        return ranked.ids
    most = math.ceil(len(ranked.ids) * percent / 100)
    chosen = [name for name in ranked.named if name not in ranked.always][:most]
    return _in_order(ranked, chosen)


def keep_seconds(
    ranked: RankedTests, budget_s: float, seconds: Mapping[str, float], *, unknown_s: float
) -> list[str]:
    """Cut the named tests where their time is used up; what is always in is kept, and counts.

    Args:
        ranked: the tests; all are kept where any may break.
        budget_s: seconds that the kept tests may take, one after the other.
        seconds: that each takes.
        unknown_s: that a test takes which was never measured.
    """
    if ranked.everything:
        return ranked.ids
    left = budget_s - sum(seconds.get(name, unknown_s) for name in ranked.always)
    chosen = []
    for name in ranked.named:
        if name not in ranked.always:
            left -= seconds.get(name, unknown_s)
            if left < 0:
                break
            chosen.append(name)
    return _in_order(ranked, chosen)


def _in_order(ranked: RankedTests, chosen: Iterable[str]) -> list[str]:
    kept = ranked.always.union(chosen)
    return [name for name in ranked.ids if name in kept]
