"""The geometry of the page's bars."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.result import Result
from ci.record.run_state import GroupTiming, ShardTimeline
from ci.record.verdict import PROBLEMS, Verdict
from ci.report.reconcile import Account
from ci.report.svg import LEAST, MAX_SEGMENTS, WIDTH, slowest_bars, time_chart, verdict_segments

COUNTS = st.dictionaries(st.sampled_from(Verdict), st.integers(0, 100_000))


@given(COUNTS)
def test_a_bar_is_full_and_without_gaps(counts: dict[Verdict, int]) -> None:
    segments = verdict_segments(counts)
    x = 0.0
    for one in segments:
        assert one.x == pytest.approx(x, abs=0.1)
        assert one.width >= 0
        x = one.x + one.width
    assert x == pytest.approx(WIDTH if any(counts.values()) else 0, abs=0.1)


@given(COUNTS)
def test_every_problem_can_be_seen(counts: dict[Verdict, int]) -> None:
    for one in verdict_segments(counts):
        if one.kind in PROBLEMS:
            assert one.width >= LEAST - 0.01


def test_bars_say_their_numbers() -> None:
    segments = verdict_segments({Verdict.PASSED: 3000, Verdict.NOT_RUN: 1})
    assert [one.title for one in segments] == ["3,000 passed", "1 not run"]


def test_the_longest_test_fills_its_bar() -> None:
    slow = [Result(id=str(seconds), verdict=Verdict.PASSED, seconds=seconds) for seconds in (8.0, 2.0)]
    assert [one.segments[0].width for one in slowest_bars(slow)] == [1000, 250]
    assert slowest_bars([]) == []


def test_set_up_is_shaded_and_the_expected_end_marked(account: Account) -> None:
    chart = time_chart(account, 9)
    assert chart is not None
    first = chart.bars[0]
    assert [(one.kind, one.x, one.width) for one in first.segments] == [
        ("setup", 0.0, 200.0),
        ("tests", 200.0, 200.0),
        ("setup", 400.0, 200.0),
        ("tests", 600.0, 250.0),
    ]
    assert (first.label, first.note, first.mark) == ("shard 0 on spyre:0", "17 s of 20 s expected", 1000.0)
    assert chart.bars[1].note == "10 s of 18 s expected, broke off"
    assert chart.ticks == ("0.0 s", "5.0 s", "10 s", "15 s", "20 s")


def test_a_run_without_journals_has_no_time_chart(account: Account) -> None:
    assert time_chart(replace(account, timelines=()), 9) is None


def lines(count: int, groups: int) -> tuple[ShardTimeline, ...]:
    busy = tuple(
        GroupTiming(file="a.py", setup_s=None, started_at=float(number), ended_at=number + 1.0)
        for number in range(groups)
    )
    return tuple(
        ShardTimeline(
            shard=shard,
            attempt=1,
            card=None,
            host="",
            started_at=0.0,
            ended_at=float(groups + shard),
            status="done",
            groups=busy,
        )
        for shard in range(count)
    )


def test_of_many_shards_those_that_ended_last_are_shown(account: Account) -> None:
    chart = time_chart(replace(account, timelines=lines(50, 1)), 20)
    assert chart is not None
    assert [one.label for one in chart.bars] == [f"shard {number}" for number in range(30, 50)]
    assert chart.hidden == 30


def test_a_second_attempt_is_named_and_has_no_expected_end(account: Account) -> None:
    second = replace(lines(1, 1)[0], attempt=2, status="interrupted")
    chart = time_chart(replace(account, timelines=(second,)), 20)
    assert chart is not None
    assert (chart.bars[0].label, chart.bars[0].mark) == ("shard 0, attempt 2", None)
    assert chart.bars[0].note == "1.0 s, interrupted"


def test_however_many_groups_there_are_the_chart_stays_bounded(account: Account) -> None:
    chart = time_chart(replace(account, timelines=lines(64, 500)), 64)
    assert chart is not None
    assert sum(len(bar.segments) for bar in chart.bars) <= MAX_SEGMENTS + 64
    assert chart.bars[0].segments[-1].title == "469 more files"
