"""What a worker does at a look at the clock: the rules, one by one, over a store of the test's own.

Waits before further tries, to the millisecond.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.config.lanes_model import Lane, Retries
from ci.lanes.cadence import MOST_PASSED
from ci.lanes.turn import OpenRun, Turn, waits
from tests.lane_settings import lane
from tests.lane_store import START, Store

DAY = 86400
EVERY_MINUTE = lane("* * * * *")
HOURLY = lane("0 * * * *")
NIGHTLY = lane("0 2 * * *")


def store(**lanes: Lane) -> Store:
    return Store(lanes=lanes)


def begun(turn: Turn) -> list[tuple[str, int]]:
    return [(one.lane, one.due - START) for one in turn.begin]


def skipped(turn: Turn) -> list[tuple[int, str]]:
    return [(one.due - START, one.why) for one in turn.skip]


def test_a_new_lane_has_missed_nothing_and_begins_at_its_next_time() -> None:
    one = store(a=NIGHTLY)
    first = one.turn(START + 3 * 3600)
    assert (first.begin, first.skip) == ((), ())
    assert first.look_at == START + DAY + 2 * 3600
    assert begun(one.turn(START + DAY + 2 * 3600 - 1)) == []
    turn = one.turn(START + DAY + 2 * 3600 + 5)
    assert begun(turn) == [("a", DAY + 2 * 3600)]
    assert turn.begin[0].why == "cron 0 2 * * *, UTC"
    assert one.turn(START + DAY + 2 * 3600 + 20).begin == ()


def test_a_look_at_which_nothing_passed_changes_nothing_in_the_store() -> None:
    one = store(a=NIGHTLY, b=lane({"after_end": {"min": 6, "max": 8}}))
    one.turn(START)
    one.end("b", START + 60)
    assert one.turn(START + 3600).known == {}


def test_every_minute_with_runs_of_five_has_one_run_at_a_time_and_notes_the_others() -> None:
    one = store(a=EVERY_MINUTE)
    one.turn(START + 1)
    turns = []
    for second in range(15, 1200, 15):
        open_run = one.known["a"].open
        if open_run is not None and START + second >= open_run.due + 300:
            one.end("a", START + second)
        turns.append(one.turn(START + second))
    # At the end of the fifth minute the run is over, and that minute's time is begun.
    assert [due - START for _, due, _ in one.begun] == [60, 360, 660, 960]
    assert skipped(turns[7])[0] == (120, "the run of 2026-06-01 00:01 UTC had not ended")
    noted = [due for turn in turns for due, _ in skipped(turn)]
    assert sorted([*noted, 60, 360, 660, 960]) == list(range(60, 1200, 60))


def test_a_time_that_came_while_a_run_was_on_is_skipped_where_its_end_is_seen_at_the_same_look() -> None:
    one = store(a=HOURLY)
    one.turn(START + 1)
    assert begun(one.turn(START + 3600)) == [("a", 3600)]
    one.turn(START + 7195)
    one.end("a", START + 7210)
    turn = one.turn(START + 7210)
    assert begun(turn) == []
    assert skipped(turn) == [(7200, "the run before it had not ended")]
    assert turn.look_at == START + 3 * 3600
    assert begun(one.turn(START + 3 * 3600 + 5)) == [("a", 3 * 3600)]


def test_at_the_first_look_of_a_worker_nobody_knows_when_a_run_ended_and_its_next_time_is_begun() -> None:
    one = store(a=HOURLY)
    one.turn(START + 1)
    one.turn(START + 3600)
    one.end("a", START + 7210)
    one.first = True
    assert begun(one.turn(START + 7210)) == [("a", 7200)]


def test_of_the_times_that_were_missed_the_last_is_begun_where_it_is_not_too_late() -> None:
    one = store(a=HOURLY)
    one.turn(START + 1)
    turn = one.turn(START + 3 * 3600 + 600)
    assert begun(turn) == [("a", 3 * 3600)]
    words = "nobody was there at its time; that of 2026-06-01 03:00 UTC was begun"
    assert skipped(turn) == [(3600, words), (7200, words)]


def test_a_time_that_was_missed_by_more_than_allowed_is_skipped() -> None:
    one = store(a=NIGHTLY)
    one.turn(START + 1)
    turn = one.turn(START + 2 * 3600 + 3601)
    assert turn.begin == ()
    assert skipped(turn) == [(7200, "it was not begun within 3600 s: nobody was there, or there was no room")]
    assert begun(one.turn(START + DAY + 7200)) == [("a", DAY + 7200)]


def test_a_time_at_the_edge_of_what_is_too_late_is_begun() -> None:
    one = store(a=NIGHTLY)
    one.turn(START + 1)
    assert begun(one.turn(START + 7200 + 3600)) == [("a", 7200)]


def test_a_clock_that_goes_back_an_hour_begins_nothing_again() -> None:
    one = store(a=lane("*/10 * * * *"))
    one.turn(START + 1)
    for second in range(600, 7201, 600):
        one.turn(START + second)
        one.end("a", START + second + 5)
    assert len(one.begun) == 12
    for second in range(3600, 7201, 300):
        assert one.turn(START + second).begin == ()
    assert begun(one.turn(START + 7800)) == [("a", 7800)]


def test_a_clock_that_was_a_year_ahead_for_a_while_blocks_no_lane() -> None:
    one = store(a=NIGHTLY, b=lane({"after_end": {"min": 6, "max": 8}}))
    one.turn(START + 3 * 3600)
    one.end("b", START + 3 * 3600 + 60)
    year = 365 * DAY
    # At a quarter past two of the wrong year both are due.
    turn = one.turn(START + year + 2 * 3600 + 900)
    assert {name for name, _ in begun(turn)} == {"a", "b"}
    for name in ("a", "b"):
        one.end(name, START + year + 2 * 3600 + 1000)
    back = one.turn(START + 4 * 3600)
    assert back.begin == ()
    assert back.known["b"].last_end == START + 4 * 3600
    assert begun(one.turn(START + 12 * 3600)) == [("b", one.begun[-1][1] - START)]
    assert 10 * 3600 <= one.begun[-1][1] - START <= 12 * 3600
    assert begun(one.turn(START + DAY + 7200)) == [("a", DAY + 7200)]


def test_a_clock_that_jumps_a_year_ahead_to_stay_begins_once_and_lists_only_the_last() -> None:
    one = store(a=EVERY_MINUTE)
    one.turn(START + 1)
    turn = one.turn(START + 365 * DAY + 30)
    assert begun(turn) == [("a", 365 * DAY)]
    assert len(turn.skip) == MOST_PASSED - 1
    assert turn.skip[0].why.endswith("; as were those before it")
    assert not turn.skip[1].why.endswith("; as were those before it")


def test_a_lane_that_always_fails_is_tried_as_its_back_off_says_beside_one_that_works() -> None:
    retries = {"most": 3, "first_s": 60, "factor": 2, "longest_s": 200, "jitter": 0}
    one = store(bad=lane("0 2 * * *", retries=retries), good=HOURLY)
    one.turn(START + 1)
    tried = []
    for second in range(60, 3 * 3600, 10):
        for begin in one.turn(START + second).begin:
            if begin.lane == "bad":
                tried.append((second, begin.attempt))
                assert begin.why == "cron 0 2 * * *, UTC" or begin.why.startswith(f"try {begin.attempt} of 4")
            one.end(begin.lane, START + second, answered=begin.lane == "good")
    assert tried == [(7200, 1), (7260, 2), (7380, 3), (7580, 4)]
    assert [due - START for name, due, _ in one.begun if name == "good"] == [3600, 7200]
    known = one.known["bad"]
    assert (known.open, known.last_end) == (None, START + 7580)


def test_a_restart_in_the_middle_of_a_wait_waits_the_rest_of_it() -> None:
    one = store(a=lane("0 2 * * *", retries={"most": 1, "first_s": 600, "jitter": 0.5}, seed=3))
    one.turn(START + 1)
    one.turn(START + 7200)
    one.end("a", START + 7300, answered=False)
    open_run = one.known["a"].open
    assert open_run is not None
    wait = (open_run.next_try or 0) - START - 7300
    assert 600 < wait < 900
    # A worker of later on has the store and nothing else.
    again = Store(lanes=one.lanes, known=dict(one.known), taken=one.taken)
    waiting = again.turn(START + 7300 + wait - 1)
    assert (waiting.begin, waiting.look_at) == ((), START + 7300 + wait)
    assert waiting.quiet == {"a": "waits for its next try"}
    assert [one.attempt for one in again.turn(START + 7300 + wait).begin] == [2]


def test_a_next_try_never_waits_longer_than_its_wait_from_now() -> None:
    one = store(a=lane("0 2 * * *", retries={"most": 2, "first_s": 600, "factor": 2, "jitter": 0}))
    one.turn(START + 1)
    one.turn(START + 7200)
    one.end("a", START + 365 * DAY, answered=False)
    one.turn(START + 7300)
    assert one.turn(START + 7899).begin == ()
    assert [begin.attempt for begin in one.turn(START + 7900).begin] == [2]


def test_a_worker_that_was_away_begins_a_lane_that_counts_from_its_end_at_once() -> None:
    one = store(a=lane({"after_end": {"min": 6, "max": 8}}))
    assert begun(one.turn(START)) == [("a", 0)]
    one.end("a", START + 3600)
    assert one.turn(START + 3600 + 6 * 3600 - 1).begin == ()
    turn = one.turn(START + 30 * DAY)
    assert 7 * 3600 <= turn.begin[0].due - START <= 9 * 3600
    assert "after the end of the last run: " in turn.begin[0].why


def test_a_time_that_a_wrong_clock_took_is_not_taken_by_a_draw_again() -> None:
    one = store(a=lane({"after_end": {"min": 1, "max": 1}}))
    one.turn(START)
    one.end("a", START + 10)
    assert begun(one.turn(START + 3610)) == [("a", 3610)]
    one.end("a", START + 3620)
    # The clock goes back to where the very same second comes out.
    one.turn(START + 10)
    assert begun(one.turn(START + 3610)) == []
    assert begun(one.turn(START + 3611)) == [("a", 3611)]


def test_a_disabled_lane_begins_nothing_and_has_missed_nothing_when_it_is_enabled_again() -> None:
    one = store(a=HOURLY, b=HOURLY)
    one.turn(START + 1)
    one.lanes["a"] = lane("0 * * * *", enabled=False)
    off = one.turn(START + 3600)
    assert begun(off) == [("b", 3600)]
    assert off.quiet == {"a": "is disabled"}
    one.end("b", START + 3601)
    one.lanes["a"] = HOURLY
    on = one.turn(START + 2 * 3600 + 60)
    assert begun(on) == [("b", 7200)]
    assert on.skip == ()
    one.end("b", START + 7300)
    assert begun(one.turn(START + 3 * 3600)) == [("a", 10800), ("b", 10800)]


def test_a_lane_of_other_stages_and_one_of_a_ci_say_why_they_do_not_run() -> None:
    one = store(a=lane("0 * * * *", in_stages=[3, 4]), b=lane("0 * * * *", begun_by="ci"))
    one.turn(START + 1)
    turn = one.turn(START + 3600)
    assert turn.begin == ()
    assert turn.quiet == {
        "a": "runs in stage 3, 4 only, and stage 1 is in force",
        "b": "is begun by its CI",
    }
    one.stage = 3
    one.turn(START + 3700)
    assert begun(one.turn(START + 7200)) == [("a", 7200)]


def test_a_run_between_tries_ends_with_its_lane_and_one_that_is_on_goes_on() -> None:
    one = store(a=HOURLY, b=HOURLY, c=HOURLY)
    one.turn(START + 1)
    one.turn(START + 3600)
    for name in ("a", "c"):
        one.end(name, START + 3610, answered=False)
    for name in ("a", "b"):
        one.lanes[name] = lane("0 * * * *", enabled=False)
    del one.lanes["c"]
    turn = one.turn(START + 3700)
    assert [(end.lane, end.due - START, end.why) for end in turn.give_up] == [
        ("a", 3600, "is disabled"),
        ("c", 3600, "is no longer in the settings"),
    ]
    assert one.known["b"].open == OpenRun(due=START + 3600, attempt=1)
    assert one.turn(START + 7200).begin == ()


def test_where_there_is_no_room_the_longest_due_is_first_and_the_others_wait() -> None:
    one = store(a=lane("5 * * * *"), b=HOURLY, c=HOURLY)
    one.at_once = 1
    one.turn(START + 1)
    turn = one.turn(START + 3600 + 360)
    assert begun(turn) == [("b", 3600)]
    assert turn.quiet == dict.fromkeys(("a", "c"), "is due and waits: 1 runs at once, no more")
    assert one.turn(START + 4000).begin == ()
    one.end("b", START + 4100)
    assert begun(one.turn(START + 4100)) == [("c", 3600)]
    one.end("c", START + 4200)
    assert begun(one.turn(START + 4200)) == [("a", 3900)]


def test_what_waited_for_room_too_long_is_skipped() -> None:
    one = store(a=HOURLY, b=lane("1 1 * * *"))
    one.at_once = 1
    one.turn(START + 1)
    one.turn(START + 3600)
    assert one.turn(START + 3700).quiet["b"].startswith("is due and waits")
    turn = one.turn(START + 3661 + 3600)
    assert [(skip.lane, skip.due - START) for skip in turn.skip if skip.lane == "b"] == [("b", 3660)]


def test_without_jitter_each_wait_is_longer_by_the_factor_up_to_the_cap() -> None:
    retries = Retries(most=7, first_s=60, factor=3, longest_s=3600, jitter=0)
    assert waits(retries, seed=0, key="a-0") == (60, 180, 540, 1620, 3600, 3600, 3600)


def test_the_jitter_is_the_seeds_and_the_same_after_a_restart() -> None:
    retries = Retries(most=4, first_s=60, factor=2, longest_s=3600, jitter=0.5)
    first = waits(retries, seed=7, key="nightly-1000")
    assert first == waits(retries, seed=7, key="nightly-1000")
    assert first == (66.386, 153.25, 245.439, 554.451)
    assert waits(retries, seed=8, key="nightly-1000") == (76.872, 170.605, 302.465, 648.909)
    assert waits(retries, seed=7, key="weekly-1000") == (64.897, 134.404, 345.779, 537.366)


def test_no_retries_is_an_empty_list() -> None:
    assert waits(Retries(most=0), seed=0, key="a-0") == ()


@given(
    st.builds(
        Retries,
        most=st.integers(0, 20),
        first_s=st.floats(0.01, 7 * 86400),
        factor=st.floats(1, 10),
        longest_s=st.floats(0.01, 7 * 86400),
        jitter=st.floats(0, 1),
    ),
    st.integers(0, 2**32 - 1),
    st.text(max_size=20),
)
def test_there_are_as_many_as_tries_and_none_is_beyond_the_cap_or_twice_its_bare_wait(
    retries: Retries, seed: int, key: str
) -> None:
    found = waits(retries, seed=seed, key=key)
    assert len(found) == retries.most
    for number, wait in enumerate(found):
        bare = min(retries.first_s * retries.factor**number, retries.longest_s)
        assert round(bare, 3) <= wait <= round(min(bare * (1 + retries.jitter), retries.longest_s), 3)
