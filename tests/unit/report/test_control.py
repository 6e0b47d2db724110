"""The control's plan, and whose a failure is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.failure_marks import Control
from ci.record.journal import Journal
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.control import choose, control_plan, controls, mark_controls, wants_control
from ci.report.reconcile import Account, reconcile
from test_selection.plan import Group, Shard
from tests.journal_rows import events_from

from .any_journals import A, B, C, D, make_plan

PLAN = make_plan({"a.py": [A, B]}, {"b.py": [C, D]})


def result(name: str, verdict: Verdict = Verdict.FAILED, message: str = "") -> Result:
    return Result(id=name, verdict=verdict, message=message, attempts=1)


def test_only_what_failed_of_itself_is_run_on_the_control() -> None:
    results = [result(one.value, one) for one in Verdict]
    assert wants_control(results) == ["failed"]
    assert wants_control([result("a"), result("b")], done={"a"}) == ["b"]


def test_a_strict_xfail_that_passed_would_pass_there_too_and_is_not_run() -> None:
    assert wants_control([result("a", message="[XPASS(strict)] known gap")]) == []


def test_the_controls_plan_keeps_shard_numbers_and_fingerprint() -> None:
    wide = Shard(
        index=1, expected_s=9, cards=4, speed=0.5,
        groups=(Group(file="b.py", ids=(C, D), chains=((0, 2),), alone=True, timeout_s=7.0),),
    )  # fmt: skip
    part = control_plan(replace(PLAN, shards=(PLAN.shards[0], wide)), {D}, {0, 1})
    assert part.fingerprint == PLAN.fingerprint
    assert [(one.index, one.cards, one.speed) for one in part.shards] == [(0, 1, 1.0), (1, 1, 1.0)]
    assert part.shards[0].groups == ()
    assert part.shards[1].groups == (Group(file="b.py", ids=(D,), alone=True, timeout_s=7.0),)


def test_two_hosts_never_write_journals_of_one_name() -> None:
    # Each ran a test of the other's shard, and all of them failed.
    hosts = [control_plan(PLAN, {A, C}, {0}), control_plan(PLAN, {B, D}, {1})]
    assert [[one.index for one in part.shards if one.groups] for part in hosts] == [[0], [1]]
    assert [[one.index for one in part.shards] for part in hosts] == [[0, 1], [0, 1]]
    assert [sorted(part.ids) for part in hosts] == [[A, C], [B, D]]
    assert [one.file for one in hosts[0].shards[0].groups] == ["a.py", "b.py"]


@pytest.mark.parametrize(
    ("outcome", "cause", "whose"),
    [
        ("failed", None, "upstream"), ("failed", "signal", "upstream"), ("failed", "exit", "upstream"),
        ("failed", "hang", "unclear"), ("failed", "oom", "unclear"),
        ("passed", None, "device"), ("xpassed", None, "device"),
        ("skipped", None, "unclear"), ("xfailed", None, "unclear"), ("hardware", None, "unclear"),
    ],
)  # fmt: skip
def test_only_a_failure_of_the_tests_own_on_the_control_excuses_the_device(
    outcome: str, cause: str | None, whose: str
) -> None:
    found = {A: Control(device="cpu", outcome=outcome, cause=cause)}
    (one,) = mark_controls([result(A)], found)
    assert (one.whose, one.upstream) == (whose, whose == "upstream")
    known = Account(results=(one, result(B)), expected_s={}, control="cpu").failures
    assert (known.upstream, known.device, known.unclear) == tuple(
        int(whose == kind) for kind in ("upstream", "device", "unclear")
    )


def test_its_journals_are_read_against_the_same_plan() -> None:
    part = control_plan(PLAN, {A, D}, {0, 1})
    events = [
        {"t": 1.0, "e": "shard_start", "card": "cpu:0", "fingerprint": part.fingerprint},
        {"t": 2.0, "e": "start", "id": A},
        {"t": 3.0, "e": "crash", "id": A, "cause": "signal", "message": "died by SIGABRT", "detail": "why"},
        {"t": 4.0, "e": "start", "id": D},
        {"t": 5.0, "e": "end", "id": D, "outcome": "passed"},
        {"t": 6.0, "e": "not_run", "ids": [C], "message": "the file no longer holds this test"},
    ]
    journal = Journal(path=Path("0-1"), shard=0, attempt=1, events=events_from(events))
    found = controls(reconcile(PLAN, [journal]).results, "cpu")
    assert found == {
        A: Control(device="cpu", outcome="failed", cause="signal", message="died by SIGABRT", detail="why"),
        D: Control(device="cpu", outcome="passed"),
    }
    marked = mark_controls([result(A), result(B), result(C), result(D)], found)
    assert [one.upstream for one in marked] == [True, False, False, False]
    assert [str(one.control) for one in marked if one.control] == [
        "cpu: failed: died by SIGABRT", "cpu: passed",
    ]  # fmt: skip


def test_a_test_that_came_to_a_good_end_bears_no_mark() -> None:
    found = {A: Control(device="cpu", outcome="failed")}
    assert [one.control for one in mark_controls([result(A, Verdict.FLAKY)], found)] == [None]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True), st.integers(0, 12))
def test_a_limit_is_shared_by_the_files_in_turn(pairs: list[tuple[str, int]], limit: int) -> None:
    ids = [f"{file}.py::t{number}" for file, number in pairs]
    kept = choose(ids, limit)
    assert len(kept) == min(limit, len(ids))
    assert kept == [one for one in ids if one in set(kept)]
    counts = {file: sum(one.startswith(file) for one in kept) for file in "abc"}
    whole = {file: sum(one.startswith(file) for one in ids) for file in "abc"}
    open_ = [counts[file] for file in "abc" if counts[file] < whole[file]]
    assert not open_ or max(counts.values()) - min(open_) <= 1
