from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from ci.record.verdict import GOOD, Verdict
from ci.report.compare.changes import KNOWN, Changes, Kind, compare
from ci.report.reader import Row
from tests.unit.report.compare.making import rows

NAMES = [f"test_a.py::test_{number}" for number in range(8)]
FAILING = (
    Kind.NEW_FAILURES, Kind.NEW_TESTS_FAILING, Kind.FAILING_UNKNOWN, Kind.FAILING_DIFFERENTLY,
    Kind.QUARANTINED, Kind.STILL_FAILING,
)  # fmt: skip
LOST = (Verdict.NOT_RUN, Verdict.INFRASTRUCTURE, Verdict.HARDWARE)
runs = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(list(Verdict)))


def ids(changes: Changes[Row]) -> dict[Kind, list[str]]:
    return {kind: [one.id for one in changes[kind]] for kind in Kind if changes[kind]}


def kind_of(now: Verdict, base: Verdict | None, *, new: bool = False) -> Kind:
    there = {} if base is None else {"a": base}
    counts = compare(rows({"a": now}), rows(there), appeared={"a"} if new else ()).counts
    return next(kind for kind, number in counts.items() if number)


@given(now=runs, base=runs, new=st.sets(st.sampled_from(NAMES)))
def test_every_test_of_either_run_is_in_exactly_one_kind(
    now: dict[str, Verdict], base: dict[str, Verdict], new: set[str]
) -> None:
    changes = compare(rows(now), rows(base), appeared=new - base.keys())
    told = [name for names in ids(changes).values() for name in names]
    assert len(told) == len(set(told))
    assert set(told) <= now.keys() | base.keys()
    assert sum(changes.counts.values()) == len(now.keys() | base.keys())
    failing = {name for kind in FAILING for name in ids(changes).get(kind, [])}
    assert failing == {name for name, verdict in now.items() if verdict is Verdict.FAILED}


@given(now=runs)
def test_against_itself_nothing_is_new_or_fixed(now: dict[str, Verdict]) -> None:
    changes = compare(rows(now), rows(now))
    failing = {name for name, verdict in now.items() if verdict is Verdict.FAILED}
    found = {kind: set(names) for kind, names in ids(changes).items()}
    assert found.pop(Kind.STILL_FAILING, set()) == failing
    assert found.pop(Kind.UNKNOWN, set()) == {name for name, verdict in now.items() if verdict in LOST}
    assert found == {}
    assert changes.gone == 0


@given(now=runs, base=runs)
def test_what_is_fixed_one_way_is_newly_failing_the_other(
    now: dict[str, Verdict], base: dict[str, Verdict]
) -> None:
    there = ids(compare(rows(now), rows(base)))
    back = ids(compare(rows(base), rows(now)))
    newly = back.get(Kind.NEW_FAILURES, [])
    assert set(there.get(Kind.FIXED, [])) == {name for name in newly if now[name] in GOOD}


@given(now=runs, base=runs)
def test_what_nobody_knows_in_either_run_is_neither_fixed_nor_a_new_failure(
    now: dict[str, Verdict], base: dict[str, Verdict]
) -> None:
    found = ids(compare(rows(now), rows(base)))
    for kind in (Kind.FIXED, Kind.NEW_FAILURES, Kind.NEWLY_FLAKY, Kind.NO_LONGER_FLAKY, Kind.NEWLY_SKIPPED):
        for name in found.get(kind, []):
            assert now[name] in KNOWN
            assert base[name] in KNOWN


@given(now=runs, base=runs)
def test_failures_of_the_other_run_are_fixed_still_there_unsettled_or_gone(
    now: dict[str, Verdict], base: dict[str, Verdict]
) -> None:
    changes = compare(rows(now), rows(base))
    failing = {name for name, verdict in base.items() if verdict is Verdict.FAILED}
    assert changes.gone == len(failing - now.keys())
    found = ids(changes)
    settled = {name for kind in (Kind.FIXED, Kind.STILL_FAILING) for name in found.get(kind, [])}
    unsettled = {name for name in failing & now.keys() if now[name] not in (*GOOD, Verdict.FAILED)}
    assert settled | unsettled == failing & now.keys()


