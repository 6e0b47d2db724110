from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.pipeline.compare import Changes, compare
from ci.pipeline.told import Row
from ci.report.verdict import Verdict

NAMES = [f"test_a.py::test_{number}" for number in range(8)]
GOOD = (Verdict.PASSED, Verdict.XFAILED, Verdict.XPASSED)
runs = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(list(Verdict)))


def rows(verdicts: dict[str, Verdict]) -> list[Row]:
    return [Row(id=name, verdict=verdict) for name, verdict in verdicts.items()]


def ids(changes: Changes) -> dict[str, list[str]]:
    kinds = ("newly_failing", "failing_unknown", "still_failing", "fixed", "newly_flaky")
    return {kind: [row.id for row in getattr(changes, kind)] for kind in kinds}


@given(now=runs, base=runs)
def test_every_test_is_in_one_kind_at_most_and_every_failure_in_one(
    now: dict[str, Verdict], base: dict[str, Verdict]
) -> None:
    found = ids(compare(rows(now), rows(base)))
    told = [name for names in found.values() for name in names]
    assert len(told) == len(set(told))
    assert set(told) <= set(now)
    failing = found["newly_failing"] + found["failing_unknown"] + found["still_failing"]
    assert set(failing) == {name for name, verdict in now.items() if verdict is Verdict.FAILED}


@given(now=runs)
def test_against_itself_nothing_is_new_or_fixed(now: dict[str, Verdict]) -> None:
    changes = compare(rows(now), rows(now))
    failing = {name for name, verdict in now.items() if verdict is Verdict.FAILED}
    assert {row.id for row in changes.still_failing} == failing
    assert ids(changes) | {"still_failing": []} == {key: [] for key in ids(changes)}
    assert changes.gone == 0


@given(now=runs, base=runs)
def test_what_is_fixed_one_way_is_newly_failing_the_other(
    now: dict[str, Verdict], base: dict[str, Verdict]
) -> None:
    there = compare(rows(now), rows(base))
    back = compare(rows(base), rows(now))
    fixed = {row.id for row in there.fixed}
    assert fixed == {row.id for row in back.newly_failing if now[row.id] in GOOD}


@given(now=runs, base=runs)
def test_failures_of_the_other_run_are_fixed_still_there_unsettled_or_gone(
    now: dict[str, Verdict], base: dict[str, Verdict]
) -> None:
    changes = compare(rows(now), rows(base))
    failing = {name for name, verdict in base.items() if verdict is Verdict.FAILED}
    assert changes.gone == len(failing - set(now))
    settled = {row.id for row in (*changes.fixed, *changes.still_failing)}
    unsettled = {name for name in failing & set(now) if now[name] not in (*GOOD, Verdict.FAILED)}
    assert settled | unsettled == failing & set(now)


def test_the_order_of_the_run_is_kept() -> None:
    now = rows(dict.fromkeys(reversed(NAMES), Verdict.FAILED))
    assert [row.id for row in compare(now, []).failing_unknown] == list(reversed(NAMES))


def test_a_test_without_an_outcome_there_says_nothing_of_who_broke_it() -> None:
    lost = (Verdict.NOT_RUN, Verdict.INFRASTRUCTURE, Verdict.HARDWARE)
    base = rows(dict(zip(NAMES, lost, strict=False)))
    found = ids(compare(rows(dict.fromkeys(NAMES[:4], Verdict.FAILED)), base))
    assert found["failing_unknown"] == NAMES[:4]
    assert found["newly_failing"] == []


def test_a_skip_is_no_fix_and_a_flake_that_failed_before_is_newly_flaky() -> None:
    base = rows(dict.fromkeys(NAMES[:2], Verdict.FAILED))
    now = rows({NAMES[0]: Verdict.SKIPPED, NAMES[1]: Verdict.FLAKY})
    found = ids(compare(now, base))
    assert found["fixed"] == []
    assert found["newly_flaky"] == [NAMES[1]]
