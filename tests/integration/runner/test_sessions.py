"""What tests do to pytest's session, or want of it: order, an end before its time, logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from test_selection.plan import Plan, fingerprint

from .small_runs import Runner, make_plan

FILE = "test_sessions.py"
ENDING = {
    "a_passes": "passed",
    "b_stops": "passed",
    "c_fails": "failed",
    "d_fails_first": "failed",
    "e_exits": "failed",
    "f_interrupts_whoever_comes_next": "passed",
    "g_logs": "passed",
    "h_passes": "passed",
}


@pytest.mark.parametrize("static", [True, False])
def test_a_test_that_ends_the_session_costs_nobody_else(runner: Runner, static: bool) -> None:
    runner.run(make_plan({FILE: [f"{FILE}::test_{name}" for name in ENDING]}), static=static)
    assert runner.outcomes() == {f"{FILE}::test_{name}": outcome for name, outcome in ENDING.items()}
    assert runner.named("file_error") == []
    said = {event["id"].partition("test_b")[2]: event["message"] for event in runner.named("end")}
    assert said["_stops"] == "ended the session: had enough"


def test_who_ended_the_session_is_named_where_the_rest_goes_on(runner: Runner) -> None:
    runner.run(make_plan({FILE: [f"{FILE}::test_{name}" for name in ENDING]}))
    messages = [event["message"] for event in runner.named("respawn")]
    assert messages[0].startswith(f"{FILE}::test_b_stops ended the session: had enough; ")
    assert messages[1].startswith(f"{FILE}::test_d_fails_first ended the session: stopping after 2 failures")
    # One that ends it while it runs is told of by its own failure.
    assert "gone" in next(event["message"] for event in runner.named("end") if "test_e" in event["id"])
    assert len(runner.named("group_start")) == 5


def test_a_chain_runs_in_the_order_it_was_given_with_nothing_between(runner: Runner) -> None:
    cls = "test_outcomes.py::TestOutcomes::test_"
    # unittest has them by name: errors, fails, passes, skips.
    names = [f"{cls}{name}" for name in ("errors", "skips", "fails", "passes")]
    (shard,) = make_plan({"test_outcomes.py": names}).shards
    made = (replace(shard, groups=(replace(shard.groups[0], chains=((1, 2),)),)),)
    plan = Plan(fingerprint=fingerprint(made), bound_s=1, makespan_s=1, binds="balance", shards=made)
    runner.run(plan, durations=dict.fromkeys(names, 0.01))  # one piece
    ran = [event["id"].removeprefix(cls) for event in runner.named("start")]
    assert ran == ["errors", "passes", "skips", "fails"]


def test_what_is_logged_outlives_a_crash_and_fails_no_test(runner: Runner) -> None:
    ids = [
        f"test_logs.py::TestLogs::test_{name}"
        for name in ("a_warns_and_dies", "b_cannot_be_formatted", "c_is_watched", "d_has_no_standard_error")
    ]
    runner.run(make_plan({"test_logs.py": ids}))
    assert list(runner.outcomes().values()) == ["signal", "failed", "passed", "passed"]
    assert "the last words" in runner.named("crash")[0]["detail"]
    assert "%d format" in next(event["message"] for event in runner.named("end") if event["id"] == ids[1])
