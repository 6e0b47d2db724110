"""What pages say of many jobs: summaries, the grid, times, the roll-out, cards and metrics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.pages import boards
from ci.hud.server.pages.boards import grid
from ci.hud.server.pages.charts import Series, spark, time_chart, verdict_bar
from ci.hud.server.pages.render import VERDICTS, address, address_of_test, percent
from ci.hud.server.queries.card_health import DayVerdict, card_health
from ci.hud.server.queries.metrics import metrics
from ci.hud.server.queries.rollout import rollout
from ci.hud.server.queries.timing import lane_times, signal_seconds, spread
from tests.unit.hud.server.made_jobs import NOW, at, made


def day(day: str, verdict: str, tests: int, card: str = "") -> DayVerdict:
    return DayVerdict(day=day, card=card, verdict=verdict, tests=tests, seconds=1.0, jobs=1)


def test_a_back_end_with_a_lane_that_is_not_green_comes_first() -> None:
    jobs = [made(1, repo="a/a"), made(2, repo="b/b", conclusion="failure"), made(3, repo="b/b", lane="pr")]
    found = boards.back_ends(jobs)
    assert [one.repo for one in found] == ["b/b", "a/a"]
    assert [lane.name for lane in found[0].lanes] == ["nightly-main", "pr"]
    assert (found[0].successes, found[0].completed) == (1, 2)


def test_a_lane_shows_its_newest_jobs_the_newest_at_the_right() -> None:
    jobs = [made(number, days=number) for number in range(1, 41)]
    ((back_end),) = boards.back_ends(jobs)
    (lane,) = back_end.lanes
    assert [cell.number for cell in lane.strip] == list(range(30, 0, -1))
    assert (lane.completed, lane.last_green, lane.seconds) == (40, at(1), 3600)


def test_the_grid_has_a_row_a_commit_and_the_newest_run_in_each_cell() -> None:
    jobs = [
        made(9, sha="c", days=1), made(8, sha="c", days=2), made(7, sha="d", days=3, job_name="x"),
        made(6, sha="d", pr=5, days=4),
    ]  # fmt: skip
    board = grid(jobs, limit=10)
    assert [(row.sha, row.pr) for row in board.rows] == [("c", 0), ("d", 0), ("d", 5)]
    cells = [[cell and cell.number for cell in row.cells] for row in board.rows]
    assert cells == [[9, None], [None, 7], [6, None]]
    assert [row.sha for row in grid(jobs, limit=1, offset=1).rows] == ["d"]
    assert grid(jobs, limit=1).total == 3


def test_the_grid_leaves_out_columns_beyond_sixty_and_says_how_many() -> None:
    board = grid([made(number, job_name=f"j{number:03}", sha="s") for number in range(70)], limit=10)
    assert (len(board.columns), board.hidden, len(board.rows[0].cells)) == (60, 10, 60)


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({}, 3600), ({"first_failure_s": 60.0}, 3600),
        ({"first_failure_s": 60.0, "conclusion": "failure"}, 60),
        ({"first_failure_s": 1e9, "conclusion": "failure"}, 3600), ({"conclusion": "failure"}, 3600),
        ({"status": "in_progress"}, None), ({"completed_at": ""}, None),
    ],
)  # fmt: skip
def test_time_to_signal_is_the_first_failure_of_a_red_job_else_its_end(
    more: dict[str, Any], seconds: float | None
) -> None:
    assert signal_seconds(made(**more)) == seconds


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_of_the_nearest_rank(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    assert found.median in values
    assert found.median <= found.p90 <= found.most == max(values)
    assert sum(value <= found.p90 for value in values) >= 0.9 * len(values) - 1e-9
    assert sum(value < found.p90 for value in values) < 0.9 * len(values)


def test_a_lane_without_finished_jobs_has_no_times() -> None:
    assert lane_times([made(status="in_progress")]) == []
    assert spread([]) is None


def test_the_roll_out_follows_a_lane_through_its_stages() -> None:
    shares = {
        "in_scope": 1000,
        "selected": 50,
        "ran": 45,
        "ran_passed": 40,
        "in_scope_s": 100.0,
        "selected_s": 10.0,
    }
    jobs = [
        made(3, days=1, stage=2, percent=25.0, **(shares | {"selected": 250})),
        made(2, days=2, stage=1, percent=5.0, **shares), made(1, days=3, stage=1, percent=5.0, **shares),
        made(4, days=4), made(5, lane="other", status="in_progress", **shares),
    ]  # fmt: skip
    (lane,) = rollout(jobs)
    assert [(one.stage, one.runs, one.since) for one in lane.stages] == [(1, 2, at(3)), (2, 1, at(1))]
    tests, seconds = lane.steps[-1].tests, lane.steps[-1].seconds
    assert tests is not None
    assert seconds is not None
    assert [tests.of(name) for name in ("selected", "ran", "passed")] == [0.25, 0.045, 0.04]
    assert [seconds.of(name) for name in ("selected", "ran")] == [0.1, None]


def test_a_card_that_others_outlast_may_be_benched() -> None:
    rows = [day(f"2026-08-0{number}", "passed", 10, "good") for number in range(1, 8)]
    rows += [day("2026-08-01", "passed", 8, "bad"), day("2026-08-04", "hardware", 2, "bad")]
    bad, good = card_health(rows)
    assert (bad.card, bad.tests, bad.hardware, bad.last_hardware) == ("bad", 10, 2, "2026-08-04")
    assert (bad.last_used, bad.idle_days, bad.maybe_benched) == ("2026-08-04", 3, True)
    assert (good.idle_days, good.maybe_benched, good.last_hardware) == (0, False, "")


def test_metrics_count_outcomes_by_week() -> None:
    rows = [
        day("2026-08-23", "passed", 90), day("2026-08-24", "passed", 80), day("2026-08-24", "flaky", 10),
        day("2026-08-25", "failed", 5), day("2026-08-30", "skipped", 99), day("2026-08-30", "not_run", 3),
    ]  # fmt: skip
    found = metrics([made(days=1), made(2, days=2, status="in_progress")], rows, NOW.timestamp())
    assert [week.monday for week in found.weeks] == ["2026-08-17", "2026-08-24"]
    week = found.weeks[1]
    assert (week.ran, week.flaky, week.good, week.bad, week.jobs, week.successes) == (95, 10, 90, 8, 1, 1)
    assert (found.total.ran, found.total.flaky, found.flaky_ok) == (185, 10, False)


@pytest.mark.parametrize(("flaky", "ran", "ok"), [(0, 0, None), (0, 9, True), (5, 95, False), (4, 96, True)])
def test_exactly_five_percent_is_not_below(flaky: int, ran: int, ok: bool | None) -> None:
    rows = [day("2026-08-24", "passed", ran), day("2026-08-24", "flaky", flaky)]
    assert metrics([], rows, NOW.timestamp()).flaky_ok is ok


def test_the_cycle_of_a_commit_goes_from_its_first_dispatch_to_its_last_end() -> None:
    jobs = [
        made(1, sha="c", days=1, hours=1, queue_s=600.0), made(2, sha="c", days=0.9, hours=2),
        made(3, sha="d", days=1, status="in_progress"), made(4, sha="e", days=1, completed_at=""),
    ]  # fmt: skip
    cycle = metrics(jobs, [], NOW.timestamp()).cycle
    assert cycle is not None
    assert cycle.number == 1
    assert cycle.median == pytest.approx(600 + 0.1 * 86400 + 7200)


@given(st.dictionaries(st.sampled_from(sorted(VERDICTS)), st.integers(0, 10**7)))
def test_a_bar_of_verdicts_is_full_and_shows_each(counts: dict[str, int]) -> None:
    pieces = verdict_bar(counts)
    assert {piece.kind for piece in pieces} == {name for name, number in counts.items() if number}
    assert all(piece.width >= 6 for piece in pieces)
    assert not pieces or abs(sum(piece.width for piece in pieces) - 1000) < 1


@given(
    st.lists(st.tuples(st.floats(0, 4e9), st.floats(0, 1e12)), max_size=20),
    st.sampled_from(["s", "%", ""]),
    st.none() | st.floats(0.01, 100),
)
def test_a_chart_stays_within_its_frame(
    points: list[tuple[float, float]], unit: str, limit: float | None
) -> None:
    drawn = time_chart([Series(name="n", kind="k", points=sorted(points))], label="l", unit=unit, limit=limit)
    if drawn is None:
        assert not points
        return
    for line in drawn.lines:
        for x, y in line.points:
            assert 0 <= x <= drawn.width
            assert 0 <= y <= drawn.height
    assert 2 <= len(drawn.up) <= 12
    assert all(0 <= y <= drawn.height for y, _ in drawn.up)


@given(st.lists(st.floats(0, 1e9), max_size=50))
def test_a_sparkline_has_a_point_a_value(values: list[float]) -> None:
    assert len(spark(values).split()) == (len(values) if len(values) > 1 else 0)


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 0, "\N{EN DASH}"), (0, 5, "0 %"), (5, 5, "100 %"), (9788, 10000, "97.88 %"), (1, 10**6, "<0.01 %"),
     (10**6 - 1, 10**6, ">99.99 %")],
)  # fmt: skip
def test_a_share_is_never_rounded_to_all_or_nothing(part: int, whole: int, said: str) -> None:
    assert percent(part, whole) == said


def test_addresses_leave_out_what_is_empty_and_quote_the_rest() -> None:
    assert address("/grid", repo="o/r", lane="", days=30, offset=None) == "/grid?repo=o/r&days=30"
    assert address_of_test("a/b.py::T::t[op=x&y#z %]") == "/test?id=a/b.py::T::t%5Bop%3Dx%26y%23z%20%25%5D"
    assert address_of_test("x", 2) == "/test?id=x&place=2"


@pytest.mark.parametrize("name", ["x" * 5000, "\u202e" * 400, ""])
def test_a_test_whose_id_is_too_long_for_an_address_has_its_key_there(name: str) -> None:
    assert address_of_test(name).startswith("/test?key=")
    assert len(address_of_test(name)) < 60