def test_the_order_of_the_run_is_kept() -> None:
    now = rows(dict.fromkeys(reversed(NAMES), Verdict.FAILED))
    assert ids(compare(now, []))[Kind.FAILING_UNKNOWN] == list(reversed(NAMES))


@pytest.mark.parametrize(
    ("now", "base", "kind"),
    [
        (Verdict.FAILED, Verdict.PASSED, Kind.NEW_FAILURES),
        (Verdict.FAILED, Verdict.FLAKY, Kind.NEW_FAILURES),
        (Verdict.FAILED, Verdict.SKIPPED, Kind.NEW_FAILURES),
        (Verdict.FAILED, Verdict.FAILED, Kind.STILL_FAILING),
        (Verdict.FAILED, None, Kind.FAILING_UNKNOWN),
        *((Verdict.FAILED, lost, Kind.FAILING_UNKNOWN) for lost in LOST),
        (Verdict.FLAKY, Verdict.PASSED, Kind.NEWLY_FLAKY),
        (Verdict.FLAKY, Verdict.FAILED, Kind.NEWLY_FLAKY),
        (Verdict.FLAKY, Verdict.FLAKY, Kind.SAME),
        (Verdict.FLAKY, None, Kind.FLAKY_UNKNOWN),
        *((Verdict.FLAKY, lost, Kind.FLAKY_UNKNOWN) for lost in LOST),
        (Verdict.PASSED, Verdict.FAILED, Kind.FIXED),
        (Verdict.XFAILED, Verdict.FAILED, Kind.FIXED),
        (Verdict.SKIPPED, Verdict.FAILED, Kind.NEWLY_SKIPPED),
        (Verdict.SKIPPED, Verdict.PASSED, Kind.NEWLY_SKIPPED),
        (Verdict.PASSED, Verdict.FLAKY, Kind.NO_LONGER_FLAKY),
        (Verdict.PASSED, Verdict.SKIPPED, Kind.OTHERWISE),
        (Verdict.XFAILED, Verdict.PASSED, Kind.OTHERWISE),
        (Verdict.PASSED, None, Kind.ONLY_NEW),
        (Verdict.NOT_RUN, None, Kind.ONLY_NEW),
        *((lost, Verdict.FAILED, Kind.UNKNOWN) for lost in LOST),
        *((Verdict.PASSED, lost, Kind.UNKNOWN) for lost in LOST),
        (Verdict.PASSED, Verdict.PASSED, Kind.SAME),
    ],
)
def test_a_test_is_of_the_kind_that_its_verdicts_say(now: Verdict, base: Verdict | None, kind: Kind) -> None:
    assert kind_of(now, base) is kind


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        (Verdict.FAILED, Kind.NEW_TESTS_FAILING),
        (Verdict.FLAKY, Kind.NEWLY_FLAKY),
        (Verdict.PASSED, Kind.ONLY_NEW),
    ],
)
def test_a_test_that_did_not_exist_there_brought_its_failure_with_it(verdict: Verdict, kind: Kind) -> None:
    assert kind_of(verdict, None, new=True) is kind


def test_a_new_failure_that_is_quarantined_stands_apart() -> None:
    now = [Row(id="a", verdict=Verdict.FAILED, quarantine=Raw(b"{}"))]
    assert ids(compare(now, rows({"a": Verdict.PASSED}))) == {Kind.QUARANTINED: ["a"]}
    assert ids(compare(now, rows({"a": Verdict.FAILED}))) == {Kind.STILL_FAILING: ["a"]}


def test_a_test_that_moved_is_the_same_test() -> None:
    now: Mapping[str, Verdict] = {"b.py::t": Verdict.FAILED}
    changes = compare(rows(now), rows({"a.py::t": Verdict.PASSED}), moved={"b.py::t": "a.py::t"})
    assert ids(changes) == {Kind.NEW_FAILURES: ["b.py::t"]}
    assert changes[Kind.NEW_FAILURES][0].base == Row(id="a.py::t", verdict=Verdict.PASSED)
